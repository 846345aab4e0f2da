//! Scenarios: objects in, and for some flows who may answer, from which source address they are seen, or how they are
//! refused. The packet tracers and the lab run the same files.
//!
//! A scenario is plain text, one thing per line; `#` starts a comment. Addresses are symbols (see [`address`]), so that
//! every scenario runs in both families.
//!
//! ```text
//! option cluster-cidr=none                       # settings of the proxy under test, on node n1
//! service web cluster.1:80/tcp nodeport=30080 etp=Local
//! endpoint web n1.1:8080                         # pod 1 of node n1
//! endpoint web n2.1:8080 ready=false
//! flow tcp client -> n1:30080 : n1.1@client      # only n1.1 answers, and sees the client's own address
//! flow tcp n1.9 -> cluster.1:80 : n1.1@client
//! then the endpoint goes away                    # what follows changes the objects above
//! remove endpoint web n1.1:8080
//! flow tcp client -> n1:30080 : reject
//! ```

pub mod address;
mod manifest;
mod objects;
mod parse;

pub use manifest::to_manifests;
pub use objects::{EndpointSpec, Objects, PortSpec, ServiceSpec};
pub use parse::ParseError;

use std::collections::BTreeMap;

use switchyard_model::Protocol;

use address::Symbol;

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
    /// The client is told at once that nobody answers.
    Reject,
    /// The client hears nothing.
    Drop,
    /// The proxy does nothing with it; no pod answers.
    Untouched,
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

    /// An option's value, or a default.
    pub fn option<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.options.get(name).map_or(default, String::as_str)
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
