//! What does not depend on Services: the jumps from the kernel's chains, the static rules, and which top-level
//! chains there are.

use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};
use switchyard_model::Family;

use super::names;
use super::rule::{Is, Match, Rule, Table, Target};
use super::{Config, Counter, InvalidPackets};
use crate::settings::{LoopbackNodePorts, NodePortAddresses, Settings};

/// Counter of INVALID packets that were dropped.
pub const INVALID_COUNTER: &str = "ct_state_invalid_dropped_pkts";
/// Counter of packets to node ports on loopback addresses.
pub const LOOPBACK_COUNTER: &str = "localhost_nps_accepted_pkts";

/// A chain that many service ports share. Every one of them is rewritten as a whole when one of its rules changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Top {
    /// filter KUBE-SERVICES.
    FilterServices,
    /// filter KUBE-EXTERNAL-SERVICES.
    FilterExternalServices,
    /// filter KUBE-FORWARD.
    FilterForward,
    /// filter KUBE-NODEPORTS.
    FilterNodePorts,
    /// filter KUBE-PROXY-FIREWALL.
    FilterProxyFirewall,
    /// filter KUBE-FIREWALL; only ours to fill where loopback node ports are served.
    FilterFirewall,
    /// nat KUBE-SERVICES.
    NatServices,
    /// nat KUBE-NODEPORTS.
    NatNodePorts,
    /// nat KUBE-POSTROUTING.
    NatPostrouting,
    /// nat KUBE-MARK-MASQ.
    NatMarkMasq,
}

impl Top {
    /// All of them, in the order in which kube-proxy writes their chain lines.
    pub const ALL: [Self; 10] = [
        Self::FilterServices,
        Self::FilterExternalServices,
        Self::FilterForward,
        Self::FilterNodePorts,
        Self::FilterProxyFirewall,
        Self::FilterFirewall,
        Self::NatServices,
        Self::NatNodePorts,
        Self::NatPostrouting,
        Self::NatMarkMasq,
    ];

    /// Its table.
    pub fn table(self) -> Table {
        match self {
            Self::NatServices | Self::NatNodePorts | Self::NatPostrouting | Self::NatMarkMasq => Table::Nat,
            _ => Table::Filter,
        }
    }

    /// Its name.
    pub fn chain(self) -> &'static str {
        match self {
            Self::FilterServices | Self::NatServices => names::SERVICES,
            Self::FilterExternalServices => names::EXTERNAL_SERVICES,
            Self::FilterForward => names::FORWARD,
            Self::FilterNodePorts | Self::NatNodePorts => names::NODEPORTS,
            Self::FilterProxyFirewall => names::PROXY_FIREWALL,
            Self::FilterFirewall => names::FIREWALL,
            Self::NatPostrouting => names::POSTROUTING,
            Self::NatMarkMasq => names::MARK_MASQ,
        }
    }

    /// True if the chain is written at all: one that kubelet shares is left alone unless we have a rule for it.
    pub fn is_written(self, settings: &Settings) -> bool {
        self != Self::FilterFirewall || protects_loopback(settings)
    }
}

/// A jump from a chain of the kernel into one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Table of both chains.
    pub table: Table,
    /// The kernel's chain.
    pub from: &'static str,
    /// Our chain.
    pub to: &'static str,
    /// Only packets of this state.
    pub state: Option<&'static str>,
    /// Comment; KUBE-FIREWALL has none.
    pub comment: Option<&'static str>,
}

impl Jump {
    /// Arguments after the chain, for `-C`, `-I` and `-D`.
    pub fn arguments(&self) -> Vec<String> {
        let mut words: Vec<&str> = Vec::new();
        if let Some(state) = self.state {
            words.extend(["-m", "conntrack", "--ctstate", state]);
        }
        if let Some(comment) = self.comment {
            words.extend(["-m", "comment", "--comment", comment]);
        }
        words.extend(["-j", self.to]);
        words.into_iter().map(String::from).collect()
    }
}

const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const LB_FIREWALL: &str = "kubernetes load balancer firewall";

