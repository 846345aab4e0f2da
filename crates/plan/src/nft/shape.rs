//! Shapes: the chains that all frontends with the same needs share. None leads to another.

use super::Config;
use super::names::Set;
use super::rule::{FRONTEND, Field, Is, NODE_PORT, Rule, SetName, Statement};
use super::slots::{MIDDLE, Window};
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

    /// The shape of this name; `None` if no shape has it.
    pub fn named(name: &str) -> Option<Self> {
        let (entry, rest) = match name.strip_prefix("nodeport-") {
            Some(rest) => (Entry::NodePort, rest),
            None => (Entry::Address, name),
        };
        let shape = if let Some(range) = rest.strip_prefix("pick-") {
            match range.strip_suffix("-masq") {
                Some(range) => Self::PickMasquerade(entry, window(range)?),
                None => Self::Pick(entry, window(range)?),
            }
        } else {
            let (local, cluster) = rest.strip_prefix("local-")?.split_once("-of-")?;
            let local = Window { start: MIDDLE, count: local.parse().ok()? };
            Self::External { entry, cluster: window(cluster)?, local }
        };
        // Numbers can be written in several ways; names have one.
        (shape.name() == name).then_some(shape)
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

/// Slots as names tell them.
fn window(text: &str) -> Option<Window> {
    let (count, start) = text.split_once("-from-").unwrap_or((text, "0"));
    Some(Window { start: start.parse().ok()?, count: count.parse().ok()? })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_shapes() {
        let (some, all) = (Window { start: 32_765, count: 5 }, Window { start: 0, count: 32_768 });
        for entry in [Entry::Address, Entry::NodePort] {
            for window in [some, all] {
                let local = Window { start: MIDDLE, count: 2 };
                let shapes = [
                    Shape::Pick(entry, window),
                    Shape::PickMasquerade(entry, window),
                    Shape::External { entry, cluster: window, local },
                ];
                for shape in shapes {
                    assert_eq!(Shape::named(&shape.name()), Some(shape));
                }
            }
        }
        for other in
            ["", "pick-", "pick-03", "pick-+3", "pick-3-from-0", "pick-3-from-99999", "local-1", "reject"]
        {
            assert_eq!(Shape::named(other), None, "{other}");
        }
    }
}
