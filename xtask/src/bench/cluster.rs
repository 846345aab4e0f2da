//! A made-up cluster: N Services with one TCP port, five endpoints each, one EndpointSlice per Service, all IPv4.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use switchyard_model::{
    Conditions, EndpointSlice, Event, Family, Node, Port, Protocol, Service, ServiceName, ServiceType,
    SliceEndpoint, SliceName, SlicePort, Tracker, TrafficPolicy,
};
use switchyard_plan::book::{Book, PortChanges, of_family};
use switchyard_plan::iptables::{Config, Planner};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_plan::{ipvs, nft};

/// Endpoints of each Service.
pub(super) const ENDPOINTS: u32 = 5;

const NODE: &str = "n1";
pub(super) const CLUSTER_IPS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
pub(super) const POD_IPS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 1);
/// Where endpoints come from that replace others.
pub(super) const NEW_POD_IPS: Ipv4Addr = Ipv4Addr::new(10, 224, 0, 1);

pub(super) fn number(start: Ipv4Addr, index: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(start.to_bits().wrapping_add(index)))
}

/// What is known after the first lists.
pub(super) fn tracker(services: u32) -> Tracker {
    let (mut tracker, slices) = without_slices(services);
    tracker.apply(slices);
    tracker
}

/// What is known before the last list comes, and that list.
pub(super) fn without_slices(services: u32) -> (Tracker, Event) {
    let mut tracker = Tracker::new();
    tracker.apply(Event::Node(Node { name: NODE.into(), ..Node::default() }));
    tracker.apply(Event::Services((0..services).map(service).map(Arc::new).collect()));
    let slices = (0..services).map(|index| slice(index, POD_IPS)).map(Arc::new);
    (tracker, Event::Slices(slices.collect()))
}

/// Everything that changed, for the planner.
pub(super) fn taken(tracker: &mut Tracker) -> PortChanges {
    tracker.take().map(|changes| of_family(&changes.ports, Family::V4)).unwrap_or_default()
}

/// A planner with an empty book.
pub(super) fn planner() -> Planner {
    Planner::new(Config::default(), Book::new(settings()))
}

/// The same for nftables mode.
pub(super) fn nft_planner() -> nft::Planner {
    nft::Planner::new(nft::Config::default(), Book::new(settings()))
}

/// And for ipvs mode.
pub(super) fn ipvs_planner() -> ipvs::Planner {
    ipvs::Planner::new(ipvs::Config::default(), Book::new(settings()))
}

fn settings() -> Settings {
    Settings {
        family: Family::V4,
        node_name: NODE.into(),
        zone: None,
        node_ip: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        detector: LocalDetector::None,
        masquerade: MasqueradeClusterIp::default(),
        node_ports: NodePortAddresses::default(),
        loopback_node_ports: LoopbackNodePorts::default(),
    }
}

/// One endpoint of a Service is replaced by another.
pub(super) fn replace_endpoint(tracker: &mut Tracker, index: u32) {
    let mut slice = slice(index, POD_IPS);
    if let Some(first) = slice.endpoints.first_mut() {
        first.address = number(NEW_POD_IPS, index);
    }
    tracker.apply(Event::Slice(slice.into()));
}

/// And put back.
pub(super) fn restore_endpoint(tracker: &mut Tracker, index: u32) {
    tracker.apply(Event::Slice(slice(index, POD_IPS).into()));
}

/// This Service, or the next one if its endpoints are on the own node.
pub(super) fn remote(index: u32) -> u32 {
    if node(index) == NODE { index + 1 } else { index }
}

fn node(index: u32) -> String {
    format!("n{}", index % 50)
}

fn name(index: u32) -> ServiceName {
    ServiceName::new(&format!("team-{}", index % 100), &format!("service-{index}"))
}

fn service(index: u32) -> Service {
    Service {
        name: name(index),
        created: i64::from(index),
        kind: ServiceType::ClusterIp,
        cluster_ips: vec![number(CLUSTER_IPS, index)],
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        ports: vec![Port { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }],
    }
}

fn slice(index: u32, pods: Ipv4Addr) -> EndpointSlice {
    let service = name(index);
    let node: Arc<str> = node(index).into();
    let endpoint = |offset: u32| SliceEndpoint {
        address: number(pods, index * ENDPOINTS + offset),
        conditions: Conditions::default(),
        node: Some(node.clone()),
        hints: None,
    };
    EndpointSlice {
        name: SliceName::new(&service.namespace, &format!("{}-abcde", service.name)),
        service,
        family: Family::V4,
        ports: vec![SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: (0..ENDPOINTS).map(endpoint).collect(),
        trigger: None,
    }
}
