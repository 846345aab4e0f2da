//! Random service ports and settings out of a small universe, so that frontends collide and hints meet.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use switchyard_model::{
    Conditions, Endpoint, Family, Hints, Protocol, ServicePort, ServicePortName, TrafficPolicy,
};

use super::{address, name, range, settings, socket, sort};
use crate::settings::{LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings};

/// How many different service ports there are.
pub(crate) const SERVICES: usize = 6;

pub(crate) const EXTERNAL: [&str; 3] = ["203.0.113.1", "203.0.113.2", "192.168.0.10"];
pub(crate) const LOAD_BALANCERS: [&str; 3] = ["198.51.100.1", "198.51.100.2", "203.0.113.1"];
const RANGES: [&str; 3] = ["10.0.0.0/8", "192.168.0.0/24", "172.16.0.0/16"];
/// The last one is a pod in the own node's network.
pub(crate) const ENDPOINTS: [&str; 6] = [
    "10.1.0.1:8080",
    "10.1.0.2:8080",
    "10.1.0.2:8081",
    "10.1.1.1:8080",
    "10.1.1.2:8080",
    "192.168.0.10:8080",
];

pub(crate) fn family() -> impl Strategy<Value = Family> {
    select(Family::ALL.to_vec())
}

/// Name of the i-th service port; two differ in the port's name only, two in the protocol only.
pub(crate) fn port_name(i: usize) -> ServicePortName {
    match i {
        0 => name("shop/web", Protocol::Tcp),
        1 => name("shop/web:admin", Protocol::Tcp),
        2 => name("dns/resolver:dns", Protocol::Udp),
        3 => name("dns/resolver:dns", Protocol::Tcp),
        4 => name("a/signal:s", Protocol::Sctp),
        _ => name("z/last:x", Protocol::Udp),
    }
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    select(vec![TrafficPolicy::Cluster, TrafficPolicy::Local])
}

fn hints() -> impl Strategy<Value = Option<Hints>> {
    let names = |list: [&'static str; 2]| subsequence(list.to_vec(), 0..=2);
    prop_oneof![
        2 => Just(None),
        3 => (names(["a", "b"]), names(["here", "there"])).prop_map(|(zones, nodes)| {
            let list = |names: Vec<&str>| names.into_iter().map(std::sync::Arc::from).collect();
            Some(Hints { zones: list(zones), nodes: list(nodes) })
        }),
    ]
}

fn endpoint(family: Family, at: &'static str) -> impl Strategy<Value = Endpoint> {
    let ready = prop_oneof![3 => Just(true), 2 => Just(false)];
    let node = select(vec![Some("here"), Some("there"), None]);
    (ready, any::<bool>(), any::<bool>(), node, hints()).prop_map(
        move |(ready, serving, terminating, node, hints)| Endpoint {
            address: socket(family, at),
            conditions: Conditions { ready, serving, terminating },
            node: node.map(Into::into),
            hints: hints.map(Into::into),
        },
    )
}

fn endpoints(family: Family) -> impl Strategy<Value = Vec<Endpoint>> {
    let some = subsequence(ENDPOINTS.to_vec(), 0..=ENDPOINTS.len());
    some.prop_flat_map(move |list| list.into_iter().map(|at| endpoint(family, at)).collect::<Vec<_>>())
}

/// The i-th service port, with random everything else.
pub(crate) fn service_port(family: Family, i: usize) -> impl Strategy<Value = ServicePort> {
    let addresses = |list: [&'static str; 3]| {
        subsequence(list.to_vec(), 0..=3)
            .prop_map(move |some| some.into_iter().map(|ip| address(family, ip)).collect::<Vec<_>>())
    };
    let ranges = subsequence(RANGES.to_vec(), 0..=2)
        .prop_map(move |some| some.into_iter().map(|r| range(family, r)).collect::<Vec<_>>());
    // Two service ports share each node port: files may contain that.
    let node_port = proptest::option::of(Just(30000 + u16::try_from(i / 2).unwrap()));
    let external = (node_port, addresses(EXTERNAL), addresses(LOAD_BALANCERS), ranges);
    let wishes = (proptest::option::of(Just(60)), policy(), policy(), proptest::option::of(Just(32000)));
    (external, wishes, 0..3_i64, endpoints(family)).prop_map(
        move |((node_port, external_ips, load_balancer_ips, source_ranges), wishes, created, endpoints)| {
            let (affinity, internal_policy, external_policy, health_check_node_port) = wishes;
            let mut port = ServicePort {
                name: port_name(i),
                family,
                created,
                cluster_ip: address(family, &format!("10.96.0.{}", i + 1)),
                port: 80,
                node_port,
                external_ips,
                load_balancer_ips,
                source_ranges,
                affinity,
                internal_policy,
                external_policy,
                health_check_node_port,
                endpoints,
            };
            sort(&mut port);
            port
        },
    )
}

/// Any of the service ports, there or gone.
pub(crate) fn change(family: Family) -> impl Strategy<Value = (ServicePortName, Option<ServicePort>)> {
    (0..SERVICES).prop_flat_map(move |i| {
        let value = prop_oneof![1 => Just(None), 4 => service_port(family, i).prop_map(Some)];
        value.prop_map(move |value| (port_name(i), value))
    })
}

/// All service ports.
pub(crate) fn service_ports(family: Family) -> impl Strategy<Value = Vec<ServicePort>> {
    (0..SERVICES).map(|i| service_port(family, i)).collect::<Vec<_>>()
}

/// A node with random wishes.
pub(crate) fn any_settings(family: Family) -> impl Strategy<Value = Settings> {
    let detector = select(vec![
        LocalDetector::None,
        LocalDetector::Cidr(range(family, "10.1.0.0/24")),
        LocalDetector::Bridge("cbr0".into()),
        LocalDetector::InterfacePrefix("cali".into()),
    ]);
    let only = |list: &[&str]| NodePortAddresses::Only(list.iter().map(|ip| address(family, ip)).collect());
    let node_ports = select(vec![
        NodePortAddresses::All,
        only(&["192.168.0.10"]),
        only(&["192.168.1.10", "127.0.0.1"]),
        only(&[]),
    ]);
    let masquerade = select(vec![MasqueradeClusterIp::FromOutside, MasqueradeClusterIp::All]);
    let loopback = select(vec![LoopbackNodePorts::Served, LoopbackNodePorts::Refused]);
    let zone = select(vec![Some("a"), Some("c"), None]);
    (detector, node_ports, masquerade, loopback, zone).prop_map(
        move |(detector, node_ports, masquerade, loopback_node_ports, zone)| Settings {
            zone: zone.map(Into::into),
            detector,
            node_ports,
            masquerade,
            loopback_node_ports,
            ..settings(family)
        },
    )
}
