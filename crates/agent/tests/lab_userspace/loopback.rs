//! Without any privilege: every frontend is dialled at the port that the proxy told of.
//!
//! The scenarios' flows are dialled by n1 itself, each at the loopback port of its frontend, where the node may expect the same.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Flow, Mode, Objects, Scenario, to_manifests};
use switchyard_lab::{Dial, Lab, Node, Process, Transport};
use switchyard_model::{Family, Protocol, TrafficPolicy};

use crate::common::explained;
use crate::common::looking::{PATIENCE, http, within};
use crate::common::proxy::scenarios;
use crate::common::relayed::{page, through_a_relay, without_meaning};
use crate::common::stage::Stage;
use crate::common::variant::say;
use crate::is_turned_away;

const TAKES_EFFECT: Duration = Duration::from_secs(15);

/// A directory that everybody can read, with the program in it.
pub(crate) fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    open(dir.path());
    std::fs::create_dir(dir.path().join("manifests")).unwrap();
    open(&dir.path().join("manifests"));
    std::fs::create_dir(dir.path().join("run")).unwrap();
    std::os::unix::fs::chown(dir.path().join("run"), Some(65534), Some(65534)).unwrap();
    let program = dir.path().join("switchyard");
    if std::fs::hard_link(env!("CARGO_BIN_EXE_switchyard"), &program).is_err() {
        std::fs::copy(env!("CARGO_BIN_EXE_switchyard"), &program).unwrap();
    }
    open(&program);
    dir
}

