//! What does not depend on Services: hooks, the chains behind them, and the shared sets.
//!
//! ```text
//! prerouting -110, output -110   new packets: is this source allowed at a load-balancer IP?
//! prerouting -100, output -100   translate the destination: services
//! input, forward, output 0       new packets that nothing translated: refuse
//! postrouting 100                masquerade what is marked, and hairpins
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};
use switchyard_model::{Family, Protocol};

use super::Config;
use super::names::Set;
use super::rule::{FRONTEND, Field, Is, NODE_PORT, Rule, SetName, Statement, Verdict, only};
use super::shape::from_local_pods;
use crate::settings::{MasqueradeClusterIp, NodePortAddresses, Settings};

/// Chain that map elements lead to when nobody can answer.
pub const REJECT: &str = "reject-chain";

/// Chain that refuses what is sent to cluster IPs, and nothing translated.
pub const CLUSTER_IPS_CHECK: &str = "cluster-ips-check";

/// What a base chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Verdicts.
    Filter,
    /// Address translation.
    Nat,
}

/// Where in the kernel a base chain is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Before routing.
    Prerouting,
    /// To this node.
    Input,
    /// Through this node.
    Forward,
    /// From this node.
    Output,
    /// After routing.
    Postrouting,
}

/// Place of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base {
    /// What for.
    pub kind: Kind,
    /// Where.
    pub hook: Hook,
    /// When, among others at the same place.
    pub priority: i32,
}

/// A chain with its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Name.
    pub name: String,
    /// Where the kernel calls it; `None` if only rules do.
    pub base: Option<Base>,
    /// Rules, in order.
    pub rules: Vec<Rule>,
}

/// Chain for what comes in where a listener of the relay may be.
const LISTENERS: &str = "listeners-check";

/// Before destination translation.
const PRE_DNAT: i32 = -110;

/// Every static chain. One comes before all that lead to it.
pub fn chains(config: &Config, settings: &Settings) -> Vec<Chain> {
    let plain = |name: &str, rules| Chain { name: name.to_owned(), base: None, rules };
    let mut all = vec![
        plain(REJECT, vec![Rule::new([Statement::Reject])]),
        plain("firewall-check", vec![firewall_check()]),
        plain("service-endpoints-check", vec![lookup(&FRONTEND, Set::Refusals)]),
        plain("nodeport-endpoints-check", vec![node_ports(settings, Set::NodePortRefusals)]),
        plain(CLUSTER_IPS_CHECK, cluster_ips_check(config, settings)),
        plain("services", services(config, settings)),
        plain("masquerading", masquerading(config)),
    ];
    all.extend(config.relay.map(|_| plain(LISTENERS, listeners_check())));
    all.extend(hooks(config));
    all
}

/// A chain that the kernel calls.
pub(crate) fn base(name: &str, kind: Kind, hook: Hook, priority: i32, rules: Vec<Rule>) -> Chain {
    Chain { name: name.to_owned(), base: Some(Base { kind, hook, priority }), rules }
}

/// Sends every packet to a chain, and back.
pub(crate) fn any(to: &str) -> Rule {
    Rule::new([Statement::Verdict(Verdict::Jump(to.to_owned()))])
}

/// Sends packets of new connections to a chain, and back.
pub(crate) fn new(to: &str) -> Rule {
    Rule::new([Statement::New, Statement::Verdict(Verdict::Jump(to.to_owned()))])
}

fn hooks(config: &Config) -> Vec<Chain> {
    let checks = || vec![new("service-endpoints-check"), new(CLUSTER_IPS_CHECK)];
    let with_relay = |rule: Rule| config.relay.map(|_| rule);
    // An address that a Service names comes before node ports, as in `services`.
    let input = [new("service-endpoints-check"), new("nodeport-endpoints-check")];
    let input = with_relay(new(LISTENERS)).into_iter().chain(input).collect();
    let output = config.relay.map(own_packets).into_iter().chain([any("services")]).collect();
    use Hook::{Forward, Input, Output, Postrouting, Prerouting};
    vec![
        base("filter-prerouting-pre-dnat", Kind::Filter, Prerouting, PRE_DNAT, vec![new("firewall-check")]),
        base("filter-output-pre-dnat", Kind::Filter, Output, PRE_DNAT, vec![new("firewall-check")]),
        base("filter-input", Kind::Filter, Input, 0, input),
        base("filter-forward", Kind::Filter, Forward, 0, checks()),
        base("filter-output", Kind::Filter, Output, 0, checks()),
        base("nat-prerouting", Kind::Nat, Prerouting, -100, vec![any("services")]),
        base("nat-output", Kind::Nat, Output, -100, output),
        base("nat-postrouting", Kind::Nat, Postrouting, 100, vec![any("masquerading")]),
    ]
}

