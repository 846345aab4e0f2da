//! Shapes: the chains that all frontends with the same needs share. None leads to another.

use super::Config;
use super::names::Set;
use super::rule::{FRONTEND, Field, Is, NODE_PORT, Rule, SetName, Statement};
use super::slots::Window;
use crate::settings::{LocalDetector, Settings};

/// Whether slots are found by address, protocol and port, or on a node port by protocol and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// A virtual address.
    Address,
    /// A port of this node.
    NodePort,
}

/// What a frontend's packets need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// One of these slots.
    Pick(Entry, Window),
    /// The same, masqueraded.
    PickMasquerade(Entry, Window),
    /// Local pods and this node pick from `cluster`, others from `local`, if it has any slots.
    External {
        /// By address or on a node port.
        entry: Entry,
        /// Endpoints of the cluster.
        cluster: Window,
        /// Endpoints of this node; always from the same slot on.
        local: Window,
    },
}

impl Shape {
    /// The chain's name.
    pub fn name(self) -> String {
        let prefix = |entry| match entry {
            Entry::Address => "",
            Entry::NodePort => "nodeport-",
        };
        let range = |window: Window| match window.start {
            0 => window.count.to_string(),
            start => format!("{}-from-{start}", window.count),
        };
        match self {
            Self::Pick(entry, window) => format!("{}pick-{}", prefix(entry), range(window)),
            Self::PickMasquerade(entry, window) => format!("{}pick-{}-masq", prefix(entry), range(window)),
            Self::External { entry, cluster, local } => {
                format!("{}local-{}-of-{}", prefix(entry), local.count, range(cluster))
            }
        }
    }

    /// The slots that its frontends must have filled.
    pub fn windows(self) -> Vec<Window> {
        match self {
            Self::Pick(_, window) | Self::PickMasquerade(_, window) => vec![window],
            Self::External { cluster, local, .. } => vec![cluster, local],
        }
    }

    /// The chain's rules.
    pub fn rules(self, config: &Config, settings: &Settings) -> Vec<Rule> {
        match self {
            Self::Pick(entry, window) => vec![Rule::new([translate(entry, window)])],
            Self::PickMasquerade(entry, window) => {
                vec![Rule::new([Statement::OrMark(config.mark), translate(entry, window)])]
            }
            Self::External { entry, cluster, local } => {
                let mut rules = external_short_cuts(config, settings, &translate(entry, cluster));
                if local.count > 0 {
                    rules.push(Rule::new([translate(entry, local)]));
                }
                rules
            }
        }
    }
}

/// Inside the cluster there is no outside address to keep: pods and this node may use every endpoint.
pub(super) fn external_short_cuts(config: &Config, settings: &Settings, pick: &Statement) -> Vec<Rule> {
    let mut rules = Vec::new();
    if let Some(local) = from_local_pods(&settings.detector, Is::Yes) {
        rules.push(Rule::with_comment([local, pick.clone()], "short-circuit pod traffic"));
    }
    rules.push(Rule::with_comment(
        [Statement::SourceLocal, Statement::OrMark(config.mark), pick.clone()],
        "short-circuit local traffic",
    ));
    rules
}

fn translate(entry: Entry, window: Window) -> Statement {
    let slot = Field::RandomSlot { modulus: window.count, offset: u32::from(window.start) };
    let (fields, map) = match entry {
        Entry::Address => (FRONTEND.to_vec(), Set::Slots),
        Entry::NodePort => (NODE_PORT.to_vec(), Set::NodePortSlots),
    };
    let key = fields.into_iter().chain([slot]).collect();
    Statement::DnatByMap(key, SetName::Shared(map))
}

/// The statement for traffic that is, or is not, from pods of this node.
pub fn from_local_pods(detector: &LocalDetector, is: Is) -> Option<Statement> {
    match detector {
        LocalDetector::None => None,
        LocalDetector::Cidr(range) => Some(Statement::SourceIn(is, *range)),
        LocalDetector::Bridge(name) => Some(Statement::Interface(is, name.clone())),
        LocalDetector::InterfacePrefix(prefix) => Some(Statement::Interface(is, format!("{prefix}*"))),
    }
}