pub(crate) fn write(dir: &Path, text: &str) {
    std::fs::write(dir.join("next.json"), text).unwrap();
    std::fs::set_permissions(dir.join("next.json"), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::rename(dir.join("next.json"), dir.join("manifests/objects.json")).unwrap();
}

/// The program, run by a user who may do nothing.
fn program(dir: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--no-new-privs"]);
    command.arg(dir.join("switchyard")).env("XDG_RUNTIME_DIR", dir.join("run"));
    command
}

/// The proxy of such a user.
pub(crate) fn proxy(dir: &Path) -> Command {
    let mut command = program(dir);
    command.args(["--proxy-mode=userspace", "--hostname-override=n1"]);
    command
}

/// Starts it on n1, with manifests.
pub(crate) fn start(lab: &Lab, dir: &Path, flags: &[String]) -> Process {
    let mut command = proxy(dir);
    command.arg("--manifests").arg(dir.join("manifests")).args(flags);
    lab.node(Node::N1).start(&mut command, &dir.join("log")).unwrap()
}

/// What a subcommand says to the same user.
pub(crate) fn ask(lab: &Lab, dir: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = program(dir);
    command.args(arguments);
    let output = lab.node(Node::N1).run(|| command.output())??;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// What `switchyard explain` says to the same user.
fn explain(lab: &Lab, dir: &Path, to: SocketAddr, protocol: Protocol) -> anyhow::Result<Value> {
    let to = format!("{to}/{protocol}");
    Ok(serde_json::from_str(&ask(lab, dir, &["explain", "--to", &to, "-o", "json"])?)?)
}

/// Where each frontend can be dialled now, by the log.
pub(crate) fn doors(log: &str) -> BTreeMap<String, SocketAddr> {
    let mut doors = BTreeMap::new();
    for line in log.lines() {
        let Some((_, rest)) = line.split_once(" frontend=") else { continue };
        let Some((frontend, dial)) = rest.split_once(" dial=") else { continue };
        let dial: SocketAddr = dial.trim().parse().unwrap();
        if line.contains("a frontend can be dialled") {
            doors.insert(frontend.to_owned(), dial);
        } else if doors.get(frontend) == Some(&dial) {
            doors.remove(frontend);
        }
    }
    doors
}

/// The frontend of a flow in the words of the log.
fn frontend(flow: &Flow, family: Family) -> String {
    let (port, protocol) = (flow.port, flow.protocol);
    match (flow.to, flow.to.ip(family)) {
        (Symbol::Node(_), _) => format!("node port {port}/{protocol} ({family})"),
        (_, Some(ip)) => format!("{}/{protocol}", SocketAddr::new(ip, port)),
        (_, None) => String::new(),
    }
}

/// True if a flow means something on loopback: it is the node's, or does not depend on who dials. A node port has one door, however
/// many addresses the node has.
fn is_meant(flow: &Flow, objects: &Objects) -> bool {
    let is_for_all = objects
        .services
        .values()
        .all(|service| service.external_policy == TrafficPolicy::Cluster && service.source_ranges.is_empty());
    let is_anybodys = matches!(flow.to, Symbol::Cluster(_)) || is_for_all;
    (flow.from == Symbol::Node(1) || is_anybodys) && !matches!(flow.to, Symbol::Gateway | Symbol::Localhost)
}

/// The flows that mean something, all from n1.
fn meant(mut scenario: Scenario) -> Scenario {
    for step in &mut scenario.steps {
        step.flows.retain(|flow| is_meant(flow, &step.objects));
        step.flows.iter_mut().for_each(|flow| flow.from = Symbol::Node(1));
    }
    scenario
}

fn check(
    stage: &Stage,
    flow: &Flow,
    family: Family,
    doors: &BTreeMap<String, SocketAddr>,
) -> anyhow::Result<()> {
    let expected = flow.expected_in(Mode::Iptables);
    if matches!(expected, Expected::Http(_)) {
        return stage.check(flow, Mode::Iptables, family);
    }
    let door = doors.get(&frontend(flow, family)).copied();
    match (expected, door) {
        (Expected::Untouched, None) => Ok(()),
        (Expected::Untouched, Some(door)) => bail!("{door} is open"),
        (_, None) => bail!("nothing is open"),
        // Whoever is connected can only be told by a reset, and a datagram only be lost.
        (Expected::Reject | Expected::Drop, Some(door)) if flow.protocol == Protocol::Tcp => {
            let answer = stage.host(flow.from)?.dial(&Dial::tcp(door));
            ensure!(is_turned_away(&answer), "got {answer:?}");
            Ok(())
        }
        (Expected::Reject, Some(door)) => stage.check_at(flow, door, &Expected::Drop),
        (expected, Some(door)) => stage.check_at(flow, door, expected),
    }
}

/// What is said of a flow: that nothing leads from the frontend to anywhere, and of its listener what packets to it do.
fn check_explained(
    (stage, dir): (&Stage, &Path),
    objects: &Objects,
    flow: &Flow,
    family: Family,
    doors: &BTreeMap<String, SocketAddr>,
) -> anyhow::Result<()> {
    let ip = flow.to.ip(family).context("no address")?;
    let said = explain(stage.lab(), dir, SocketAddr::new(ip, flow.port), flow.protocol)?;
    let door = doors.get(&frontend(flow, family)).copied();
    let field = |name: &str| said.get(name).unwrap_or(&Value::Null);
    ensure!(*field("verdict") == "untouched" && *field("by") == json!([]), "{said}");
    ensure!(*field("dialInstead") == json!(door.map(|door| door.to_string())), "{said}, but it is {door:?}");
    let Some(door) = door else { return Ok(()) };
    let reason = format!("on this host dial {door} instead");
    ensure!(field("reason").as_str().is_some_and(|text| text.ends_with(&reason)), "{said}");
    let said = explain(stage.lab(), dir, door, flow.protocol)?;
    let expected = match (flow.expected_in(Mode::Iptables), flow.protocol) {
        // As for packets, see `check`.
        (Expected::Drop, Protocol::Tcp) => &Expected::Reject,
        (Expected::Reject, Protocol::Udp) => &Expected::Drop,
        (expected, _) => expected,
    };
    explained::check(&said, objects, flow, expected, "which take turns", family)
}

/// Plays a scenario; says how many flows meant something, each counted in every family, as with rules.
fn play(scenario: &Scenario) -> anyhow::Result<usize> {
    let (lab, dir) = (Lab::new()?, place());
    let flows = scenario.steps.iter().flat_map(|step| &step.flows);
    let count = flows.map(|flow| flow.families().len()).sum();
    if count == 0 {
        return Ok(0);
    }
    let mut agent: Option<Process> = None;
    let stage = Stage::new(lab, scenario)?;
    for step in &scenario.steps {
        write(dir.path(), &to_manifests(&step.objects, &Family::ALL));
        let agent = agent.get_or_insert_with(|| start(stage.lab(), dir.path(), &scenario.flags()));
        agent.wait_for_log("full sync done family=IPv6", PATIENCE)?;
        let end = Instant::now() + TAKES_EFFECT;
        for (flow, family) in
            step.flows.iter().flat_map(|flow| flow.families().iter().map(move |f| (flow, *f)))
        {
            loop {
                let doors = doors(&agent.log()?);
                let checked = check(&stage, flow, family, &doors).and_then(|()| {
                    check_explained((&stage, dir.path()), &step.objects, flow, family, &doors)
                        .context("switchyard explain")
                });
                match checked {
                    Ok(()) => break,
                    Err(error) if Instant::now() >= end => {
                        return Err(error.context(format!("{}:{} {flow} {family}", scenario.name, flow.line)));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        }
    }
    let agent = agent.context("a scenario has steps")?;
    ensure!(!agent.log()?.contains("panicked"), "{}", agent.log()?);
    Ok(count)
}

/// The page says how many scenarios and flows there are, and how many of them mean something here.
fn check_counts(all: &[Scenario], scenarios: usize, flows: usize) {
    let every = all.iter().flat_map(|scenario| &scenario.steps).flat_map(|step| &step.flows);
    let every: usize = every.map(|flow| flow.families().len()).sum();
    let row = format!("| userspace, without rules | {scenarios} of {} | {flows} of {every} |", all.len());
    assert!(page().unwrap().contains(&row), "docs/modes.md lacks: {row}");
}

#[test]
fn scenarios_hold_for_a_user_without_privileges() {
    if Lab::new_or_skip().is_none() {
        return;
    }
    let mut all = Scenario::read_all(&scenarios()).unwrap();
    let picked = std::env::var("SCENARIO").unwrap_or_default();
    all.retain(|scenario| scenario.name.contains(&picked));
    let listed = without_meaning().unwrap();
    let (mut flows, mut failures, mut silent) = (0, Vec::new(), Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(scenario) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let result = play(&meant(through_a_relay(scenario.clone(), Mode::Iptables)));
                    results.lock().unwrap().push((scenario.name.clone(), result));
                }
            });
        }
    });
    for (name, result) in results.into_inner().unwrap() {
        match result {
            Ok(0) => silent.push(name),
            Ok(count) => flows += count,
            Err(error) => failures.push(format!("{name}: {error:#}")),
        }
    }
    silent.sort();
    say(&format!(
        "lab userspace on loopback: {} scenarios, {flows} flows, {} failed",
        all.len(),
        failures.len()
    ));
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    let expected: Vec<&String> = listed.keys().filter(|name| name.contains(&picked)).collect();
    assert_eq!(silent.iter().collect::<Vec<_>>(), expected, "docs/modes.md lists others");
    if picked.is_empty() {
        check_counts(&all, all.len() - silent.len(), flows);
    }
}