/// Every jump, in the order in which they are ensured. Each is inserted at the top, so they end up reversed.
pub const JUMPS: [Jump; 14] = {
    const fn jump(
        table: Table,
        from: &'static str,
        to: &'static str,
        state: Option<&'static str>,
        comment: &'static str,
    ) -> Jump {
        Jump { table, from, to, state, comment: Some(comment) }
    }
    const NEW: Option<&str> = Some("NEW");
    const FIREWALL_JUMP: Jump =
        Jump { table: Table::Filter, from: "INPUT", to: names::FIREWALL, state: None, comment: None };
    [
        jump(Table::Filter, "INPUT", names::EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS),
        jump(Table::Filter, "FORWARD", names::EXTERNAL_SERVICES, NEW, EXTERNAL_PORTALS),
        jump(Table::Filter, "INPUT", names::NODEPORTS, None, "kubernetes health check service ports"),
        jump(Table::Filter, "FORWARD", names::SERVICES, NEW, PORTALS),
        jump(Table::Filter, "OUTPUT", names::SERVICES, NEW, PORTALS),
        jump(Table::Filter, "FORWARD", names::FORWARD, None, "kubernetes forwarding rules"),
        jump(Table::Filter, "INPUT", names::PROXY_FIREWALL, NEW, LB_FIREWALL),
        jump(Table::Filter, "OUTPUT", names::PROXY_FIREWALL, NEW, LB_FIREWALL),
        jump(Table::Filter, "FORWARD", names::PROXY_FIREWALL, NEW, LB_FIREWALL),
        jump(Table::Nat, "OUTPUT", names::SERVICES, None, PORTALS),
        jump(Table::Nat, "PREROUTING", names::SERVICES, None, PORTALS),
        jump(Table::Nat, "POSTROUTING", names::POSTROUTING, None, "kubernetes postrouting rules"),
        FIREWALL_JUMP,
        Jump { from: "OUTPUT", ..FIREWALL_JUMP },
    ]
};

fn protects_loopback(settings: &Settings) -> bool {
    settings.family == Family::V4 && settings.loopback_node_ports == LoopbackNodePorts::Served
}

/// The loopback range that IPv4 node ports may answer on.
pub fn loopback() -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8))
}

/// Rules of a top-level chain that come after those of all service ports.
pub fn static_rules(config: &Config, settings: &Settings, top: Top) -> Vec<Rule> {
    match top {
        Top::FilterForward => forward(config),
        Top::FilterFirewall if protects_loopback(settings) => vec![protect_loopback()],
        Top::NatServices => node_port_tail(settings),
        Top::NatPostrouting => postrouting(config),
        Top::NatMarkMasq => vec![Rule::new([], Target::OrMark(config.mark))],
        _ => Vec::new(),
    }
}

fn forward(config: &Config) -> Vec<Rule> {
    let mut rules = Vec::new();
    if config.invalid == InvalidPackets::Dropped {
        let mut matches = vec![Match::State(Is::Yes, "INVALID")];
        if config.invalid_counter == Counter::Present {
            matches.push(Match::Count(INVALID_COUNTER));
        }
        rules.push(Rule::new(matches, Target::Drop));
    }
    let comment = |text: &str| Match::Comment(text.into());
    rules.push(Rule::new(
        [comment("kubernetes forwarding rules"), Match::Marked(Is::Yes, config.mark)],
        Target::Accept,
    ));
    rules.push(Rule::new(
        [comment("kubernetes forwarding conntrack rule"), Match::State(Is::Yes, "RELATED,ESTABLISHED")],
        Target::Accept,
    ));
    rules
}

fn protect_loopback() -> Rule {
    let matches = [
        Match::Comment("block incoming localnet connections".into()),
        Match::DestinationIn(Is::Yes, loopback()),
        Match::SourceIn(Is::Not, loopback()),
        Match::State(Is::Not, "RELATED,ESTABLISHED,DNAT"),
    ];
    Rule::new(matches, Target::Drop)
}

fn postrouting(config: &Config) -> Vec<Rule> {
    vec![
        Rule::new([Match::Marked(Is::Not, config.mark)], Target::Return),
        Rule::new([], Target::XorMark(config.mark)),
        Rule::new(
            [Match::Comment("kubernetes service traffic requiring SNAT".into())],
            Target::Masquerade { random_fully: config.random_fully },
        ),
    ]
}

fn node_port_tail(settings: &Settings) -> Vec<Rule> {
    let comment = || {
        let text = "kubernetes service nodeports; NOTE: this must be the last rule in this chain";
        Match::Comment(text.into())
    };
    let NodePortAddresses::Only(addresses) = &settings.node_ports else {
        let mut matches = vec![comment(), Match::DestinationLocal];
        match (settings.family, settings.loopback_node_ports) {
            (Family::V4, LoopbackNodePorts::Served) => {}
            (Family::V4, LoopbackNodePorts::Refused) => {
                matches.push(Match::DestinationIn(Is::Not, loopback()));
            }
            (Family::V6, _) => {
                matches.push(Match::DestinationIn(
                    Is::Not,
                    IpNet::from(std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST)),
                ));
            }
        }
        return vec![Rule::jump(matches, names::NODEPORTS)];
    };
    let served = addresses.iter().filter(|ip| settings.serves_node_ports_on(**ip));
    served.map(|ip| Rule::jump([comment(), Match::Destination(*ip)], names::NODEPORTS)).collect()
}

#[cfg(test)]
mod tests;
