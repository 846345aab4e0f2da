//! Symbols for addresses, each with a meaning in both families.

use std::fmt;
use std::net::IpAddr;

use switchyard_model::Family;

use crate::address::{self, Node};

/// An address of the lab's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Symbol {
    /// `client`: outside the cluster.
    Client,
    /// `n1`: a node's own address.
    Node(u8),
    /// `n1.3`: pod 3 of node 1.
    Pod(u8, u8),
    /// `cluster.5`: a cluster IP.
    Cluster(u8),
    /// `ext.5`: an external IP.
    External(u8),
    /// `lb.5`: a load-balancer IP.
    LoadBalancer(u8),
    /// `localhost`: the loopback address of node n1.
    Localhost,
    /// `gateway`: the address that node n1 has towards its pods, besides `n1`.
    Gateway,
}

impl Symbol {
    /// Reads a symbol.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse::<u8>().ok();
        match text.split_once('.') {
            Some(("cluster", n)) => Some(Self::Cluster(number(n)?)),
            Some(("ext", n)) => Some(Self::External(number(n)?)),
            Some(("lb", n)) => Some(Self::LoadBalancer(number(n)?)),
            Some((node, pod)) => Some(Self::Pod(number(node.strip_prefix('n')?)?, number(pod)?)),
            None if text == "client" => Some(Self::Client),
            None if text == "localhost" => Some(Self::Localhost),
            None if text == "gateway" => Some(Self::Gateway),
            None => Some(Self::Node(number(text.strip_prefix('n')?)?)),
        }
    }

    /// True for a pod.
    pub fn is_pod(&self) -> bool {
        matches!(self, Self::Pod(..))
    }

    /// The address in a family; `None` for a node or pod that the lab cannot have.
    pub fn ip(self, family: Family) -> Option<IpAddr> {
        let wire = wire_family(family);
        match self {
            Self::Client => Some(address::client(wire)),
            Self::Node(n) => Some(address::node(node(n)?, wire)),
            Self::Pod(n, i) => address::pod(node(n)?, i, wire),
            Self::Cluster(n) => numbered(family, "10.96.0.", "fd00:10:96::", n),
            Self::External(n) => numbered(family, "198.51.100.", "2001:db8:5::", n),
            Self::LoadBalancer(n) => numbered(family, "192.0.2.", "2001:db8:2::", n),
            Self::Gateway => Some(address::pod_gateway(Node::N1, wire)),
            Self::Localhost => Some(match family {
                Family::V4 => std::net::Ipv4Addr::LOCALHOST.into(),
                Family::V6 => std::net::Ipv6Addr::LOCALHOST.into(),
            }),
        }
    }
}

/// A node of the lab by its number.
pub fn node(number: u8) -> Option<Node> {
    Node::ALL.into_iter().find(|node| node.number() == number)
}

/// The family in the words of the netlink crate, which knows no Services.
pub fn wire_family(family: Family) -> crate::Family {
    match family {
        Family::V4 => crate::Family::V4,
        Family::V6 => crate::Family::V6,
    }
}

fn numbered(family: Family, v4: &str, v6: &str, number: u8) -> Option<IpAddr> {
    let prefix = match family {
        Family::V4 => v4,
        Family::V6 => v6,
    };
    format!("{prefix}{number}").parse().ok()
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => f.write_str("client"),
            Self::Node(n) => write!(f, "n{n}"),
            Self::Pod(n, i) => write!(f, "n{n}.{i}"),
            Self::Cluster(n) => write!(f, "cluster.{n}"),
            Self::External(n) => write!(f, "ext.{n}"),
            Self::LoadBalancer(n) => write!(f, "lb.{n}"),
            Self::Localhost => f.write_str("localhost"),
            Self::Gateway => f.write_str("gateway"),
        }
    }
}
