//! Where the rules lead that an earlier run left. They are in force until this run has written its own.
//!
//! In: the ruleset that was read back. Out: which listener a door had, and which addresses are others'.
//!
//! Invariant: nobody listens where the rules in force lead clients of somebody else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use switchyard_model::{Family, Protocol};

use super::{Door, Listener};
use crate::nft::element::{Data, Key};
use crate::nft::planner::Ruleset;
use crate::nft::slots::MIDDLE;
use crate::route::{Frontend, FrontendAddress};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heritage {
    listeners: BTreeMap<(Frontend, Door), SocketAddr>,
    /// The same the other way round.
    clients: BTreeMap<(Protocol, SocketAddr), BTreeSet<(Frontend, Door)>>,
}

impl Heritage {
    /// What leads to listeners at this address.
    pub fn at(ip: IpAddr, held: &Ruleset) -> Self {
        let node = FrontendAddress::Node(Family::of(ip));
        let mut heritage = Self::default();
        for (place, data) in &held.elements {
            let (address, protocol, port, slot) = match place.key {
                Key::Slot(ip, protocol, port, slot) => (FrontendAddress::Ip(ip), protocol, port, slot),
                Key::NodePortSlot(protocol, port, slot) => (node, protocol, port, slot),
                _ => continue,
            };
            let Data::Endpoint(at) = data else { continue };
            if at.ip() == ip {
                let door = if slot < MIDDLE { Door::Cluster } else { Door::Local };
                let client = (Frontend { address, protocol, port }, door);
                heritage.listeners.insert(client, *at);
                heritage.clients.entry((protocol, *at)).or_default().insert(client);
            }
        }
        heritage
    }

    /// True if no rules lead to any listener.
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Where a listener was, if it can be there again.
    pub fn of(&self, wish: &Listener) -> Option<SocketAddr> {
        let places = wish.frontends.iter().filter_map(|frontend| {
            let at = self.listeners.get(&(*frontend, wish.door))?;
            Some((frontend.protocol, *at))
        });
        places.into_iter().find(|(protocol, at)| self.is_free(wish, *protocol, *at)).map(|(_, at)| at)
    }

    /// True if nobody is led there who is not to be served by this listener.
    pub fn is_free(&self, wish: &Listener, protocol: Protocol, at: SocketAddr) -> bool {
        let is_own =
            |(frontend, door): &(Frontend, Door)| *door == wish.door && wish.frontends.contains(frontend);
        self.clients.get(&(protocol, at)).is_none_or(|clients| clients.iter().all(is_own))
    }
}
