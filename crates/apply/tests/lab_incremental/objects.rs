//! Random stories about Services and EndpointSlices of a small universe, so that frontends collide and owners change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use switchyard_model::{
    Conditions, EndpointSlice, Event, Family, Hints, Port, Protocol, Service, ServiceName, ServiceType,
    SliceEndpoint, SliceName, SlicePort, TrafficPolicy,
};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};

use super::harm::{Harm, harm};

const SERVICES: [&str; 4] = ["a", "b", "c", "d"];
const EXTERNAL: [[u8; 4]; 3] = [[203, 0, 113, 1], [203, 0, 113, 2], [192, 168, 1, 10]];
const BALANCED: [[u8; 4]; 3] = [[198, 51, 100, 1], [198, 51, 100, 2], [203, 0, 113, 1]];
const RANGES: [([u8; 4], u8); 4] =
    [([10, 0, 0, 0], 8), ([10, 1, 0, 0], 16), ([192, 168, 1, 0], 24), ([172, 16, 0, 0], 12)];
const ENDPOINTS: [[u8; 4]; 6] =
    [[10, 1, 1, 1], [10, 1, 1, 2], [10, 1, 1, 3], [10, 1, 2, 1], [10, 1, 2, 2], [192, 168, 1, 10]];
/// Names and protocols of ports; two share a name.
const PORTS: [(&str, Protocol, u16); 4] = [
    ("http", Protocol::Tcp, 80),
    ("dns", Protocol::Udp, 53),
    ("dns", Protocol::Tcp, 53),
    ("signal", Protocol::Sctp, 36412),
];

/// What happens.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The cluster changes.
    Tell(Event),
    /// The node or the operator wants something else.
    Settle(Wishes),
    /// The proxy is replaced by a new one.
    Restart,
    /// Another program writes to our table.
    Harm(Harm),
}

/// What happens until the next sync.
pub(crate) type Piece = Vec<Step>;

/// What a node and its operator want, in either family.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    detects_pods: bool,
    masquerades_all: bool,
    limits_node_ports: bool,
    is_in_zone: bool,
}

impl Wishes {
    /// For one family.
    pub(crate) fn settings(&self, family: Family) -> Settings {
        let node_ip = address(family, [192, 168, 1, 10]);
        Settings {
            family,
            node_name: "n1".into(),
            zone: self.is_in_zone.then(|| "z1".into()),
            node_ip,
            detector: match (self.detects_pods, family) {
                (false, _) => LocalDetector::None,
                (true, Family::V4) => LocalDetector::Cidr("10.1.1.0/24".parse().unwrap()),
                (true, Family::V6) => LocalDetector::InterfacePrefix("cali".into()),
            },
            masquerade: match self.masquerades_all {
                true => MasqueradeClusterIp::All,
                false => MasqueradeClusterIp::FromOutside,
            },
            node_ports: match self.limits_node_ports {
                true => NodePortAddresses::Only(vec![node_ip]),
                false => NodePortAddresses::All,
            },
            loopback_node_ports: LoopbackNodePorts::Refused,
        }
    }
}

/// The address that stands for this one in a family.
fn address(family: Family, v4: [u8; 4]) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from(v4).into(),
        Family::V6 => Ipv6Addr::from((0xfd_u128 << 120) | u128::from(u32::from_be_bytes(v4))).into(),
    }
}

fn in_both(list: &[[u8; 4]]) -> Vec<IpAddr> {
    Family::ALL.iter().flat_map(|family| list.iter().map(|v4| address(*family, *v4))).collect()
}

fn in_both_ranges(list: &[([u8; 4], u8)]) -> Vec<ipnet::IpNet> {
    let range = |(v4, prefix): &([u8; 4], u8)| {
        let v6 = address(Family::V6, *v4);
        [(address(Family::V4, *v4), *prefix), (v6, prefix + 96)]
            .map(|(ip, prefix)| ipnet::IpNet::new(ip, prefix).unwrap())
    };
    list.iter().flat_map(range).collect()
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    select(vec![TrafficPolicy::Cluster, TrafficPolicy::Local])
}

fn ports() -> impl Strategy<Value = Vec<Port>> {
    let node_port = proptest::option::of(30000_u16..30003);
    let port = |(name, protocol, port): (&'static str, Protocol, u16), node_port| Port {
        name: name.into(),
        protocol,
        port,
        node_port,
    };
    subsequence(PORTS.to_vec(), 1..=3).prop_flat_map(move |list| {
        list.into_iter()
            .map(|one| node_port.clone().prop_map(move |node_port| port(one, node_port)))
            .collect::<Vec<_>>()
    })
}

