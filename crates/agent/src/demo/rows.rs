//! What the demo requests, and what should come of it. Pure: from a snapshot to rows.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use switchyard_lab::Node;
use switchyard_lab::address;
use switchyard_lab::scenario::address::wire_family;
use switchyard_model::{Family, Protocol, ServicePort, Snapshot};
use switchyard_plan::book::{Book, of_family};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_plan::trace::{Answer, Packet, through_routes};

/// The ranges of all pods of the lab, as the proxies are told.
pub(super) const CLUSTER_CIDRS: &str = "10.1.0.0/16,fd00:10:1::/48";
/// The number of the pod that dials.
pub(super) const CLIENT_POD: u8 = 200;
/// More rows than this do not fit on a screen.
const MAX_ROWS: usize = 40;

/// Who dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// A pod on node n1.
    Pod,
    /// A machine outside the cluster.
    Outside,
}

/// One thing that is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) service: String,
    pub(super) kind: &'static str,
    pub(super) from: From,
    pub(super) to: SocketAddr,
    pub(super) protocol: Protocol,
    pub(super) is_sticky: bool,
    pub(super) expected: Answer,
}

/// Rows for every Service of a snapshot, in its order.
pub(super) fn rows(snapshot: &Snapshot) -> Vec<Row> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        let books = Node::ALL.map(|node| (node, book(snapshot, node, family)));
        let ports = snapshot.ports.values().filter(|p| p.family == family);
        for port in ports.filter(|p| p.name.protocol != Protocol::Sctp) {
            for (kind, from, node, ip, number) in targets(port) {
                let Some((_, book)) = books.iter().find(|(n, _)| *n == node) else { continue };
                rows.push(row(book, port, kind, from, node, SocketAddr::new(ip, number)));
            }
        }
    }
    rows.sort_by(|a, b| a.service.cmp(&b.service));
    rows.truncate(MAX_ROWS);
    rows
}

/// What is dialled for a service port: kind, by whom, through the proxy of which node, address and port.
fn targets(port: &ServicePort) -> Vec<(&'static str, From, Node, IpAddr, u16)> {
    let mut all = vec![("ClusterIP", From::Pod, Node::N1, port.cluster_ip, port.port)];
    // The lab's router sends external and load-balancer addresses to n1.
    all.extend(port.external_ips.iter().map(|ip| ("ExternalIP", From::Outside, Node::N1, *ip, port.port)));
    all.extend(
        port.load_balancer_ips.iter().map(|ip| ("LoadBalancer", From::Outside, Node::N1, *ip, port.port)),
    );
    if let Some(number) = port.node_port {
        let at =
            |node| ("NodePort", From::Outside, node, address::node(node, wire_family(port.family)), number);
        all.extend(Node::ALL.map(at));
    }
    all
}

fn row(book: &Book, port: &ServicePort, kind: &'static str, from: From, node: Node, to: SocketAddr) -> Row {
    let wire = wire_family(port.family);
    let source = match from {
        From::Pod => address::pod(Node::N1, CLIENT_POD, wire),
        From::Outside => Some(address::client(wire)),
    };
    let packet = Packet {
        source: source.unwrap_or(to.ip()),
        interface: Some(if from == From::Pod { "pod" } else { "uplink" }.to_owned()),
        destination: to.ip(),
        protocol: port.name.protocol,
        port: to.port(),
    };
    let own = BTreeSet::from([address::node(node, wire), address::pod_gateway(node, wire)]);
    Row {
        service: port.name.service.name.to_string(),
        kind,
        from,
        to,
        protocol: port.name.protocol,
        is_sticky: port.affinity.is_some(),
        expected: through_routes(book, &own, &packet),
    }
}

/// What the proxy of a node should do, from the same objects.
fn book(snapshot: &Snapshot, node: Node, family: Family) -> Book {
    let mut ranges = CLUSTER_CIDRS.split(',').filter_map(|text| text.parse::<ipnet::IpNet>().ok());
    let detector = ranges.find(|range| Family::of(range.addr()) == family);
    let mut book = Book::new(Settings {
        family,
        node_name: node.name().into(),
        zone: None,
        node_ip: address::node(node, wire_family(family)),
        detector: detector.map_or(LocalDetector::None, LocalDetector::Cidr),
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    });
    let all = snapshot.ports.iter().map(|(key, port)| (key.clone(), Some(port.clone()))).collect();
    book.update(of_family(&all, family));
    book
}
