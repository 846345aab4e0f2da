//! Symbols for addresses, each with a meaning in both families.

use std::fmt;
use std::net::IpAddr;

use switchyard_model::Family;

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
    /// `localhost`.
    Localhost,
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
            None => Some(Self::Node(number(text.strip_prefix('n')?)?)),
        }
    }

    /// True for a pod.
    pub fn is_pod(&self) -> bool {
        matches!(self, Self::Pod(..))
    }

    /// The address in a family.
    pub fn ip(self, family: Family) -> IpAddr {
        use crate::plan;
        match self {
            Self::Client => plan::client_ip(family),
            Self::Node(n) => plan::node_ip(n, family),
            Self::Pod(n, i) => plan::pod_ip(n, i, family),
            Self::Cluster(n) => plan::cluster_ip(n, family),
            Self::External(n) => plan::external_ip(n, family),
            Self::LoadBalancer(n) => plan::load_balancer_ip(n, family),
            Self::Localhost => match family {
                Family::V4 => std::net::Ipv4Addr::LOCALHOST.into(),
                Family::V6 => std::net::Ipv6Addr::LOCALHOST.into(),
            },
        }
    }
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
        }
    }
}
