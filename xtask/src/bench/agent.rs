//! The real agent, as a process on a node of the lab, with the manifests of a large cluster: its memory, and what one
//! changed endpoint costs it.
//!
//! It uses the legacy variant of iptables: 10,000 Services are in the kernel within seconds there, and what the agent
//! itself keeps is the same for both.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context, Result, bail};
use switchyard_lab::{Host, Lab, Node, Process};

use super::cluster::ENDPOINTS;
use super::manifests::Manifests;
use super::progress::Progress;
use super::{Goal, Measured, Sizes, duration, median};

/// What [`measure`] tells the progress.
pub(super) const STEPS: usize = 5;

const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);
const PLANNED: &str = "switchyard_planned_service_ports_total";
const OPS: &str = "switchyard_kernel_ops_total{ip_family=\"IPv4\"}";
const FULL_SYNCS: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"}";
const DONE: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}";
const GOAL_MB: f64 = 60.0;
const PATIENCE: Duration = Duration::from_secs(600);
/// Longer than the agent's own look at all files, after which nothing is left to do.
const SETTLE: Duration = Duration::from_secs(7);
/// Endpoints changed one after another.
const CHANGES: u32 = 3;

/// What was seen of one agent.
struct Seen {
    services: u32,
    resident: f64,
    peak: f64,
    after_changes: f64,
    planned: f64,
    ops: f64,
    first_sync: Duration,
    /// Service ports planned and lines written by each change.
    changes: Vec<(f64, f64)>,
    time: Duration,
}

pub(super) fn measure(sizes: Sizes, progress: &mut Progress) -> Result<Vec<Measured>> {
    progress.step("building the release binary of the agent");
    let program = build()?;
    let small = watch(&program, sizes.small, progress)?;
    let large = watch(&program, sizes.large, progress)?;
    let mut lines = memory(&large, sizes);
    lines.extend([&small, &large].into_iter().flat_map(one_change));
    let written =
        |seen: &Seen| seen.changes.iter().map(|(_, ops)| format!("{ops}")).collect::<Vec<_>>().join(" ");
    let same = small
        .changes
        .iter()
        .chain(&large.changes)
        .all(|(_, ops)| Some(ops) == small.changes.first().map(|(_, o)| o));
    lines.push(Measured {
        what: format!(
            "agent, one endpoint changed: lines written at {} : at {}",
            small.services, large.services
        ),
        value: format!("{} : {}", written(&small), written(&large)),
        wanted: "equal",
        goal: Goal::met(same),
    });
    Ok(lines)
}

fn memory(large: &Seen, sizes: Sizes) -> Vec<Measured> {
    let what = |text: &str| format!("agent, {} Services x {ENDPOINTS}: {text}", large.services);
    vec![
        Measured {
            what: what("resident memory after the first sync (peak)"),
            value: format!("{:.1} MB ({:.1})", large.resident, large.peak),
            wanted: "under 60 MB",
            goal: Goal::met(large.resident < GOAL_MB).at(sizes),
        },
        Measured::info(what("resident memory after changes"), format!("{:.1} MB", large.after_changes)),
        Measured::info(
            what("first sync, legacy variant: service ports planned, lines"),
            format!("{}, {}", large.planned, large.ops),
        ),
        Measured::info(what("start to first sync done, legacy variant"), duration(large.first_sync)),
    ]
}

fn one_change(seen: &Seen) -> [Measured; 2] {
    let what =
        |text: &str| format!("agent, {} Services x {ENDPOINTS}: one endpoint changed, {text}", seen.services);
    let planned: Vec<String> = seen.changes.iter().map(|(planned, _)| planned.to_string()).collect();
    [
        Measured {
            what: what("service ports planned"),
            value: planned.join(" "),
            wanted: "1",
            goal: Goal::met(seen.changes.iter().all(|(planned, _)| *planned == 1.0)),
        },
        Measured::info(what("rename to committed, legacy variant (median)"), duration(seen.time)),
    ]
}

fn watch(program: &Path, services: u32, progress: &mut Progress) -> Result<Seen> {
    progress.step(&format!("agent with {services} Services: first sync"));
    let mut manifests = Manifests::write(services)?;
    let lab = Lab::new().context("cannot make the lab; run as root")?;
    let node = lab.node(Node::N1);
    let logs = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command.arg("--manifests").arg(manifests.path());
    command.args(["--hostname-override", "n1", "--iptables-backend", "legacy"]);
    let begin = Instant::now();
    let mut agent = node.start(&mut command, &logs.path().join("agent.log"))?;
    agent.wait_for_log("full sync done family=IPv6", PATIENCE)?;
    let first_sync = begin.elapsed();
    thread::sleep(SETTLE);
    let page = metrics(node)?;
    if sample(&page, FULL_SYNCS)? != 1.0 {
        bail!("the agent synced everything more than once");
    }
    let (resident, peak) = (status(&agent, "VmRSS:")?, status(&agent, "VmHWM:")?);
    let (planned, ops) = (sample(&page, PLANNED)?, sample(&page, OPS)?);
    progress.step(&format!("agent with {services} Services: one endpoint changed, {CHANGES} times"));
    let mut changes = Vec::new();
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        let (counted, time) = change_one(node, &mut manifests, services / (CHANGES + 1) * change)?;
        changes.push(counted);
        times.push(time);
        thread::sleep(SETTLE);
    }
    let after_changes = status(&agent, "VmRSS:")?;
    Ok(Seen {
        services,
        resident,
        peak,
        after_changes,
        planned,
        ops,
        first_sync,
        changes,
        time: median(times),
    })
}

/// Changes one endpoint and waits for the commit; how many service ports were planned and lines written, and the time.
fn change_one(node: &Host, manifests: &mut Manifests, service: u32) -> Result<((f64, f64), Duration)> {
    let before = metrics(node)?;
    manifests.replace_endpoint(service)?;
    let begin = Instant::now();
    let done = sample(&before, DONE)?;
    let mut after = metrics(node)?;
    while sample(&after, DONE)? <= done {
        if begin.elapsed() > PATIENCE {
            bail!("a changed endpoint was not committed in time");
        }
        thread::sleep(Duration::from_millis(5));
        after = metrics(node)?;
    }
    let time = begin.elapsed();
    let delta = |name| Ok::<f64, anyhow::Error>(sample(&after, name)? - sample(&before, name)?);
    Ok(((delta(PLANNED)?, delta(OPS)?), time))
}

/// The agent's metrics page, asked for inside of the node.
fn metrics(node: &Host) -> Result<String> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        Ok(page)
    };
    node.run(ask)?.context("cannot read the agent's metrics")
}

fn sample(page: &str, name: &str) -> Result<f64> {
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.with_context(|| format!("the agent has no metric {name}"))?;
    value.parse().with_context(|| format!("{name} is no number"))
}

/// A field of the process status, in megabytes.
fn status(agent: &Process, field: &str) -> Result<f64> {
    let path = format!("/proc/{}/status", agent.id());
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no such field")?;
    Ok(kilobytes.parse::<f64>()? / 1024.0)
}

/// Builds the release binary into the target directory of this program.
fn build() -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = crate::repository::root()?;
    let arguments = ["build", "--quiet", "--release", "--locked", "-p", "switchyard"];
    let status =
        Command::new(cargo).args(arguments).current_dir(root).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("cargo could not build the agent");
    }
    let own = env::current_exe().context("cannot find this program")?;
    let target = own.parent().and_then(Path::parent).context("this program is not in a target directory")?;
    Ok(target.join("release/switchyard"))
}
