//! The lab of the demo: nodes with proxies, pods for every endpoint that the files name, and two clients.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, anyhow};
use switchyard_lab::scenario::address::wire_family;
use switchyard_lab::{Echo, Host, Lab, Node, Process, address};
use switchyard_model::{Complaint, Event, Family, Protocol, Snapshot, Tracker};
use switchyard_source::manifests;

use super::rows::{CLIENT_POD, CLUSTER_CIDRS, From, rows};
use super::traffic::{Outcome, request};
use crate::flags::{DemoFlags, IptablesBackend};

/// How long a proxy may take for its first sync.
const START: Duration = Duration::from_secs(30);

/// What came of one round of requests.
pub(super) struct Round {
    /// One per row.
    pub(super) outcomes: Vec<Outcome>,
    /// What is wrong with the files.
    pub(super) complaints: Vec<Complaint>,
}

/// See the module. Fields are dropped in order: programs before the namespaces that they run in.
pub(super) struct Stage {
    files: PathBuf,
    proxies: Vec<Process>,
    echoes: BTreeMap<(IpAddr, u16, Protocol), Echo>,
    pods: BTreeMap<(u8, u8), Host>,
    client_pod: Host,
    lab: Lab,
}

impl Stage {
    /// Builds everything and waits until both proxies have written their rules.
    pub(super) fn build(files: &Path, flags: &DemoFlags, scratch: &Path) -> anyhow::Result<Self> {
        let lab = Lab::new()?;
        let client_pod = lab.add_pod(Node::N1, CLIENT_POD)?;
        let proxies = Node::ALL
            .iter()
            .map(|node| start_proxy(&lab, *node, files, flags, scratch))
            .collect::<Result<_, _>>()?;
        let mut stage = Self {
            files: files.to_owned(),
            proxies,
            echoes: BTreeMap::new(),
            pods: BTreeMap::new(),
            client_pod,
            lab,
        };
        for proxy in &mut stage.proxies {
            wait_until_synced(proxy)?;
        }
        Ok(stage)
    }

    /// The node whose proxy is shown.
    pub(super) fn node(&self) -> &Host {
        self.lab.node(Node::N1)
    }

    /// Reads the files, makes pods that are new in them, and requests every row.
    pub(super) fn round(&mut self) -> anyhow::Result<Round> {
        for proxy in &mut self.proxies {
            if proxy.exit_status()?.is_some() {
                return Err(proxy_ended(proxy));
            }
        }
        let (snapshot, complaints) = self.snapshot()?;
        self.populate(&snapshot)?;
        let outcomes = rows(&snapshot).into_iter().map(|row| {
            let from = match row.from {
                From::Pod => &self.client_pod,
                From::Outside => self.lab.client(),
            };
            request(row, from, pod_name)
        });
        Ok(Round { outcomes: outcomes.collect(), complaints })
    }

    /// What the files hold, and what is wrong with them.
    fn snapshot(&self) -> anyhow::Result<(Snapshot, Vec<Complaint>)> {
        let config = manifests::Config {
            path: self.files.clone(),
            node_name: Node::N1.name().to_owned(),
            service_ranges: crate::flags::default_service_ranges(),
            max_file_bytes: manifests::MAX_FILE_BYTES,
        };
        let mut tracker = Tracker::new();
        let mut complaints = Vec::new();
        for event in manifests::read_once(config)? {
            if let Event::Complaints(_, list) = &event {
                complaints.extend(list.iter().cloned());
            }
            tracker.apply(event);
        }
        Ok((tracker.snapshot(), complaints))
    }

    /// A pod with an echo server for every endpoint with an address of the lab's plan.
    fn populate(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        for port in snapshot.ports.values() {
            for endpoint in &port.endpoints {
                self.add_endpoint(endpoint.address, port.name.protocol)?;
            }
        }
        Ok(())
    }

    fn add_endpoint(&mut self, at: SocketAddr, protocol: Protocol) -> anyhow::Result<()> {
        let key = (at.ip(), at.port(), protocol);
        let Some((node, index)) = pod_at(at.ip()).filter(|_| !self.echoes.contains_key(&key)) else {
            return Ok(());
        };
        let pod = match self.pods.get(&(node.number(), index)) {
            Some(pod) => pod.clone(),
            None => self.lab.add_pod(node, index)?,
        };
        self.pods.insert((node.number(), index), pod.clone());
        // An echo server answers on both families; the second one to ask finds the port taken.
        let other = self
            .echoes
            .keys()
            .any(|(ip, port, p)| pod_at(*ip) == Some((node, index)) && *port == at.port() && *p == protocol);
        if !other && protocol != Protocol::Sctp {
            let echo = match protocol {
                Protocol::Udp => pod.echo_udp(at.port()),
                Protocol::Tcp | Protocol::Sctp => pod.echo_tcp(at.port()),
            };
            self.echoes.insert(key, echo?);
        }
        Ok(())
    }
}

/// Node and number of the pod with this address in the lab's plan.
fn pod_at(ip: IpAddr) -> Option<(Node, u8)> {
    let family = wire_family(Family::of(ip));
    let all = Node::ALL.into_iter().flat_map(|node| (0..=address::LAST_POD).map(move |index| (node, index)));
    all.into_iter().find(|(node, index)| address::pod(*node, *index, family) == Some(ip))
}

fn pod_name(ip: IpAddr) -> Option<String> {
    pod_at(ip).map(|(node, index)| format!("pod-{}-{index}", node.number()))
}

fn start_proxy(
    lab: &Lab,
    node: Node,
    files: &Path,
    flags: &DemoFlags,
    scratch: &Path,
) -> anyhow::Result<Process> {
    let program = std::env::current_exe().context("cannot find the own program")?;
    let backend = match flags.iptables_backend {
        IptablesBackend::Auto => "auto",
        IptablesBackend::Nft => "nft",
        IptablesBackend::Legacy => "legacy",
    };
    let mut command = Command::new(program);
    command
        .arg("--manifests")
        .arg(files)
        .args(["--hostname-override", node.name(), "--cluster-cidr", CLUSTER_CIDRS])
        .args(["--proxy-mode", flags.mode.as_str(), "--iptables-backend", backend])
        // The limit of connections belongs to the machine, not to the demo.
        .args(["--iptables-min-sync-period", "0s", "--conntrack-max-per-core", "0"])
        .arg("--admin-socket")
        .arg(scratch.join(format!("{}.sock", node.name())))
        .env("XTABLES_LOCKFILE", scratch.join(format!("{}.lock", node.name())));
    Ok(lab.node(node).start(&mut command, &scratch.join(format!("{}.log", node.name())))?)
}

fn wait_until_synced(proxy: &mut Process) -> anyhow::Result<()> {
    match proxy.wait_for_log("full sync done", START) {
        Ok(()) => Ok(()),
        Err(_) => Err(proxy_ended(proxy)),
    }
}

fn proxy_ended(proxy: &Process) -> anyhow::Error {
    let log = proxy.log().unwrap_or_default();
    let tail: Vec<&str> = log.lines().rev().take(8).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    anyhow!("a proxy does not work; the end of its log:\n{}", tail.join("\n"))
}
