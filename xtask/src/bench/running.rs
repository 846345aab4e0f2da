//! The real agent as a process on a node of the lab: started with manifests, asked for its metrics, looked at from
//! outside.
//!
//! In: a program, a node, a directory of manifests. Out: times, memory, processor time, samples of its metrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail};
use switchyard_lab::{Host, Process};
use tempfile::TempDir;

use super::manifests::Manifests;

pub(super) const PLANNED: &str = "switchyard_planned_service_ports_total";
pub(super) const OPS: &str = "switchyard_kernel_ops_total{ip_family=\"IPv4\"}";
const FULL_SYNCS: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"}";
const DONE: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}";
const METRICS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10249);
const PATIENCE: Duration = Duration::from_secs(600);
/// Long enough for what follows a sync: files are looked at once more, old rules of other modes are removed.
pub(super) const SETTLE: Duration = Duration::from_secs(4);

/// A running agent. Killed when dropped.
pub(super) struct Running {
    node: Host,
    process: Process,
    begin: Instant,
    _logs: TempDir,
}

/// Its memory in megabytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) resident: f64,
    pub(super) peak: f64,
}

/// What one changed endpoint cost.
pub(super) struct Change {
    pub(super) planned: f64,
    pub(super) ops: f64,
    /// From the new file to the commit.
    pub(super) time: Duration,
}

impl Running {
    /// Starts it on a node.
    pub(super) fn start(program: &Path, node: &Host, manifests: &Manifests, flags: &[&str]) -> Result<Self> {
        let logs = tempfile::tempdir()?;
        let mut command = Command::new(program);
        command.arg("--manifests").arg(manifests.path());
        command.args(["--hostname-override", "n1"]).args(flags);
        let begin = Instant::now();
        let process = node.start(&mut command, &logs.path().join("agent.log"))?;
        Ok(Self { node: node.clone(), process, begin, _logs: logs })
    }

    /// Waits for the first sync of both families; how long it took since the start.
    pub(super) fn wait_until_synced(&mut self) -> Result<Duration> {
        self.process.wait_for_log("full sync done family=IPv6", PATIENCE)?;
        Ok(self.begin.elapsed())
    }

    /// Waits until nothing is left to do. It is an error if there was more than one full sync.
    pub(super) fn settle(&self) -> Result<Page> {
        thread::sleep(SETTLE);
        let page = self.metrics()?;
        if page.sample(FULL_SYNCS)? != 1.0 {
            bail!("the agent synced everything more than once");
        }
        Ok(page)
    }

    /// Its metrics page, asked for inside of the node.
    pub(super) fn metrics(&self) -> Result<Page> {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(METRICS)?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page)?;
            Ok(page)
        };
        Ok(Page(self.node.run(ask)?.context("cannot read the agent's metrics")?))
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        let path = format!("/proc/{}/status", self.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let megabytes = |field: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no such field")?;
            Ok(kilobytes.parse::<f64>()? / 1024.0)
        };
        Ok(Memory { resident: megabytes("VmRSS:")?, peak: megabytes("VmHWM:")? })
    }

    /// Changes one endpoint and waits for the commit.
    pub(super) fn change_one(&self, manifests: &mut Manifests, service: u32) -> Result<Change> {
        let before = self.metrics()?;
        manifests.replace_endpoint(service)?;
        let begin = Instant::now();
        let done = before.sample(DONE)?;
        let mut after = self.metrics()?;
        while after.sample(DONE)? <= done {
            if begin.elapsed() > PATIENCE {
                bail!("a changed endpoint was not committed in time");
            }
            thread::sleep(Duration::from_millis(5));
            after = self.metrics()?;
        }
        let time = begin.elapsed();
        let delta = |name| Ok::<f64, anyhow::Error>(after.sample(name)? - before.sample(name)?);
        Ok(Change { planned: delta(PLANNED)?, ops: delta(OPS)?, time })
    }

    /// Asks it to end, and waits for that.
    pub(super) fn stop(mut self) -> Result<()> {
        self.process.terminate()?;
        self.process.wait(PATIENCE)?.context("the agent did not stop")?;
        Ok(())
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }
}

/// A page of metrics.
pub(super) struct Page(String);

impl Page {
    pub(super) fn sample(&self, name: &str) -> Result<f64> {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("the agent has no metric {name}"))?;
        value.parse().with_context(|| format!("{name} is no number"))
    }
}

/// Builds the release binary into the target directory of this program.
pub(crate) fn build() -> Result<PathBuf> {
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
