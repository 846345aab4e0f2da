//! Which connection-tracking flows are stale: they lead where the current routes would never send a packet.
//!
//! The kernel keeps a flow's address translation for as long as packets arrive. A UDP client that keeps sending
//! from one port is therefore stuck with an endpoint that is gone, or with "no translation" from before the Service
//! existed. Nothing but removing the flow helps.
//!
//! In: a [`Book`], what changed in it, the addresses of the node that serve node ports. Out: [`Expectations`], which name what to ask the kernel
//! for and judge each flow that it returns.
//!
//! Invariants
//! - A flow to an endpoint that is still serving is never stale, even if new flows would go elsewhere.
//! - A flow to an address that is none of our frontends is never stale; for node ports that means that the
//!   destination must be an address of this node.
//! - A frontend without endpoints, or one that is gone, expects no flow at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use switchyard_model::{Protocol, ServicePort};

use crate::book::{Book, Replaced};
use crate::route::{Frontend, FrontendAddress};

/// Above this many frontends one pass over all flows of a protocol is cheaper than a question for each.
const MAX_QUESTIONS: usize = 16;

/// A flow as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Protocol number.
    pub protocol: u8,
    /// What the client dialled.
    pub dialled: SocketAddr,
    /// Who answers, or would.
    pub answers: SocketAddr,
}

/// What to ask the kernel for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// Protocol.
    pub protocol: Protocol,
    /// Original destination, if only one is of interest.
    pub address: Option<IpAddr>,
    /// Original destination port, if only one is of interest.
    pub port: Option<u16>,
}

/// Which flows may exist for some frontends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectations {
    /// Endpoints that a flow to the frontend may lead to.
    may_answer: BTreeMap<Frontend, BTreeSet<SocketAddr>>,
    node_addresses: BTreeSet<IpAddr>,
}

/// What to expect of the frontends of service ports that changed, before and after.
pub fn of_changes(book: &Book, changed: &[Replaced], node_addresses: BTreeSet<IpAddr>) -> Expectations {
    let values = changed.iter().flat_map(|r| r.old.iter().chain(&r.new));
    let ports: Vec<&ServicePort> =
        values.map(|p| &**p).filter(|p| p.name.protocol.leaves_stale_flows()).collect();
    let mut may_answer: BTreeMap<Frontend, BTreeSet<SocketAddr>> = BTreeMap::new();
    for port in ports {
        for (_, frontend) in crate::route::frontends(port) {
            may_answer.entry(frontend).or_insert_with(|| book.may_answer(&frontend));
        }
    }
    Expectations { may_answer, node_addresses }
}

/// What to expect of all frontends, for the first sync of a process: endpoints may have gone while nobody looked. A
/// Service that is gone altogether cannot be told from one that another proxy serves; its flows are left to time out.
pub fn of_everything(book: &Book, node_addresses: BTreeSet<IpAddr>) -> Expectations {
    let mut may_answer: BTreeMap<Frontend, BTreeSet<SocketAddr>> = BTreeMap::new();
    for port in book.ports().values().filter(|p| p.name.protocol.leaves_stale_flows()) {
        for route in book.routes(port).routes {
            may_answer.insert(route.frontend, serving(port));
        }
    }
    Expectations { may_answer, node_addresses }
}

fn serving(port: &ServicePort) -> BTreeSet<SocketAddr> {
    // Ready without serving happens with publishNotReadyAddresses: rules use it, so a flow may lead there.
    let usable = port.endpoints.iter().filter(|e| e.conditions.serving || e.conditions.ready);
    usable.map(|e| e.address).collect()
}

impl Book {
    /// Endpoints that may answer for a frontend now; none if nobody owns it.
    fn may_answer(&self, frontend: &Frontend) -> BTreeSet<SocketAddr> {
        self.owner(frontend).map(serving).unwrap_or_default()
    }
}

impl Expectations {
    /// True if no flow needs to be looked at.
    pub fn is_empty(&self) -> bool {
        self.may_answer.is_empty()
    }

    /// What to ask the kernel for. Every stale flow is in at least one answer.
    pub fn questions(&self) -> BTreeSet<Question> {
        if self.may_answer.len() > MAX_QUESTIONS {
            let protocols = [Protocol::Udp, Protocol::Sctp].into_iter();
            return protocols.map(|protocol| Question { protocol, address: None, port: None }).collect();
        }
        let question = |f: &Frontend| Question {
            protocol: f.protocol,
            address: match f.address {
                FrontendAddress::Ip(ip) => Some(ip),
                FrontendAddress::Node(_) => None,
            },
            port: Some(f.port),
        };
        self.may_answer.keys().map(question).collect()
    }

    /// Judges one flow.
    pub fn is_stale(&self, flow: &Flow) -> bool {
        let Some(protocol) =
            [Protocol::Udp, Protocol::Sctp].into_iter().find(|p| p.number() == flow.protocol)
        else {
            return false;
        };
        let (ip, port) = (flow.dialled.ip(), flow.dialled.port());
        let at = |address| Frontend { address, protocol, port };
        if let Some(expected) = self.may_answer.get(&at(FrontendAddress::Ip(ip))) {
            return !expected.contains(&flow.answers);
        }
        let node_port = at(FrontendAddress::Node(switchyard_model::Family::of(ip)));
        self.node_addresses.contains(&ip)
            && self.may_answer.get(&node_port).is_some_and(|ok| !ok.contains(&flow.answers))
    }
}

#[cfg(test)]
mod tests;
