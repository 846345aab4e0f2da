//! The packet tracer: where would this packet go, and with which source address?
//!
//! [`through_routes`] asks the routes. Each mode has a tracer of its own over the rules it would write; both must give
//! the same [`Answer`], and so must a real packet in the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use switchyard_model::Protocol;

use crate::book::Book;
use crate::explain::{Manners, Place, explain};
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
    explain(Place { book, node, manners: &Manners::Lenient }, packet).answer
}
