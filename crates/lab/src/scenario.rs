//! Scenarios: objects in, and for some flows who may answer, from which source address they are seen, or how they are
//! refused. The packet tracers and the lab run the same files.
//!
//! A scenario is plain text, one thing per line; `#` starts a comment. Addresses are symbols (see [`address`]), so that
//! every scenario runs in both families.
//!
//! ```text
//! option cluster-cidr=none                       # settings of the proxy under test, on node n1
//! service-cidrs 10.96.0.0/16,fd00:10:96::/112     # `none` takes them away again
//! service web cluster.1:80/tcp nodeport=30080 etp=Local
//! endpoint web n1.1:8080                         # pod 1 of node n1
//! endpoint web n2.1:8080 ready=false
//! flow tcp client -> n1:30080 : n1.1@client      # only n1.1 answers, and sees the client's own address
//! flow tcp n1.9 -> cluster.1:80 : n1.1@client
//! then the endpoint goes away                    # what follows changes the objects above
//! remove endpoint web n1.1:8080
//! flow tcp client -> n1:30080 : reject
//! ```
//!
//! Where nftables or ipvs mode differs on purpose, its own expectation stands after a bar: `: untouched | nftables reject`.
//!
//! What may stand after the colon is in [`Expected`]; the options, which are flags of the agent without their dashes, in
//! [`OPTIONS`]. A flow to `localhost` is tried in IPv4 only: no mode serves node ports on `::1`.

pub mod address;
mod manifest;
mod objects;
mod parse;

pub use manifest::to_manifests;
pub use objects::{EndpointSpec, Objects, PortSpec, ServiceSpec};
pub use parse::ParseError;

use std::collections::BTreeMap;
use std::path::Path;

use switchyard_model::{Family, Protocol};

use address::Symbol;

/// Options that a scenario may set.
pub const OPTIONS: [&str; 6] = [
    "cluster-cidr",
    "detect-local-mode",
    "iptables-localhost-nodeports",
    "masquerade-all",
    "nodeport-addresses",
    "pod-interface-name-prefix",
];

/// The pods of the lab: `cluster-cidr` of a scenario that does not set it. `none` means that pods cannot be told.
pub const CLUSTER_CIDR: &str = "10.1.0.0/16,fd00:10:1::/48";

/// Whose address an endpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// The client's own.
    Client,
    /// One of the node under test.
    Node,
}

/// What must happen to a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Exactly these pods answer, sooner or later each of them.
    Pods(BTreeMap<Symbol, Seen>),
    /// `sticky` and pods: one of these pods answers, and the same one every time. A tracer takes it for [`Self::Pods`].
    Sticky(BTreeMap<Symbol, Seen>),
    /// `reject`: the client is told at once that nobody answers.
    Reject,
    /// `drop`: the client hears nothing.
    Drop,
    /// `untouched`: the proxy does nothing with it; no pod answers.
    Untouched,
    /// `http` and a status: the node itself answers a health check so. A tracer takes it for [`Self::Untouched`].
    Http(u16),
}

/// A new connection (or datagram) from one place to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Line in the file, for messages.
    pub line: usize,
    /// Protocol.
    pub protocol: Protocol,
    /// Who dials.
    pub from: Symbol,
    /// What is dialled.
    pub to: Symbol,
    /// And on which port.
    pub port: u16,
    /// What must happen.
    pub expected: Expected,
    /// What must happen in nftables mode instead.
    pub expected_in_nftables: Option<Expected>,
    /// What must happen in ipvs mode instead.
    pub expected_in_ipvs: Option<Expected>,
}

/// A mode whose answers may differ from those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// iptables, and every mode that behaves like it.
    Iptables,
    /// nftables.
    Nftables,
    /// ipvs.
    Ipvs,
}

impl Flow {
    /// What must happen in a mode.
    pub fn expected_in(&self, mode: Mode) -> &Expected {
        let own = match mode {
            Mode::Iptables => &None,
            Mode::Nftables => &self.expected_in_nftables,
            Mode::Ipvs => &self.expected_in_ipvs,
        };
        own.as_ref().unwrap_or(&self.expected)
    }

    /// The families it is tried in.
    pub fn families(&self) -> &'static [Family] {
        match self.to {
            Symbol::Localhost => &[Family::V4],
            _ => &Family::ALL,
        }
    }
}

impl std::fmt::Display for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} -> {}:{}", self.protocol, self.from, self.to, self.port)
    }
}

/// Objects at one moment, and flows that are tried then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What happened since the last step; empty for the first.
    pub title: String,
    /// All objects.
    pub objects: Objects,
    /// What is tried.
    pub flows: Vec<Flow>,
}

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// File name without its ending.
    pub name: String,
    /// Settings of the proxy under test.
    pub options: BTreeMap<String, String>,
    /// Steps, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// Names the line and what is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, ParseError> {
        parse::scenario(name, text)
    }

    /// Reads every `*.txt` of a directory, in the order of their names.
    ///
    /// # Errors
    /// What cannot be read, and what [`Self::parse`] complains about.
    pub fn read_all(directory: &Path) -> std::io::Result<Vec<Self>> {
        let entries = std::fs::read_dir(directory)?.map(|entry| entry.map(|e| e.path()));
        let mut paths: Vec<_> = entries.collect::<std::io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
        paths.sort();
        let read = |path: &std::path::PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Self::parse(&name, &std::fs::read_to_string(path)?).map_err(std::io::Error::other)
        };
        paths.iter().map(read).collect()
    }

    /// An option's value, or a default.
    pub fn option<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.options.get(name).map_or(default, String::as_str)
    }

    /// The CIDRs of `cluster-cidr`; empty for `none`.
    pub fn cluster_cidr(&self) -> &str {
        match self.option("cluster-cidr", CLUSTER_CIDR) {
            "none" => "",
            cidrs => cidrs,
        }
    }

    /// The options as flags of the agent.
    pub fn flags(&self) -> Vec<String> {
        let others = self.options.iter().filter(|(name, _)| *name != "cluster-cidr");
        let others = others.map(|(name, value)| format!("--{name}={value}"));
        [format!("--cluster-cidr={}", self.cluster_cidr())].into_iter().chain(others).collect()
    }

    /// Every pod that a step of the scenario names, as endpoint or as client.
    pub fn pods(&self) -> Vec<Symbol> {
        let mut pods: Vec<Symbol> = Vec::new();
        for step in &self.steps {
            pods.extend(step.objects.endpoints().map(|e| e.pod));
            pods.extend(step.flows.iter().map(|f| f.from).filter(Symbol::is_pod));
        }
        pods.sort();
        pods.dedup();
        pods
    }
}