pub(crate) const WEB: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\n";

pub(crate) fn manifests(text: &str) -> String {
    let scenario = Scenario::parse("loopback", text).unwrap();
    to_manifests(&scenario.steps.last().unwrap().objects, &[Family::V4])
}

/// Nobody needs a right to dial, and a listener that has nobody to turn to is told from one that has.
#[test]
fn a_probe_of_a_listener_needs_no_privilege() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let dir = place();
    let pod = lab.add_pod(Node::N1, 1).unwrap();
    let _echo = pod.echo_tcp(8080).unwrap();
    write(dir.path(), &manifests(&format!("{WEB}service nobody cluster.2:80/tcp nodeport=30081\n")));
    let mut agent = start(&lab, dir.path(), &[]);
    agent.wait_for_log("SERVICE", PATIENCE).unwrap();
    for (port, verdict, fate) in [(30_080, "endpoints", "it answered"), (30_081, "reject", "it was refused")]
    {
        let to = format!("127.0.0.1:{port}");
        let said = ask(&lab, dir.path(), &["explain", "--to", &to, "--probe"]).unwrap();
        assert!(said.contains(&format!("\nverdict     {verdict}: ")), "{said}");
        let probed = format!("\nprobe       as said above: the packet went to the relay, and {fate}\n");
        assert!(said.contains(&probed), "{said}");
        assert!(said.contains(&format!("by  listener {to} of this process")), "{said}");
    }
}

