//! Who relays, and how each is started and looked at.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use switchyard_lab::{Host, Process};
use tempfile::TempDir;

use super::load::Target;

const PATIENCE: Duration = Duration::from_secs(30);
/// Ports of the rivals; ours are told in the log.
const PORTS: [u16; 3] = [15_001, 15_002, 15_003];
/// Idle connections; socat makes a process for each.
const IDLE: [(Rival, usize); 3] = [(Rival::Switchyard, 5_000), (Rival::Haproxy, 5_000), (Rival::Socat, 200)];

/// A way from clients to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    Direct,
    Switchyard,
    Socat,
    Haproxy,
}

impl Rival {
    pub(super) const ALL: [Self; 4] = [Self::Direct, Self::Switchyard, Self::Socat, Self::Haproxy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Switchyard => "switchyard",
            Self::Socat => "socat",
            Self::Haproxy => "HAProxy",
        }
    }
}

/// One that runs.
pub(super) struct Running {
    pub(super) rival: Rival,
    /// Where its way to each target begins.
    pub(super) sink: SocketAddr,
    pub(super) echo: SocketAddr,
    silent: SocketAddr,
    processes: Vec<Process>,
    _files: TempDir,
}

impl Running {
    pub(super) fn start(rival: Rival, host: &Host, agent: &Path, target: &Target) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let targets = [target.sink, target.echo, target.silent];
        let (ways, processes) = match rival {
            Rival::Direct => (targets, Vec::new()),
            Rival::Switchyard => switchyard(host, agent, &targets, files.path())?,
            Rival::Socat => socat(host, &targets, files.path())?,
            Rival::Haproxy => haproxy(host, &targets, files.path())?,
        };
        let [sink, echo, silent] = ways;
        let running = Self { rival, sink, echo, silent, processes, _files: files };
        for way in ways {
            running.wait_for(host, way)?;
        }
        Ok(running)
    }

    fn wait_for(&self, host: &Host, way: SocketAddr) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while host.run(|| TcpStream::connect(way))?.is_err() {
            if Instant::now() >= end {
                bail!("{} does not listen on {way}", self.rival.name());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// How many connections were held idle, and bytes of memory for each; nothing for a direct connection.
    pub(super) fn memory_per_connection(
        &self,
        host: &Host,
        target: &Target,
        is_full: bool,
    ) -> Result<Option<(usize, f64)>> {
        let Some((_, most)) = IDLE.into_iter().find(|(rival, _)| *rival == self.rival) else {
            return Ok(None);
        };
        let count = if is_full { most } else { most / 20 };
        let before = self.memory()?;
        let silent = self.silent;
        debug_assert!(target.silent != silent);
        let dial = move || (0..count).map(|_| TcpStream::connect(silent)).collect::<Result<Vec<_>, _>>();
        let held = host.run(dial)?.context("cannot hold so many connections")?;
        // Whatever is done at the beginning of a connection is done after this.
        thread::sleep(Duration::from_secs(2));
        let after = self.memory()?;
        drop(held);
        let count_f64 = f64::from(u32::try_from(count)?);
        Ok(Some((count, (after - before) / count_f64)))
    }

    /// Bytes that its processes and their children have for themselves, shared pages in shares.
    fn memory(&self) -> Result<f64> {
        let mut all: Vec<u32> = self.processes.iter().map(Process::id).collect();
        let mut sum = 0.0;
        while let Some(id) = all.pop() {
            let path = format!("/proc/{id}/smaps_rollup");
            // A child that ended meanwhile has none.
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kib: f64 =
                line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).context(path)?;
            sum += kib * 1024.0;
            all.extend(children(id));
        }
        Ok(sum)
    }
}

fn children(id: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Ways, and what serves them.
type Started = ([SocketAddr; 3], Vec<Process>);

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Without any capability, so on loopback. Node ports have their own numbers there.
fn switchyard(host: &Host, agent: &Path, targets: &[SocketAddr; 3], files: &Path) -> Result<Started> {
    const NODE_PORTS: [u16; 3] = [30_001, 30_002, 30_003];
    let objects: String =
        targets.iter().zip(NODE_PORTS).map(|(target, port)| service(*target, port)).collect();
    fs::write(files.join("objects.yaml"), objects)?;
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]).arg(agent);
    command.args(["--proxy-mode=userspace", "--hostname-override=n1"]);
    command.arg("--manifests").arg(files.join("objects.yaml"));
    let mut process = host.start(&mut command, &files.join("log"))?;
    process.wait_for_log("full sync done family=IPv6", PATIENCE)?;
    Ok((NODE_PORTS.map(local), vec![process]))
}

fn service(target: SocketAddr, node_port: u16) -> String {
    let (ip, port) = (target.ip(), target.port());
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: s{node_port}, namespace: bench}}\nspec:\n  type: NodePort\n  \
         ports: [{{port: 80, nodePort: {node_port}}}]\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata: {{name: s{node_port}-1, namespace: bench, labels: {{kubernetes.io/service-name: s{node_port}}}}}\n\
         addressType: IPv4\nports: [{{name: '', port: {port}}}]\nendpoints: [{{addresses: ['{ip}']}}]\n---\n"
    )
}

fn socat(host: &Host, targets: &[SocketAddr; 3], files: &Path) -> Result<Started> {
    let mut processes = Vec::new();
    for (target, port) in targets.iter().zip(PORTS) {
        let mut command = Command::new("socat");
        let listen = format!("TCP4-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,backlog=4096,nodelay");
        command.args(["-b", "65536", &listen, &format!("TCP4:{target},nodelay")]);
        processes.push(host.start(&mut command, &files.join(format!("log-{port}")))?);
    }
    Ok((PORTS.map(local), processes))
}

fn haproxy(host: &Host, targets: &[SocketAddr; 3], files: &Path) -> Result<Started> {
    let ports = PORTS.map(|port| port + 100);
    let mut config =
        "global\n  maxconn 6000\ndefaults\n  mode tcp\n  option splice-auto\n  timeout connect 5s\n  \
                      timeout client 1h\n  timeout server 1h\n"
            .to_owned();
    for (target, port) in targets.iter().zip(ports) {
        config.push_str(&format!("listen p{port}\n  bind 127.0.0.1:{port}\n  server t {target}\n"));
    }
    fs::write(files.join("haproxy.cfg"), config)?;
    let mut command = Command::new("haproxy");
    command.args(["-db", "-f"]).arg(files.join("haproxy.cfg"));
    Ok((ports.map(local), vec![host.start(&mut command, &files.join("log"))?]))
}