fn service() -> impl Strategy<Value = Service> {
    let addresses = |list: [[u8; 4]; 3]| subsequence(list.to_vec(), 0..=2).prop_map(|list| in_both(&list));
    let ranges = subsequence(RANGES.to_vec(), 0..=3).prop_map(|list| in_both_ranges(&list));
    let affinity = prop_oneof![3 => Just(None), 1 => Just(Some(60)), 1 => Just(Some(120))];
    // One cluster IP more than Services: now and then two ask for the same.
    let identity = (select(SERVICES.to_vec()), 1_u8..6, 0_i64..3);
    let frontends = (addresses(EXTERNAL), addresses(BALANCED), ranges, ports());
    (identity, frontends, affinity, policy(), policy()).prop_map(
        |(
            (name, ip, created),
            (external_ips, load_balancer_ips, source_ranges, ports),
            affinity,
            internal,
            external,
        )| {
            Service {
                name: ServiceName::new("ns", name),
                created,
                kind: ServiceType::LoadBalancer,
                cluster_ips: in_both(&[[10, 96, 0, ip]]),
                external_ips,
                load_balancer_ips,
                source_ranges,
                affinity,
                internal_policy: internal,
                external_policy: external,
                health_check_node_port: None,
                ports,
            }
        },
    )
}

fn endpoint(family: Family, v4: [u8; 4]) -> impl Strategy<Value = SliceEndpoint> {
    let conditions = prop_oneof![
        4 => Just(Conditions::default()),
        1 => Just(Conditions { ready: false, serving: true, terminating: true }),
        1 => Just(Conditions { ready: false, serving: false, terminating: false }),
    ];
    let node = select(vec![Some("n1"), Some("n2"), None]);
    let hints = prop_oneof![
        3 => Just(None),
        1 => select(vec!["z1", "z2"]).prop_map(|zone| Some(Hints { zones: vec![zone.into()], nodes: vec![] })),
    ];
    (conditions, node, hints).prop_map(move |(conditions, node, hints)| SliceEndpoint {
        address: address(family, v4),
        conditions,
        node: node.map(Into::into),
        hints: hints.map(Into::into),
    })
}

/// Each Service has two slices in each family.
fn slice_name() -> impl Strategy<Value = (SliceName, &'static str, Family)> {
    (select(SERVICES.to_vec()), select(Family::ALL.to_vec()), 0..2).prop_map(|(service, family, number)| {
        (SliceName::new("ns", &format!("{service}-{family}-{number}")), service, family)
    })
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let target = select(vec![8080_u16, 8081]);
    (slice_name(), subsequence(ENDPOINTS.to_vec(), 0..=5), target).prop_flat_map(
        |((name, service, family), list, target)| {
            let endpoints = list.into_iter().map(|v4| endpoint(family, v4)).collect::<Vec<_>>();
            let port = move |(name, protocol, _): (&str, Protocol, u16)| SlicePort {
                name: name.into(),
                protocol,
                port: target,
            };
            endpoints.prop_map(move |endpoints| EndpointSlice {
                name: name.clone(),
                service: ServiceName::new("ns", service),
                family,
                ports: PORTS.map(port).to_vec(),
                endpoints,
                trigger: None,
            })
        },
    )
}

fn wishes() -> impl Strategy<Value = Wishes> {
    any::<[bool; 4]>().prop_map(|[detects_pods, masquerades_all, limits_node_ports, is_in_zone]| Wishes {
        detects_pods,
        masquerades_all,
        limits_node_ports,
        is_in_zone,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => service().prop_map(|service| Step::Tell(Event::Service(service.into()))),
        2 => select(SERVICES.to_vec()).prop_map(|name| Step::Tell(Event::ServiceGone(ServiceName::new("ns", name)))),
        12 => slice().prop_map(|slice| Step::Tell(Event::Slice(slice.into()))),
        2 => slice_name().prop_map(|(name, ..)| Step::Tell(Event::SliceGone(name))),
        1 => wishes().prop_map(Step::Settle),
        1 => Just(Step::Restart),
        3 => harm().prop_map(Step::Harm),
    ]
}

/// A story.
pub(crate) fn story() -> impl Strategy<Value = Vec<Piece>> {
    proptest::collection::vec(proptest::collection::vec(step(), 1..6), 1..9)
}
