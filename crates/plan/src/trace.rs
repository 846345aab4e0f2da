//! The packet tracer: where would this packet go, and with which source address?
//!
//! [`through_routes`] asks the routes. Each mode has a tracer of its own over the rules it would write; both must give
//! the same [`Answer`], and so must a real packet in the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use switchyard_model::{Family, Protocol};

use crate::book::Book;
use crate::route::{Branch, Client, Frontend, FrontendAddress, Masquerade, PortRoutes, Route, Verdict};
use crate::settings::{LocalDetector, Settings};

/// The first packet of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub source: IpAddr,
    /// The interface it comes in on; `None` if this node sends it.
    pub interface: Option<String>,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Destination port.
    pub port: u16,
}

/// Whose address the endpoint sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// The client's own.
    Client,
    /// This node's.
    Node,
}

/// Where a packet goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To one of these endpoints.
    Endpoints(BTreeMap<SocketAddr, Seen>),
    /// Nowhere, and the client is told.
    Reject,
    /// Nowhere, silently.
    Drop,
    /// Where it would have gone without us.
    Untouched,
}

/// The addresses of this node, loopback included.
pub type NodeAddresses = BTreeSet<IpAddr>;

/// Who sent the packet, as far as routes distinguish.
pub fn is_local_pod(settings: &Settings, packet: &Packet) -> bool {
    match &settings.detector {
        LocalDetector::None => false,
        LocalDetector::Cidr(range) => range.contains(&packet.source),
        LocalDetector::Bridge(name) => packet.interface.as_ref() == Some(name),
        LocalDetector::InterfacePrefix(prefix) => {
            packet.interface.as_ref().is_some_and(|name| name.starts_with(prefix.as_str()))
        }
    }
}

/// True for the addresses of this node; every loopback address is one.
pub fn is_own(node: &NodeAddresses, ip: IpAddr) -> bool {
    ip.is_loopback() || node.contains(&ip)
}

/// Asks the routes.
pub fn through_routes(book: &Book, node: &NodeAddresses, packet: &Packet) -> Answer {
    let at = |address| Frontend { address, protocol: packet.protocol, port: packet.port };
    let is_node_port =
        is_own(node, packet.destination) && book.settings().serves_node_ports_on(packet.destination);
    let node_port = at(FrontendAddress::Node(Family::of(packet.destination)));
    let dialled = [at(FrontendAddress::Ip(packet.destination)), node_port];
    let candidates = if is_node_port { 2 } else { 1 };
    for frontend in dialled.iter().take(candidates) {
        let Some(port) = book.owner(frontend) else { continue };
        let routes = book.routes(port);
        if let Some(route) = routes.routes.iter().find(|r| r.frontend == *frontend) {
            return follow(book.settings(), node, &routes, route, packet);
        }
    }
    Answer::Untouched
}

fn follow(
    settings: &Settings,
    node: &NodeAddresses,
    routes: &PortRoutes<'_>,
    route: &Route,
    packet: &Packet,
) -> Answer {
    let allowed = &route.allowed_sources;
    if !allowed.is_empty() && !allowed.iter().any(|range| range.contains(&packet.source)) {
        return Answer::Drop;
    }
    let fits = |branch: &&Branch| match branch.client {
        Client::LocalPod => is_local_pod(settings, packet),
        Client::ThisNode => is_own(node, packet.source),
        Client::Anyone => true,
    };
    let Some(branch) = route.branches.iter().find(fits) else { return Answer::Untouched };
    let pool = match branch.verdict {
        Verdict::Pick(pool) => pool,
        Verdict::Reject => return Answer::Reject,
        Verdict::Drop => return Answer::Drop,
    };
    let is_masqueraded = match branch.masquerade {
        Masquerade::Never => false,
        Masquerade::FromOutside => !is_local_pod(settings, packet),
        Masquerade::Always => true,
    };
    let seen = |address: SocketAddr| {
        let is_hairpin = address.ip() == packet.source;
        // A packet from elsewhere to an endpoint in this node's own network never leaves, so it keeps its source.
        let stays_here = packet.interface.is_some() && is_own(node, address.ip());
        if (is_masqueraded || is_hairpin) && !stays_here { Seen::Node } else { Seen::Client }
    };
    Answer::Endpoints(routes.pool(pool).iter().map(|e| (e.address, seen(e.address))).collect())
}
