//! The chains of the table: always the same, whatever Services there are.
//!
//! ```text
//! prerouting -110, output -110   new packets: is this source allowed at a load-balancer IP?
//! output -110, input 0           new packets: refuse what nobody answers, before IPVS sees it
//! prerouting -100, output -100   mark what is to be masqueraded
//! postrouting 100                masquerade what is marked, and hairpins
//! ```
//!
//! IPVS takes packets at output -99 and at input 99.

use switchyard_model::Family;

use super::Config;
use crate::nft::base::{Chain, Hook, Kind, REJECT, any, base, firewall_check, new};
use crate::nft::names::Set;
use crate::nft::rule::{FRONTEND, Field, Is, NODE_PORT, Rule, SetName, Statement, Verdict};
use crate::nft::shape::from_local_pods;
use crate::settings::{MasqueradeClusterIp, NodePortAddresses, Settings};

/// Marks packets for cluster IPs.
pub const CLUSTER: &str = "cluster-ip";
/// Marks packets for other frontends.
pub const EXTERNAL: &str = "external";
/// Marks packets for frontends that keep the client's address.
pub const EXTERNAL_LOCAL: &str = "external-local";
/// Lets local pods and this node in, and nobody else.
pub const INSIDE_ONLY: &str = "inside-only";

/// Chain that refuses what nobody answers, before IPVS sees it.
pub const ENDPOINTS_CHECK: &str = "endpoints-check";

/// Before destination translation and IPVS.
const EARLY: i32 = -110;

/// Every chain. One comes before all that lead to it.
pub fn chains(config: &Config, settings: &Settings) -> Vec<Chain> {
    let plain = |name: &str, rules| Chain { name: name.to_owned(), base: None, rules };
    let mark = Statement::OrMark(config.mark);
    let mut all = vec![
        plain(REJECT, vec![Rule::new([Statement::Reject])]),
        plain(INSIDE_ONLY, inside_only(settings)),
        plain(CLUSTER, cluster(config, settings)),
        plain(EXTERNAL, vec![Rule::new([mark.clone()])]),
        plain(
            EXTERNAL_LOCAL,
            vec![Rule::with_comment([Statement::SourceLocal, mark], "short-circuit local traffic")],
        ),
        plain("firewall-check", vec![firewall_check()]),
        plain(ENDPOINTS_CHECK, endpoints_check()),
        plain("services", services()),
        plain("masquerading", masquerading(config)),
    ];
    all.extend(hooks());
    all
}

fn hooks() -> Vec<Chain> {
    use Hook::{Input, Output, Postrouting, Prerouting};
    let early = || vec![new("firewall-check"), new(ENDPOINTS_CHECK)];
    vec![
        base("filter-prerouting", Kind::Filter, Prerouting, EARLY, vec![new("firewall-check")]),
        base("filter-output", Kind::Filter, Output, EARLY, early()),
        base("filter-input", Kind::Filter, Input, 0, vec![new(ENDPOINTS_CHECK)]),
        base("nat-prerouting", Kind::Nat, Prerouting, -100, vec![any("services")]),
        base("nat-output", Kind::Nat, Output, -100, vec![any("services")]),
        base("nat-postrouting", Kind::Nat, Postrouting, 100, vec![any("masquerading")]),
    ]
}

fn shared(set: Set) -> SetName {
    SetName::Shared(set)
}

fn drop() -> Statement {
    Statement::Verdict(Verdict::Drop)
}

fn back() -> Statement {
    Statement::Verdict(Verdict::Return)
}

/// This node has no endpoint: whoever is outside can ask another node, and pods and this node get any endpoint.
fn inside_only(settings: &Settings) -> Vec<Rule> {
    let pods = from_local_pods(&settings.detector, Is::Yes);
    let mut rules: Vec<Rule> = pods.into_iter().map(|local| Rule::new([local, back()])).collect();
    rules.push(Rule::new([Statement::SourceLocal, back()]));
    rules.push(Rule::with_comment([drop()], "no local endpoints"));
    rules
}

fn cluster(config: &Config, settings: &Settings) -> Vec<Rule> {
    let mark = Statement::OrMark(config.mark);
    let rule = match (settings.masquerade, from_local_pods(&settings.detector, Is::Not)) {
        (MasqueradeClusterIp::All, _) => Rule::with_comment([mark], "masquerade all clusterIP traffic"),
        (MasqueradeClusterIp::FromOutside, Some(outside)) => {
            Rule::with_comment([outside, mark], "masquerade clusterIP traffic from outside cluster")
        }
        // What this node sends to a virtual address comes from that address, and nobody else could answer to it.
        (MasqueradeClusterIp::FromOutside, None) => {
            let own = Statement::In(Is::Yes, vec![Field::Source], shared(Set::VirtualIps));
            Rule::with_comment([own, mark], "masquerade what this node sends")
        }
    };
    vec![rule]
}

fn services() -> Vec<Rule> {
    vec![
        Rule::new([Statement::Lookup(FRONTEND.to_vec(), shared(Set::Frontends))]),
        node_ports(Set::NodePorts),
    ]
}

/// Looks a node port up, on the addresses where node ports answer.
fn node_ports(map: Set) -> Rule {
    Rule::new([
        Statement::In(Is::Yes, vec![Field::Destination], shared(Set::NodePortIps)),
        Statement::Lookup(NODE_PORT.to_vec(), shared(map)),
    ])
}

fn endpoints_check() -> Vec<Rule> {
    vec![
        Rule::new([Statement::Lookup(FRONTEND.to_vec(), shared(Set::Refusals))]),
        node_ports(Set::NodePortRefusals),
        Rule::with_comment(
            [Statement::In(Is::Yes, NODE_PORT.to_vec(), shared(Set::HealthPorts)), back()],
            "health checks",
        ),
        reject_other_ports(),
    ]
}

/// Virtual addresses are this node's own, so whatever listens on all its addresses would answer there as well.
pub(crate) fn reject_other_ports() -> Rule {
    let virtual_ip = Statement::In(Is::Yes, vec![Field::Destination], shared(Set::VirtualIps));
    Rule::with_comment([virtual_ip, Statement::Reject], "Reject traffic to other ports of virtual addresses")
}

fn masquerading(config: &Config) -> Vec<Rule> {
    let pair = vec![Field::Source, Field::Destination, Field::Protocol, Field::Port];
    vec![
        Rule::new([Statement::Marked(config.mark), Statement::XorMark(config.mark), Statement::Masquerade]),
        // Nobody but IPVS sends a packet of an endpoint back to it.
        Rule::with_comment(
            [Statement::In(Is::Yes, pair, shared(Set::Hairpins)), Statement::Masquerade],
            "hairpins",
        ),
    ]
}

/// The addresses of a family on which node ports answer; never loopback.
pub fn node_port_addresses<'a>(
    config: &'a Config,
    settings: &'a Settings,
) -> Box<dyn Iterator<Item = std::net::IpAddr> + 'a> {
    let fits = |ip: &std::net::IpAddr| Family::of(*ip) == settings.family && !ip.is_loopback();
    match &settings.node_ports {
        NodePortAddresses::All => Box::new(config.own.iter().copied().filter(fits)),
        NodePortAddresses::Only(list) => Box::new(list.iter().copied().filter(fits)),
    }
}
