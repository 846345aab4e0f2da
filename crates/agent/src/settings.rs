//! From the checked flags and the Node object to the planner's settings, for one IP family.
//!
//! In: [`Config`], the own [`Node`] and the addresses of the local interfaces. Out: [`Settings`]. No IO: the caller has
//! looked everything up.
//!
//! Invariants
//! - Equal inputs, with the local addresses in any order, give equal settings.
//! - A family that the operator said nothing about is served on all its addresses, as by kube-proxy.

mod complaints;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use switchyard_model::{Family, Node};
use switchyard_plan::settings::{LocalDetector, LoopbackNodePorts, NodePortAddresses, Settings};

use crate::flags::{Config, LocalMode, NodePortRanges};

pub use complaints::{Misfits, complaints};

/// The settings of one family. `local_addresses` are those of all interfaces, with the interfaces' names.
pub fn settings(
    config: &Config,
    node: &Node,
    family: Family,
    local_addresses: &[(String, IpAddr)],
) -> Settings {
    let ranges = node_port_ranges(config, node, family);
    Settings {
        family,
        node_name: node.name.clone(),
        zone: node.zone.clone(),
        node_ip: node_ip(config, node, family),
        detector: detector(config, node, family),
        masquerade: config.masquerade,
        loopback_node_ports: loopback_node_ports(config, family, &ranges),
        node_ports: node_port_addresses(&ranges, local_addresses),
    }
}

/// The family of the node's first address, or of the one that the operator gave; IPv4 if there is none.
pub fn primary_family(config: &Config, node: &Node) -> Family {
    let first = config.bind_address.or_else(|| node.addresses.first().copied());
    first.map_or(Family::V4, Family::of)
}

/// Where health-check node ports of a family listen: on its unspecified address if node ports answer everywhere, else on
/// each address where they do.
pub fn health_check_addresses(settings: &Settings) -> Vec<IpAddr> {
    match &settings.node_ports {
        NodePortAddresses::All => vec![unspecified(settings.family)],
        NodePortAddresses::Only(addresses) => addresses.clone(),
    }
}

/// The operator's address if it is of this family, else the node's first, else loopback.
fn node_ip(config: &Config, node: &Node, family: Family) -> IpAddr {
    let mut known = config.bind_address.iter().chain(&node.addresses).copied();
    known.find(|address| Family::of(*address) == family).unwrap_or_else(|| loopback(family))
}

/// How pods are told. Without a range of the family they cannot be.
fn detector(config: &Config, node: &Node, family: Family) -> LocalDetector {
    let first_of = |ranges: &[IpNet]| {
        let range = ranges.iter().find(|range| Family::of(range.addr()) == family);
        range.map_or(LocalDetector::None, |range| LocalDetector::Cidr(range.trunc()))
    };
    match &config.local_mode {
        LocalMode::ClusterCidr(ranges) => first_of(ranges),
        LocalMode::NodeCidr => first_of(&node.pod_cidrs),
        LocalMode::Bridge(name) => LocalDetector::Bridge(name.clone()),
        LocalMode::InterfacePrefix(prefix) => LocalDetector::InterfacePrefix(prefix.clone()),
    }
}

/// The ranges of a family in which node ports answer. Never empty: without any it is the range of all addresses.
fn node_port_ranges(config: &Config, node: &Node, family: Family) -> Vec<IpNet> {
    let mut ranges: Vec<IpNet> = match &config.node_ports {
        NodePortRanges::All => Vec::new(),
        NodePortRanges::Primary => {
            // A loopback address stands for one that is not known, and nobody else could reach it.
            let own = node_ip(config, node, family);
            if own.is_loopback() { Vec::new() } else { vec![IpNet::from(own)] }
        }
        NodePortRanges::Cidrs(ranges) => ranges.clone(),
    };
    ranges.retain(|range| Family::of(range.addr()) == family);
    if ranges.is_empty() {
        ranges.extend(IpNet::new(unspecified(family), 0).ok());
    }
    ranges
}

/// The local addresses inside the ranges, sorted; all if a range holds every address.
fn node_port_addresses(ranges: &[IpNet], local: &[(String, IpAddr)]) -> NodePortAddresses {
    if ranges.iter().any(|range| range.prefix_len() == 0) {
        return NodePortAddresses::All;
    }
    let local = local.iter().map(|(_, address)| *address);
    let mut inside: Vec<IpAddr> = local.filter(|a| ranges.iter().any(|range| range.contains(a))).collect();
    inside.sort_unstable();
    inside.dedup();
    NodePortAddresses::Only(inside)
}

/// Loopback is served if asked for, in IPv4, where a range of node ports is of loopback or holds its first address.
fn loopback_node_ports(config: &Config, family: Family, ranges: &[IpNet]) -> LoopbackNodePorts {
    let first = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0));
    let is_covered = ranges.iter().any(|range| range.network().is_loopback() || range.contains(&first));
    match (config.loopback_node_ports, family) {
        (LoopbackNodePorts::Served, Family::V4) if is_covered => LoopbackNodePorts::Served,
        _ => LoopbackNodePorts::Refused,
    }
}

fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}
