//! The agent under test: the real program in the network namespace of a lab node, fed from a directory of its own.
//!
//! In: a node of the lab, an iptables variant, flags. Out: its metrics, its log, its end, and what it left in the kernel. Everything it
//! shares with the machine otherwise, such as the lock file of iptables, lies in the directory of the test.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use switchyard_lab::scenario::Mode;
use switchyard_lab::{Host, Lab, Node, Process};
use tempfile::TempDir;

/// How long the agent may take for its first sync, and for its end. Other tests may keep the machine busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// How the agent writes rules: a mode, and in iptables mode a variant of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// iptables over nf_tables.
    Nft,
    /// iptables over x_tables.
    Legacy,
    /// nftables mode.
    Nftables,
}

impl Variant {
    /// True if the programs work here. If not, says so; with `LAB=require` in the environment that is a panic.
    pub(crate) fn is_usable(self, lab: &Lab) -> bool {
        let node = lab.node(Node::N1);
        let works = |family: &str| match self.backend() {
            Some(backend) => node.exec_ok(&format!("{family}-{backend}"), &["-w", "-t", "nat", "-S"]),
            None => node.exec_ok("nft", &["list", "tables"]),
        };
        let Some(error) = ["iptables", "ip6tables"].into_iter().find_map(|family| works(family).err()) else {
            return true;
        };
        let reason = format!("{self} does not work: {error}");
        assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but {reason}");
        say(&format!("SKIPPED, {reason}"));
        false
    }
}

impl Variant {
    /// The ending of the names of the iptables programs; none in nftables mode.
    fn backend(self) -> Option<&'static str> {
        match self {
            Self::Nft => Some("nft"),
            Self::Legacy => Some("legacy"),
            Self::Nftables => None,
        }
    }

    /// The mode whose expectations count.
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Nft | Self::Legacy => Mode::Iptables,
            Self::Nftables => Mode::Nftables,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
            Self::Nftables => "nftables",
        })
    }
}

/// Prints a line that also a passing test shows: what print macros write is held back for those.
pub(crate) fn say(line: &str) {
    // A test whose output nobody reads still counts.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Directory, node and variant of an agent; the agent itself may be started, stopped and started again.
pub(crate) struct Bench {
    node: Host,
    variant: Variant,
    directory: TempDir,
}

impl Bench {
    /// A bench on node n1, with no objects.
    pub(crate) fn new(lab: &Lab, variant: Variant) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        std::fs::create_dir(directory.path().join("manifests"))?;
        Ok(Self { node: lab.node(Node::N1).clone(), variant, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces all objects at once, by renaming a complete file.
    pub(crate) fn write_objects(&self, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.path("next.json"), text)?;
        std::fs::rename(self.path("next.json"), self.path("manifests/objects.json"))?;
        Ok(())
    }

    /// Starts an agent as node n1, without pauses between syncs.
    pub(crate) fn start<F: AsRef<str>>(&self, flags: &[F]) -> anyhow::Result<Agent> {
        let mut command = self.command();
        command.arg("--manifests").arg(self.path("manifests"));
        command.args(["--hostname-override=n1", "--iptables-min-sync-period=0s", "-v=4"]);
        command.args(["--healthz-bind-address=0.0.0.0:10256", "--metrics-bind-address=127.0.0.1:10249"]);
        command.args(flags.iter().map(AsRef::as_ref));
        let process = self.node.start(&mut command, &self.path("agent.log"))?;
        Ok(Agent { process, node: self.node.clone() })
    }

    /// Runs `--cleanup`, which must succeed.
    pub(crate) fn clean_up(&self) -> anyhow::Result<()> {
        let mut process = self.node.start(self.command().arg("--cleanup"), &self.path("cleanup.log"))?;
        let status = process.wait(PATIENCE)?;
        ensure!(status.is_some_and(|s| s.success()), "--cleanup: {status:?}: {}", process.log()?);
        Ok(())
    }

    /// The chains of the proxy that the kernel holds, of both families; the kubelet's own is left out.
    pub(crate) fn chains(&self) -> anyhow::Result<Vec<String>> {
        let Some(backend) = self.variant.backend() else { return self.tables() };
        let mut chains = Vec::new();
        for family in ["iptables", "ip6tables"] {
            let program = format!("{family}-{backend}-save");
            let saved = self.node.exec_ok::<&str>(&program, &[])?;
            let names = saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
            let ours = names.filter(|name| name.starts_with("KUBE-") && *name != "KUBE-FIREWALL");
            chains.extend(ours.map(|name| format!("{family} {name}")));
        }
        Ok(chains)
    }

    /// The tables of nftables mode.
    fn tables(&self) -> anyhow::Result<Vec<String>> {
        let tables = self.node.exec_ok("nft", &["list", "tables"])?;
        Ok(tables.lines().filter(|line| line.ends_with(" switchyard")).map(String::from).collect())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.env("XTABLES_LOCKFILE", self.path("xtables.lock"));
        command.arg(match self.variant.backend() {
            Some(backend) => format!("--iptables-backend={backend}"),
            None => "--proxy-mode=nftables".to_owned(),
        });
        command
    }
}

/// A running agent. Killed when dropped.
pub(crate) struct Agent {
    process: Process,
    node: Host,
}

impl Agent {
    /// The end of its log, for messages.
    pub(crate) fn log_end(&self) -> String {
        let log = self.process.log().unwrap_or_else(|error| error.to_string());
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(15)..).unwrap_or_default().join("\n")
    }

    /// Waits until both families were written once.
    pub(crate) fn wait_until_synced(&mut self) -> anyhow::Result<()> {
        const WRITTEN: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.process.exit_status()?;
            let times = self.metric(WRITTEN).unwrap_or_default();
            if times.iter().filter(|time| **time > 0.0).count() == 2 {
                return Ok(());
            }
            if status.is_some() || Instant::now() >= end {
                bail!(
                    "no first sync; exit {status:?}, times {times:?}; the log ends with\n{}",
                    self.log_end()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The values of all series of a metric.
    fn metric(&self, name: &str) -> anyhow::Result<Vec<f64>> {
        let (_, text) = http(&self.node, SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 10249), "/metrics")?;
        let series = text.lines().filter_map(|line| line.strip_prefix(name));
        let series = series.filter(|rest| rest.starts_with(['{', ' ']));
        let value = |rest: &str| rest.rsplit(' ').next().unwrap_or_default().parse().context("metric value");
        series.map(value).collect()
    }

    /// The sum over all series of a metric.
    pub(crate) fn total(&self, name: &str) -> anyhow::Result<f64> {
        Ok(self.metric(name)?.iter().sum())
    }

    /// Asks it to end (SIGTERM), which it must do in time and without an error.
    pub(crate) fn terminate(mut self) -> anyhow::Result<()> {
        self.process.terminate()?;
        let status = self.process.wait(PATIENCE)?;
        ensure!(status.is_some_and(|s| s.success()), "after SIGTERM: {status:?}; log:\n{}", self.log_end());
        Ok(())
    }
}

/// Asks an HTTP server; says status and body.
pub(crate) fn http(from: &Host, to: SocketAddr, path: &str) -> anyhow::Result<(u16, String)> {
    let text = from.run(|| -> std::io::Result<String> {
        let wait = Duration::from_secs(2);
        let mut stream = TcpStream::connect_timeout(&to, wait)?;
        stream.set_read_timeout(Some(wait))?;
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    })??;
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    Ok((status.ok_or_else(|| anyhow!("no HTTP answer: {text:?}"))?, body.to_owned()))
}

/// The directory of the scenarios.
pub(crate) fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}
