//! A lab with the proxy on node n1, whose objects change while packets flow.
//!
//! In: statements of the scenario language, which add up. Out: who answers, rules, metrics, logs. Waiting is always for something that
//! can be seen, up to [`PATIENCE`]. When a [`World`] ends, no log of the proxy may tell of a panic, and
//! in nftables mode `nft` must be able to list what there is.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use switchyard_lab::scenario::address::{Symbol, node};
use switchyard_lab::scenario::{CLUSTER_CIDR, Scenario, to_manifests};
use switchyard_lab::{Answer, Dial, Echo, Host, Lab, Node, Process, Transport};
use switchyard_model::Family;

use super::looking::{HEALTH, at, eventually, http, ip, is_idle, script, series};
use super::ruleset;
use super::variant::Variant;

/// The port that every pod answers on, over TCP and UDP.
pub(crate) const POD_PORT: u16 = 8080;

/// An endpoint that never answers: no pod is made for it.
const NOBODY: &str = "n2.240";

/// See the module.
pub(crate) struct World {
    pub(crate) lab: Lab,
    pub(crate) variant: Variant,
    script: RefCell<String>,
    revision: RefCell<u16>,
    pods: RefCell<BTreeMap<Symbol, (Host, Vec<Echo>)>>,
    agent: RefCell<Option<Process>>,
    runs: RefCell<Vec<PathBuf>>,
    dir: tempfile::TempDir,
}

