//! Which virtual servers of the kernel are ours.
//!
//! IPVS has no place for an owner's name, and others may use it on the same node. Ours are those at an address of our link,
//! and those that our table knows: it outlives the process, is written before a virtual server is made, and forgets it only
//! after it is gone. Everything else is somebody else's and is never touched.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Server;
use crate::nft::element::{Key, Place};
use crate::nft::names::Set;
use crate::nft::planner::Ruleset;

/// What tells our virtual servers from others.
#[derive(Clone, Copy, Debug)]
pub struct Ledger<'a> {
    /// Addresses of the family on our link.
    pub addresses: &'a BTreeSet<IpAddr>,
    /// Our table, if it is there.
    pub table: Option<&'a Ruleset>,
}

impl Ledger<'_> {
    /// True if only we can have made it.
    pub fn owns(&self, server: Server) -> bool {
        let Server { address, protocol, port } = server;
        let knows = |set, key| self.table.is_some_and(|t| t.elements.contains_key(&Place { set, key }));
        self.addresses.contains(&address)
            || knows(Set::Frontends, Key::Frontend(address, protocol, port))
            || (knows(Set::NodePorts, Key::NodePort(protocol, port))
                && knows(Set::NodePortIps, Key::Address(address)))
    }
}

/// Sets whose elements stay until the virtual servers that they speak of are gone.
pub(super) fn is_remembered(set: Set) -> bool {
    matches!(set, Set::Frontends | Set::NodePorts | Set::NodePortIps | Set::VirtualIps)
}