#[test]
fn ports_are_printed_stay_and_come_back() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let (dir, n1) = (place(), lab.node(Node::N1).clone());
    let pod = lab.add_pod(Node::N1, 1).unwrap();
    let _echo = pod.echo_tcp(8080).unwrap();
    // Another program has one of the node ports.
    let taken = n1.run(|| TcpListener::bind("127.0.0.1:30081")).unwrap().unwrap();
    let busy = "service busy cluster.2:80/tcp nodeport=30081\nendpoint busy n1.1:8080\n";
    write(dir.path(), &manifests(&format!("{WEB}{busy}")));
    let mut agent = start(&lab, dir.path(), &[]);
    agent.wait_for_log("CAP_NET_ADMIN", PATIENCE).unwrap();
    agent.wait_for_log("SERVICE", PATIENCE).unwrap();
    agent.wait_for_log("127.0.0.1:30081 (another program of this host listens there)", PATIENCE).unwrap();
    let before = doors(&agent.log().unwrap());
    let (node_port, cluster_ip) = (before["node port 30080/tcp (IPv4)"], before["10.96.0.1:80/tcp"]);
    assert_eq!(node_port, "127.0.0.1:30080".parse().unwrap());
    for at in [node_port, cluster_ip, before["10.96.0.2:80/tcp"]] {
        assert_eq!(n1.dial(&Dial::tcp(at)).name(), Some("pod-1-1"), "{at}");
        assert!(agent.log().unwrap().contains(&format!("  {at}\n")), "{at} is in the table");
    }
    let listed = ask(&lab, dir.path(), &["get", "services"]).unwrap();
    let web = listed.lines().find(|line| line.contains(" web ")).unwrap();
    assert!(web.ends_with(&format!(" {cluster_ip},{node_port}")), "{listed}");
    assert!(listed.lines().next().unwrap().ends_with("DIAL"), "{listed}");
    assert_eq!(http(&n1, "127.0.0.1:10256", "/healthz").unwrap().0, 200);
    // Others come and go, the port becomes free, the program starts again.
    drop(taken);
    let other = "service other cluster.3:80/tcp\nendpoint other n1.1:8080\n";
    write(dir.path(), &manifests(&format!("{other}{busy}{WEB}")));
    let at_last = "127.0.0.1:30081".parse().unwrap();
    assert!(within(PATIENCE, || n1.dial(&Dial::tcp(at_last)).name() == Some("pod-1-1")));
    write(dir.path(), &manifests(WEB));
    assert!(within(PATIENCE, || is_turned_away(&n1.dial(&Dial::tcp(at_last)))));
    assert_eq!(doors(&agent.log().unwrap())["10.96.0.1:80/tcp"], cluster_ip);
    agent.terminate().unwrap();
    assert!(agent.wait(PATIENCE).unwrap().is_some_and(|status| status.success()));
    let mut agent = start(&lab, dir.path(), &[]);
    agent.wait_for_log("SERVICE", PATIENCE).unwrap();
    assert_eq!(doors(&agent.log().unwrap())["10.96.0.1:80/tcp"], cluster_ip, "the same after a restart");
    let answer = n1.dial(&Dial::new(Transport::Tcp, cluster_ip));
    assert_eq!(answer.name(), Some("pod-1-1"));
}