impl World {
    /// A lab without a proxy yet; prints why if there can be none.
    pub(crate) fn new_or_skip(variant: Variant) -> Option<Self> {
        let lab = Lab::new_or_skip().filter(|lab| variant.is_usable(lab))?;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("manifests")).unwrap();
        let (script, pods, agent, runs) = Default::default();
        Some(Self { lab, variant, script, revision: RefCell::new(0), pods, agent, runs, dir })
    }

    /// With these objects, the proxy running and everything written.
    pub(crate) fn running(variant: Variant, statements: &str) -> Option<Self> {
        let world = Self::new_or_skip(variant)?;
        world.write(statements);
        world.start(&[]);
        world.settle();
        Some(world)
    }

    /// A file of this test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn n1(&self) -> &Host {
        self.lab.node(Node::N1)
    }

    /// A pod by its symbol, such as `n1.3`; its echo servers start with the first use.
    pub(crate) fn pod(&self, symbol: &str) -> Host {
        let symbol = Symbol::parse(symbol).unwrap();
        let Symbol::Pod(number, index) = symbol else { panic!("{symbol} is no pod") };
        let mut pods = self.pods.borrow_mut();
        let (host, _) = pods.entry(symbol).or_insert_with(|| {
            let host = self.lab.add_pod(node(number).unwrap(), index).unwrap();
            let echoes = vec![host.echo_tcp(POD_PORT).unwrap(), host.echo_udp(POD_PORT).unwrap()];
            (host, echoes)
        });
        host.clone()
    }

    /// Who dials: a pod, a node or the client.
    pub(crate) fn host(&self, symbol: &str) -> Host {
        match Symbol::parse(symbol).unwrap() {
            Symbol::Client => self.lab.client().clone(),
            Symbol::Node(n) => self.lab.node(node(n).unwrap()).clone(),
            _ => self.pod(symbol),
        }
    }

    /// Adds statements of the scenario language and writes the objects that follow from all of them. Pods that they name are made.
    pub(crate) fn write(&self, statements: &str) {
        self.script.borrow_mut().push_str(&format!("\n{statements}\n"));
        self.rewrite();
    }

    fn rewrite(&self) {
        let scenario = Scenario::parse("world", &self.script.borrow()).unwrap();
        let pods = scenario.pods().into_iter().map(|pod| pod.to_string()).filter(|pod| pod != NOBODY);
        pods.for_each(|pod| drop(self.pod(&pod)));
        let objects = &scenario.steps.last().unwrap().objects;
        self.put_manifest("world.yaml", to_manifests(objects, &Family::ALL).as_bytes());
    }

    /// The directory that the proxy reads.
    pub(crate) fn manifests(&self) -> PathBuf {
        self.path("manifests")
    }

    /// Replaces a manifest in one step.
    pub(crate) fn put_manifest(&self, name: &str, content: &[u8]) {
        let draft = self.path("draft");
        std::fs::write(&draft, content).unwrap();
        std::fs::rename(draft, self.manifests().join(name)).unwrap();
    }

    /// A Service that nothing else uses; rules for its port show that what was written before it is being put in force.
    fn mark(&self) -> u16 {
        let mut revision = self.revision.borrow_mut();
        *revision += 1;
        let marker = format!("service marker cluster.250:{revision}/tcp\nendpoint marker {NOBODY}:1\n");
        self.script.borrow_mut().push_str(&marker);
        self.rewrite();
        *revision
    }

    /// Waits until what was written so far is in force in both families.
    pub(crate) fn settle(&self) {
        let mark = self.mark();
        self.wait_for_mark(self.n1(), mark);
    }

    fn wait_for_mark(&self, host: &Host, mark: u16) {
        // After the rules, chains may still have to go.
        eventually("the rules are written", || ruleset::has_mark(host, self.variant, mark) && is_idle(host));
    }

    /// The agent's command line for this world.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.arg("--manifests").arg(self.manifests()).args(self.flags()).args(flags);
        self.environment(&mut command);
        command
    }

    /// Starts the proxy on n1 in another variant than this world's.
    pub(crate) fn start_as(&self, variant: Variant) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.arg("--manifests").arg(self.manifests()).args(flags(variant));
        self.environment(&mut command);
        self.launch(self.n1(), &mut command);
    }

    /// Flags of every run, without its source.
    pub(crate) fn flags(&self) -> [String; 6] {
        flags(self.variant)
    }

    /// A lock file and a place for fake programs of its own.
    pub(crate) fn environment(&self, command: &mut Command) {
        let mut path = OsString::from(self.fakes());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        command.env("PATH", path).env("XTABLES_LOCKFILE", self.lock_file());
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.path("xtables.lock")
    }

    /// Programs in this directory come before the real ones.
    pub(crate) fn fakes(&self) -> PathBuf {
        self.path("bin")
    }

    /// Puts a script in front of the IPv4 restore; `exec "$REAL" "$@"` runs the real one. Its input can be read, again and again, from
    /// /proc/self/fd/0.
    pub(crate) fn fake_restore(&self, text: &str) {
        let name = format!("iptables-{}-restore", self.variant.backend().unwrap());
        let real = self.n1().exec_ok("which", &[&name]).unwrap();
        script(&self.fakes().join(name), &format!("REAL={}\n{text}", real.trim()));
    }

    /// Starts the proxy on n1. It may still be reading when this returns.
    pub(crate) fn start(&self, flags: &[&str]) {
        self.launch(self.n1(), &mut self.command(flags));
    }

    /// Starts any command as the proxy of this world.
    pub(crate) fn launch(&self, host: &Host, command: &mut Command) {
        let log = self.path(&format!("run-{}.log", self.runs.borrow().len()));
        let agent = host.start(command, &log).unwrap();
        self.runs.borrow_mut().push(log);
        *self.agent.borrow_mut() = Some(agent);
    }

    /// Does something with the running proxy.
    pub(crate) fn agent<T>(&self, act: impl FnOnce(&mut Process) -> T) -> T {
        act(self.agent.borrow_mut().as_mut().unwrap())
    }

    /// kill -9.
    pub(crate) fn kill(&self) {
        self.agent(|agent| agent.kill().unwrap());
    }

    /// The logs of all runs.
    pub(crate) fn log(&self) -> String {
        let read = |path: &PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        self.runs.borrow().iter().map(read).collect()
    }

    /// Waits until the log has a text.
    pub(crate) fn wait_for_log(&self, text: &str) {
        eventually(&format!("{text:?} in the log"), || self.log().contains(text));
    }

    /// Every rule of n1, see [`ruleset`].
    pub(crate) fn rules(&self) -> String {
        ruleset::rules(self.n1(), self.variant)
    }

    /// True if the proxy has written any rule.
    pub(crate) fn has_rules(&self) -> bool {
        match self.variant {
            Variant::Nftables | Variant::Ipvs | Variant::Userspace => !self.rules().is_empty(),
            Variant::Nft | Variant::Legacy => self.rules().contains("KUBE-"),
        }
    }

    /// A node without rules that has the addresses of n1, which nobody can reach: it is made of a pod.
    fn twin(&self) -> Host {
        let twin = self.lab.add_pod(Node::N2, 239).unwrap();
        for family in Family::ALL {
            let address = ip(self.n1(), family).to_string();
            twin.exec_ok("ip", &["address", "add", &address, "dev", "lo"]).unwrap();
        }
        twin
    }

    /// The rules must be those that a proxy writes which starts with the present objects on a node without any.
    pub(crate) fn assert_as_fresh(&self) {
        let mark = self.mark();
        let twin = self.twin();
        let _fresh = twin.start(&mut self.command(&[]), &self.path("fresh.log")).unwrap();
        self.wait_for_mark(&twin, mark);
        self.wait_for_mark(self.n1(), mark);
        let (fresh, now) = (ruleset::rules(&twin, self.variant), self.rules());
        let only = |a: &str, b: &str| -> String {
            let b: BTreeSet<&str> = b.lines().collect();
            a.lines().filter(|line| !b.contains(line)).map(|line| format!("{line}\n")).collect()
        };
        let (missing, left) = (only(&fresh, &now), only(&now, &fresh));
        assert!(fresh == now, "missing:\n{missing}left over:\n{left}");
    }

    /// From now on a packet to a cluster IP that no rule translates is refused at once, so that a moment without rules cannot hide
    /// behind the kernel's second attempt to connect.
    pub(crate) fn refuse_untranslated(&self) {
        for (family, range) in [("-4", "10.96.0.0/12"), ("-6", "fd00:10:96::/112")] {
            self.n1().exec_ok("ip", &[family, "route", "replace", "prohibit", range]).unwrap();
        }
    }

    /// Runs iptables (or ip6tables) of this variant on n1.
    pub(crate) fn iptables(&self, tool: &str, arguments: &[&str]) -> String {
        let lock = format!("XTABLES_LOCKFILE={}", self.lock_file().display());
        let tool = format!("{tool}-{}", self.variant.backend().unwrap());
        let all = [&[lock.as_str(), tool.as_str(), "-w", "5"], arguments].concat();
        self.n1().exec_ok("env", &all).unwrap()
    }

    /// Asks once from a host for `cluster.1:80` and the like.
    pub(crate) fn ask(&self, from: &str, transport: Transport, to: &str, family: Family) -> Answer {
        let dial = Dial::new(transport, at(to, family)).within(Duration::from_secs(2));
        self.host(from).dial(&dial)
    }

    /// Waits until one of the pods answers, in both families.
    pub(crate) fn wait_for_answer(&self, from: &str, transport: Transport, to: &str, by: &[&str]) {
        for family in Family::ALL {
            let what = format!("{by:?} answers on {to} ({family})");
            let is_one = |name: &str| by.iter().any(|pod| self.pod(pod).name() == name);
            eventually(&what, || self.ask(from, transport, to, family).name().is_some_and(is_one));
        }
    }

    /// Waits until nobody answers, in both families.
    pub(crate) fn wait_for_silence(&self, from: &str, transport: Transport, to: &str) {
        for family in Family::ALL {
            let dial = Dial::new(transport, at(to, family)).within(Duration::from_millis(200));
            eventually(&format!("{to} is silent"), || self.host(from).dial(&dial).name().is_none());
        }
    }

    /// The sum of all series of a metric whose labels contain `label`.
    pub(crate) fn metric(&self, name: &str, label: &str) -> f64 {
        series(self.n1(), name)
            .iter()
            .filter(|(labels, _)| labels.contains(label))
            .map(|(_, value)| value)
            .sum()
    }

    /// A page of the health server: status and body.
    pub(crate) fn health(&self, path: &str) -> (u16, String) {
        http(self.n1(), HEALTH, path).unwrap_or_default()
    }
}

fn flags(variant: Variant) -> [String; 6] {
    [
        "--hostname-override=n1".to_owned(),
        variant.flag(),
        format!("--cluster-cidr={CLUSTER_CIDR}"),
        "--iptables-min-sync-period=0s".to_owned(),
        // The limit belongs to the machine, not to the lab.
        "--conntrack-max-per-core=0".to_owned(),
        // Its usual place belongs to the machine, too.
        "--admin-socket=".to_owned(),
    ]
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.agent.borrow_mut().take());
        let log = self.log();
        if std::thread::panicking() {
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("the proxy's log ends with:");
            tail.iter().rev().for_each(|line| eprintln!("  {line}"));
        } else {
            assert!(!log.contains("panicked"), "{log}");
            if self.variant.backend().is_none() {
                ruleset::check_listable(self.n1()).unwrap();
            }
        }
    }
}