/// What the relay sends to an endpoint goes there, also if that is a frontend: back to the relay it would go round without end.
fn own_packets(priority: u32) -> Rule {
    let statements = [Statement::Priority(priority), Statement::Verdict(Verdict::Return)];
    Rule::with_comment(statements, "what the relay sends is not translated")
}

/// Refuses datagrams that nothing led to the listener where they arrive. Of TCP connections the listener itself knows.
fn listeners_check() -> Vec<Rule> {
    let listener = vec![Field::Destination, Field::Destination, Field::Protocol, Field::Port];
    vec![
        Rule::new([Statement::Translated, Statement::Verdict(Verdict::Return)]),
        Rule::with_comment(
            [
                Statement::Protocol(Protocol::Udp),
                Statement::In(Is::Yes, listener, SetName::Shared(Set::Hairpins)),
                Statement::Reject,
            ],
            "only by way of a Service",
        ),
    ]
}

fn lookup(fields: &[Field], map: Set) -> Rule {
    Rule::new([Statement::Lookup(fields.to_vec(), SetName::Shared(map))])
}

/// Drops what a load-balancer IP does not allow.
pub(crate) fn firewall_check() -> Rule {
    let with_source: Vec<Field> = FRONTEND.into_iter().chain([Field::Source]).collect();
    Rule::with_comment(
        [
            Statement::In(Is::Yes, FRONTEND.to_vec(), SetName::Shared(Set::Restricted)),
            Statement::In(Is::Not, with_source, SetName::Shared(Set::AllowedSources)),
            Statement::Verdict(Verdict::Drop),
        ],
        "sources that a load balancer does not allow",
    )
}

fn cluster_ips_check(config: &Config, settings: &Settings) -> Vec<Rule> {
    let own = config.service_cidrs.iter().filter(|range| Family::of(range.addr()) == settings.family);
    std::iter::once(reject_unknown_ports()).chain(own.map(|range| drop_unallocated(*range))).collect()
}

/// Refuses ports of cluster IPs that no Service has.
pub(crate) fn reject_unknown_ports() -> Rule {
    let known = Statement::In(Is::Yes, vec![Field::Destination], SetName::Shared(Set::ClusterIps));
    Rule::with_comment([known, Statement::Reject], "Reject traffic to invalid ports of ClusterIPs")
}

/// Drops what is sent to addresses of a range that no Service has.
pub(crate) fn drop_unallocated(range: IpNet) -> Rule {
    Rule::with_comment(
        [Statement::DestinationIn(Is::Yes, range), Statement::Verdict(Verdict::Drop)],
        "Drop traffic to unallocated ClusterIPs",
    )
}

fn services(config: &Config, settings: &Settings) -> Vec<Rule> {
    let cluster_ip = Statement::In(Is::Yes, vec![Field::Destination], SetName::Shared(Set::ClusterIps));
    let mark = Statement::OrMark(config.mark);
    let mut rules = Vec::new();
    match (settings.masquerade, from_local_pods(&settings.detector, Is::Not)) {
        (MasqueradeClusterIp::All, _) => {
            rules.push(Rule::with_comment([cluster_ip, mark], "masquerade all clusterIP traffic"));
        }
        (MasqueradeClusterIp::FromOutside, Some(outside)) => rules.push(Rule::with_comment(
            [cluster_ip, outside, mark],
            "masquerade clusterIP traffic from outside cluster",
        )),
        (MasqueradeClusterIp::FromOutside, None) => {}
    }
    rules.push(lookup(&FRONTEND, Set::Frontends));
    rules.push(node_ports(settings, Set::NodePorts));
    rules
}

/// Looks a node port up, on the addresses where node ports answer.
fn node_ports(settings: &Settings, map: Set) -> Rule {
    let lookup = Statement::Lookup(NODE_PORT.to_vec(), SetName::Shared(map));
    match settings.node_ports {
        NodePortAddresses::All => Rule::new([
            Statement::DestinationLocal,
            Statement::DestinationIn(Is::Not, loopback(settings.family)),
            lookup,
        ]),
        NodePortAddresses::Only(_) => {
            let set = SetName::Shared(Set::NodePortIps);
            Rule::new([Statement::In(Is::Yes, vec![Field::Destination], set), lookup])
        }
    }
}

fn loopback(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
        Family::V6 => only(Ipv6Addr::LOCALHOST.into()),
    }
}

/// A relay's clients need no masquerade: their packets end here.
fn masquerading(config: &Config) -> Vec<Rule> {
    if config.relay.is_some() {
        return Vec::new();
    }
    let pair = vec![Field::Source, Field::Destination, Field::Protocol, Field::Port];
    vec![
        Rule::new([Statement::Marked(config.mark), Statement::XorMark(config.mark), Statement::Masquerade]),
        Rule::with_comment(
            [
                Statement::Translated,
                Statement::In(Is::Yes, pair, SetName::Shared(Set::Hairpins)),
                Statement::Masquerade,
            ],
            "hairpins",
        ),
    ]
}
