//! The address plan. `<n>` is 1 or 2; the digits of an IPv6 address are written as those of the IPv4 address.
//!
//! | what | IPv4 | IPv6 |
//! |---|---|---|
//! | node n | 192.168.\<n\>.10/24 | fd00:168:\<n\>::10/64 |
//! | router, towards node n | 192.168.\<n\>.1 | fd00:168:\<n\>::1 |
//! | client | 192.168.100.10/24 | fd00:168:100::10/64 |
//! | router, towards the client | 192.168.100.1 | fd00:168:100::1 |
//! | pod i of node n | 10.1.\<n\>.\<i+10\>/32 | fd00:10:1:\<n\>::\<i+10\>/128 |
//! | gateway of the pods of node n | 10.1.\<n\>.1 | fd00:10:1:\<n\>::1 |
//! | pod range of node n | 10.1.\<n\>.0/24 | fd00:10:1:\<n\>::/64 |
//! | cluster IPs (towards n1) | 10.96.0.0/12 | fd00:10:96::/112 |
//! | load-balancer IPs (towards n1) | 192.0.2.0/24 | 2001:db8:2::/64 |
//! | external IPs (towards n1) | 198.51.100.0/24 | 2001:db8:5::/64 |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use switchyard_netlink::Family;

/// The highest number that a pod can have.
pub const LAST_POD: u8 = 244;

/// A network: address and prefix length.
pub type Network = (IpAddr, u8);

/// One of the two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The node that the router sends service addresses to.
    N1,
    /// The other node.
    N2,
}

impl Node {
    /// Both.
    pub const ALL: [Self; 2] = [Self::N1, Self::N2];

    /// 1 or 2.
    pub fn number(self) -> u8 {
        match self {
            Self::N1 => 1,
            Self::N2 => 2,
        }
    }

    /// `n1` or `n2`: the node's name for Kubernetes objects too.
    pub fn name(self) -> &'static str {
        match self {
            Self::N1 => "n1",
            Self::N2 => "n2",
        }
    }
}

/// The address of a node.
pub fn node(node: Node, family: Family) -> IpAddr {
    edge(node.number(), 10, family)
}

/// The router's address towards a node.
pub fn router(node: Node, family: Family) -> IpAddr {
    edge(node.number(), 1, family)
}

/// The address of the client.
pub fn client(family: Family) -> IpAddr {
    edge(100, 10, family)
}

/// The router's address towards the client.
pub fn client_router(family: Family) -> IpAddr {
    edge(100, 1, family)
}

/// The address of a pod; none above [`LAST_POD`].
pub fn pod(node: Node, index: u8, family: Family) -> Option<IpAddr> {
    (index <= LAST_POD).then(|| in_pod_range(node, index.saturating_add(10), family))
}

/// The address that the pods of a node send everything to.
pub fn pod_gateway(node: Node, family: Family) -> IpAddr {
    in_pod_range(node, 1, family)
}

/// The network of a node's pods.
pub fn pod_range(node: Node, family: Family) -> Network {
    (in_pod_range(node, 0, family), prefix(24, 64, family))
}

/// The networks that the router sends to n1: cluster IPs, load-balancer IPs, external IPs.
pub fn service_ranges(family: Family) -> [Network; 3] {
    match family {
        Family::V4 => [
            (Ipv4Addr::new(10, 96, 0, 0).into(), 12),
            (Ipv4Addr::new(192, 0, 2, 0).into(), 24),
            (Ipv4Addr::new(198, 51, 100, 0).into(), 24),
        ],
        Family::V6 => [
            (Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0).into(), 112),
            (Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0).into(), 64),
            (Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0).into(), 64),
        ],
    }
}

/// Everything that is not nearer.
pub(crate) fn anywhere(family: Family) -> Network {
    match family {
        Family::V4 => (Ipv4Addr::UNSPECIFIED.into(), 0),
        Family::V6 => (Ipv6Addr::UNSPECIFIED.into(), 0),
    }
}

/// The prefix length for each family.
pub(crate) fn prefix(v4: u8, v6: u8, family: Family) -> u8 {
    match family {
        Family::V4 => v4,
        Family::V6 => v6,
    }
}

fn edge(network: u8, host: u8, family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(192, 168, network, host).into(),
        Family::V6 => {
            Ipv6Addr::new(0xfd00, 0x168, same_digits(network), 0, 0, 0, 0, same_digits(host)).into()
        }
    }
}

fn in_pod_range(node: Node, host: u8, family: Family) -> IpAddr {
    let n = node.number();
    match family {
        Family::V4 => Ipv4Addr::new(10, 1, n, host).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x10, 1, same_digits(n), 0, 0, 0, same_digits(host)).into(),
    }
}

/// The number whose hexadecimal digits are the decimal digits of `number`.
fn same_digits(number: u8) -> u16 {
    let number = u16::from(number);
    ((number / 100) << 8) + (((number / 10) % 10) << 4) + number % 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_as_documented() {
        let text = |address: Option<IpAddr>| address.map(|a| a.to_string()).unwrap_or_default();
        assert_eq!(text(pod(Node::N2, 0, Family::V4)), "10.1.2.10");
        assert_eq!(text(pod(Node::N2, 244, Family::V6)), "fd00:10:1:2::254");
        assert_eq!(text(pod(Node::N2, 245, Family::V6)), "");
        assert_eq!(client(Family::V6).to_string(), "fd00:168:100::10");
        assert_eq!(node(Node::N1, Family::V4).to_string(), "192.168.1.10");
        assert_eq!(pod_range(Node::N1, Family::V6).0.to_string(), "fd00:10:1:1::");
    }
}
