//! ipvs mode: virtual servers with their destinations, addresses for the link that carries them, and one nftables table for
//! what IPVS does not do: masquerading, source ranges, refusals.
//!
//! In: a [`Book`](crate::book::Book) and a [`Config`]. Out: ordered [`steps`], and everything as values for the tracer,
//! golden tests and the comparison with what the kernel holds.
//!
//! There is no transaction over IPVS, addresses and rules, so the order of the steps keeps every prefix of them valid; see
//! [`steps`]. The table is also the memory of what is ours: [`ownership`] says which virtual servers an earlier run left.
//! Chains are few and always the same; rules, sets and elements are those of nftables mode ([`crate::nft`]).
//!
//! One virtual server has one list of destinations, whoever the client is. With Local policy it has the endpoints of this node;
//! only if there are none it has those of the cluster, for pods of this node and the node itself, and rules keep everybody else
//! away. (kube-proxy lets everybody in then, and other modes give local clients the whole cluster in both cases.)
//!
//! | module | decides |
//! |---|---|
//! | [`base`] | chains and their rules |
//! | [`port`] | everything that one service port needs |
//! | [`ownership`] | which virtual servers are ours |
//! | [`planner`], [`steps`] | what to write |
//! | [`trace`] | where a packet goes |

pub mod base;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod golden;
pub mod ownership;
pub mod planner;
pub mod port;
pub mod steps;
pub mod trace;

pub use planner::Planner;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::Protocol;

/// A service flag of the scheduler `mh`: the source port counts.
const MH_PORT: u32 = 0x10;

/// What this mode alone needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The packet mark that asks for masquerading; one bit.
    pub mark: u32,
    /// The scheduler of every virtual server.
    pub scheduler: Arc<str>,
    /// Addresses that this node has on other links: they are never put on ours.
    pub own: BTreeSet<IpAddr>,
    /// Virtual servers at these addresses are never deleted.
    pub excluded: Vec<IpNet>,
}

impl Default for Config {
    fn default() -> Self {
        Self { mark: 1 << 14, scheduler: "rr".into(), own: BTreeSet::new(), excluded: Vec::new() }
    }
}

/// What identifies a virtual server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Server {
    /// Address.
    pub address: IpAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", SocketAddr::new(self.address, self.port), self.protocol)
    }
}

/// How a virtual server works.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Options {
    /// The name of its scheduler.
    pub scheduler: Arc<str>,
    /// Flags for the scheduler.
    pub flags: u32,
    /// For how many seconds a client stays with its destination.
    pub sticky: Option<NonZeroU32>,
}

impl Options {
    /// What a service port with this affinity gets.
    pub fn new(config: &Config, affinity: Option<u32>) -> Self {
        let scheduler = config.scheduler.clone();
        let flags = if &*scheduler == "mh" { MH_PORT } else { 0 };
        Self { scheduler, flags, sticky: affinity.and_then(NonZeroU32::new) }
    }
}

/// A virtual server with everything that packets may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// How it works.
    pub options: Options,
    /// Where it sends packets, each as often as the others.
    pub destinations: BTreeSet<SocketAddr>,
}
