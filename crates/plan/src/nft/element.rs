//! Keys and values of the shared sets and maps.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use switchyard_model::Protocol;

use super::names::Set;
use super::rule::Verdict;
use crate::route::{Frontend, FrontendAddress};

/// A key. Its form says which sets it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// An address.
    Address(IpAddr),
    /// Address . protocol . port.
    Frontend(IpAddr, Protocol, u16),
    /// Protocol . port.
    NodePort(Protocol, u16),
    /// Address . protocol . port . slot.
    Slot(IpAddr, Protocol, u16, u16),
    /// Protocol . port . slot.
    NodePortSlot(Protocol, u16, u16),
    /// Address . protocol . port . source range.
    Source(IpAddr, Protocol, u16, IpNet),
    /// Endpoint . endpoint . protocol . port.
    Hairpin(IpAddr, Protocol, u16),
}

/// What a map has for a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Data {
    /// Nothing: the container is a set.
    None,
    /// What to do.
    Verdict(Verdict),
    /// Where to send it.
    Endpoint(SocketAddr),
}

/// Identity of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The container.
    pub set: Set,
    /// The key.
    pub key: Key,
}

impl Place {
    /// The element as `nft` would list it, with the set that it is in.
    pub fn to_text(&self, data: &Data) -> String {
        format!("element {} {{ {}{data} }}", self.set.as_str(), self.key)
    }

    /// True if the element is about packets for this frontend.
    pub(crate) fn is_about(&self, frontend: &Frontend) -> bool {
        let Frontend { address, protocol, port } = *frontend;
        match (self.key, address) {
            (
                Key::Frontend(ip, p, n) | Key::Slot(ip, p, n, _) | Key::Source(ip, p, n, _),
                FrontendAddress::Ip(own),
            ) => (ip, p, n) == (own, protocol, port),
            (Key::NodePort(p, n) | Key::NodePortSlot(p, n, _), FrontendAddress::Node(_)) => {
                (p, n) == (protocol, port)
            }
            _ => false,
        }
    }
}

impl Set {
    /// True if several service ports may need the same element: two ports of one cluster IP, or one endpoint of two
    /// Services.
    pub fn is_shared_by_ports(self) -> bool {
        matches!(self, Self::ClusterIps | Self::Hairpins | Self::VirtualIps | Self::HealthPorts)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => write!(f, "{ip}"),
            Self::Frontend(ip, protocol, port) => write!(f, "{ip} . {protocol} . {port}"),
            Self::NodePort(protocol, port) => write!(f, "{protocol} . {port}"),
            Self::Slot(ip, protocol, port, slot) => write!(f, "{ip} . {protocol} . {port} . {slot}"),
            Self::NodePortSlot(protocol, port, slot) => write!(f, "{protocol} . {port} . {slot}"),
            Self::Source(ip, protocol, port, range) => write!(f, "{ip} . {protocol} . {port} . {range}"),
            Self::Hairpin(ip, protocol, port) => write!(f, "{ip} . {ip} . {protocol} . {port}"),
        }
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Verdict(verdict) => write!(f, " : {verdict}"),
            Self::Endpoint(to) => write!(f, " : {} . {}", to.ip(), to.port()),
        }
    }
}
