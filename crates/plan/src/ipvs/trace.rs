//! The packet tracer: a packet passes the table, and IPVS in the midst of it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use super::{Planner, Server};
use crate::nft::element::{Key, Place};
use crate::nft::names::Set;
use crate::nft::planner::Ruleset;
use crate::trace::{Answer, NodeAddresses, Packet};

/// The table and the virtual servers as values, to send packets through.
#[derive(Clone, Debug)]
pub struct Whole {
    /// The table.
    pub ruleset: Ruleset,
    /// The destinations of each virtual server.
    pub servers: BTreeMap<Server, BTreeSet<SocketAddr>>,
}

impl Planner {
    /// Everything that is wanted.
    pub fn whole(&self) -> Whole {
        let servers = self.servers().into_iter();
        Whole {
            ruleset: self.ruleset(),
            servers: servers.map(|(at, (_, content))| (at, content.destinations)).collect(),
        }
    }
}

impl Whole {
    /// The addresses of our link.
    pub fn virtual_ips(&self) -> impl Iterator<Item = IpAddr> {
        self.ruleset.elements.keys().filter_map(|place| match place {
            Place { set: Set::VirtualIps, key: Key::Address(ip) } => Some(*ip),
            _ => None,
        })
    }

    /// Where a packet goes: through the rules, and what the virtual servers do with it.
    pub fn trace(&self, node: &NodeAddresses, packet: &Packet) -> Answer {
        let mut own = node.clone();
        own.extend(self.virtual_ips());
        let destinations = |at: SocketAddr| {
            let server = Server { address: at.ip(), protocol: packet.protocol, port: at.port() };
            self.servers.get(&server).map(|to| to.iter().copied().collect()).unwrap_or_default()
        };
        self.ruleset.trace_to_servers(&own, packet, &destinations)
    }
}

#[cfg(test)]
mod tests;
