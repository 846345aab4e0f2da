//! Why a packet goes where it goes.
//!
//! In: a book, the node's addresses, what the mode does beyond routes, and the first packet of a connection. Out: an [`Explanation`]: the
//! answer, the frontend and its owner, and for every endpoint whether it may answer and why (not).
//!
//! The packet tracer over routes ([`crate::trace::through_routes`]) is this without the reasons, so the two cannot disagree. Words for
//! people are in [`words`]; nothing here decides anything that [`crate::route`] did not decide.

mod endpoints;
mod words;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::{Family, PortKey, ServicePort, ServicePortName, TrafficPolicy};

pub use endpoints::{Exclusion, Judged, Source, Standing};

use crate::book::Book;
use crate::route::{
    Branch, Client, Frontend, FrontendAddress, FrontendKind, Masquerade, Pool, PortRoutes, Route, Verdict,
    source_ranges,
};
use crate::trace::{Answer, NodeAddresses, Packet, Seen, is_local_pod, is_own};

/// What a mode does beyond routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners<'a> {
    /// Nothing.
    Lenient,
    /// A cluster IP on a port that its Service does not have is rejected; an address in these ranges that no Service has is dropped;
    /// who may not use a load-balancer IP is dropped even if nobody would answer.
    Strict {
        /// Where cluster IPs come from.
        service_cidrs: &'a [IpNet],
    },
    /// Every port of an address that only Services have is rejected unless one names it; a frontend has one list of endpoints for all
    /// its clients; what the node itself sends to a cluster IP gets another source.
    Balanced,
    /// As strict, and the process itself dials the endpoints.
    Relayed {
        /// Where cluster IPs come from.
        service_cidrs: &'a [IpNet],
    },
}

impl<'a> Manners<'a> {
    /// Where cluster IPs come from, if that matters.
    fn service_cidrs(self) -> Option<&'a [IpNet]> {
        match self {
            Self::Lenient => None,
            Self::Balanced => Some(&[]),
            Self::Strict { service_cidrs } | Self::Relayed { service_cidrs } => Some(service_cidrs),
        }
    }
}

/// Where the question is asked.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// What is served, in the family of the packet.
    pub book: &'a Book,
    /// The node's addresses.
    pub node: &'a NodeAddresses,
    /// What the mode does beyond routes.
    pub manners: Manners<'a>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// Where the packet goes.
    pub answer: Answer,
    /// Why.
    pub reason: Reason,
    /// The frontend that it hits, if any.
    pub hit: Option<Hit<'a>>,
}

/// A frontend that a packet hits.
#[derive(Clone, Debug)]
pub struct Hit<'a> {
    /// What was dialled.
    pub frontend: Frontend,
    /// Where it comes from.
    pub kind: FrontendKind,
    /// Whose it is.
    pub port: &'a ServicePort,
    /// Who else asked for it, and did not get it.
    pub losers: Vec<PortKey>,
    /// Who may use it; empty means everybody.
    pub allowed_sources: Vec<IpNet>,
    /// As whom the sender is treated.
    pub client: Client,
    /// Every endpoint of the service port, in order.
    pub endpoints: Vec<Judged<'a>>,
}

impl Hit<'_> {
    /// True if the sender is this endpoint, and may get itself for an answer.
    pub(crate) fn is_hairpin_of(&self, ip: IpAddr) -> bool {
        let is = |standing| standing == Standing::Candidate(Source::ReplacedForHairpin);
        self.endpoints.iter().any(|judged| judged.endpoint.address.ip() == ip && is(judged.standing))
    }

    /// How many endpoints may answer. Each has the same odds.
    pub fn candidates(&self) -> usize {
        self.endpoints.iter().filter(|judged| matches!(judged.standing, Standing::Candidate(_))).count()
    }
}

/// Why a packet goes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One of the pool.
    Picked(Pool),
    /// The service port has no endpoint at all.
    NoEndpoints,
    /// No endpoint anywhere is ready, or answers while it ends.
    NoneUsable,
    /// Local policy, and none of the usable endpoints is on this node.
    NoneHere,
    /// The source is in none of the allowed ranges.
    SourceNotAllowed,
    /// The address is a cluster IP, the port is none of its Service's, which are these.
    NoSuchPort(Vec<(ServicePortName, u16)>),
    /// The address is in a range of cluster IPs, and no Service has it.
    Unallocated(IpNet),
    /// A node port, but not on this address of the node.
    NotOnThisAddress(ServicePortName),
    /// No frontend.
    NotOurs,
}

/// Explains.
pub fn explain<'a>(place: Place<'a>, packet: &Packet) -> Explanation<'a> {
    for frontend in dialled(place, packet) {
        let Some(port) = place.book.owner(&frontend) else { continue };
        let routes = place.book.routes(port);
        if let Some(route) = routes.routes.iter().find(|route| route.frontend == frontend) {
            return follow(place, &routes, route, packet);
        }
    }
    stray(place, packet)
}

/// The frontends that the packet may hit, in order.
fn dialled(place: Place<'_>, packet: &Packet) -> impl Iterator<Item = Frontend> {
    let at = |address| Frontend { address, protocol: packet.protocol, port: packet.port };
    let is_virtual = place.manners == Manners::Balanced && !owners(place, packet.destination).is_empty();
    let is_node_port = !is_virtual
        && is_own(place.node, packet.destination)
        && place.book.settings().serves_node_ports_on(packet.destination);
    let node_port = is_node_port.then(|| at(FrontendAddress::Node(Family::of(packet.destination))));
    std::iter::once(at(FrontendAddress::Ip(packet.destination))).chain(node_port)
}

fn follow<'a>(place: Place<'a>, routes: &PortRoutes<'a>, route: &Route, packet: &Packet) -> Explanation<'a> {
    let fits = |branch: &&Branch| match branch.client {
        Client::LocalPod => is_local_pod(place.book.settings(), packet),
        Client::ThisNode => is_own(place.node, packet.source),
        Client::Anyone => true,
    };
    let Some(branch) = route.branches.iter().find(fits) else {
        return Explanation { answer: Answer::Untouched, reason: Reason::NotOurs, hit: None };
    };
    let branch = &branch_for_all(place, routes, route.kind, *branch, packet);
    let allowed_sources = allowed_sources(place, routes.port, route);
    let is_allowed =
        allowed_sources.is_empty() || allowed_sources.iter().any(|range| range.contains(&packet.source));
    let reason = if is_allowed { why(routes.port, branch.verdict) } else { Reason::SourceNotAllowed };
    let mut endpoints = endpoints::judge(place, routes, route.kind, branch, packet);
    if !is_allowed {
        endpoints.iter_mut().for_each(Judged::refuse_sender);
    }
    let answer = match (is_allowed, branch.verdict) {
        (false, _) | (_, Verdict::Drop) => Answer::Drop,
        (_, Verdict::Reject) => Answer::Reject,
        (_, Verdict::Pick(_)) => Answer::Endpoints(candidates(&endpoints)),
    };
    let losers = losers(place.book, routes.port, &route.frontend);
    let hit = Hit {
        frontend: route.frontend,
        kind: route.kind,
        port: routes.port,
        losers,
        allowed_sources,
        client: branch.client,
        endpoints,
    };
    Explanation { answer, reason, hit: Some(hit) }
}

/// What the mode makes of a branch.
fn branch_for_all(
    place: Place<'_>,
    routes: &PortRoutes<'_>,
    kind: FrontendKind,
    mut branch: Branch,
    packet: &Packet,
) -> Branch {
    if place.manners != Manners::Balanced {
        return branch;
    }
    let is_local = policy(routes.port, kind) == TrafficPolicy::Local && !routes.choice.local.is_empty();
    if is_local && matches!(branch.verdict, Verdict::Pick(_)) {
        branch.verdict = Verdict::Pick(Pool::Local);
    }
    if kind == FrontendKind::ClusterIp && packet.interface.is_none() {
        branch.masquerade = Masquerade::Always;
    }
    branch
}

fn allowed_sources(place: Place<'_>, port: &ServicePort, route: &Route) -> Vec<IpNet> {
    match (place.manners, route.kind) {
        (Manners::Lenient, _)
        | (_, FrontendKind::ClusterIp | FrontendKind::ExternalIp | FrontendKind::NodePort) => {
            route.allowed_sources.clone()
        }
        (_, FrontendKind::LoadBalancerIp) => source_ranges(place.book.settings(), port),
    }
}

fn candidates(endpoints: &[Judged<'_>]) -> BTreeMap<SocketAddr, Seen> {
    let seen = |judged: &Judged<'_>| match judged.standing {
        Standing::Candidate(source) => Some((judged.endpoint.address, source.seen())),
        Standing::Excluded(_) => None,
    };
    endpoints.iter().filter_map(seen).collect()
}

fn why(port: &ServicePort, verdict: Verdict) -> Reason {
    match verdict {
        Verdict::Pick(pool) => Reason::Picked(pool),
        Verdict::Drop => Reason::NoneHere,
        Verdict::Reject if port.endpoints.is_empty() => Reason::NoEndpoints,
        Verdict::Reject => Reason::NoneUsable,
    }
}

fn losers(book: &Book, winner: &ServicePort, frontend: &Frontend) -> Vec<PortKey> {
    let own = PortKey::from(winner);
    let others = book.claimants(frontend);
    others.into_iter().filter(|key| *key != own).collect()
}

/// A packet that hits no frontend. The mode may still refuse it.
fn stray<'a>(place: Place<'a>, packet: &Packet) -> Explanation<'a> {
    let unallocated =
        |ranges: &[IpNet]| ranges.iter().find(|range| range.contains(&packet.destination)).copied();
    let (answer, reason) = match place.manners.service_cidrs() {
        None => (Answer::Untouched, near_miss(place, packet)),
        Some(ranges) => match (owners(place, packet.destination), unallocated(ranges)) {
            (owners, _) if !owners.is_empty() => (Answer::Reject, Reason::NoSuchPort(owners)),
            (_, Some(range)) => (Answer::Drop, Reason::Unallocated(range)),
            (_, None) => (Answer::Untouched, near_miss(place, packet)),
        },
    };
    Explanation { answer, reason, hit: None }
}

/// What somebody who dials this probably had in mind.
fn near_miss(place: Place<'_>, packet: &Packet) -> Reason {
    let node_port = Frontend {
        address: FrontendAddress::Node(Family::of(packet.destination)),
        protocol: packet.protocol,
        port: packet.port,
    };
    let owners = owners_of_cluster_ip(place.book, packet.destination);
    match place.book.owner(&node_port) {
        _ if !owners.is_empty() => Reason::NoSuchPort(owners),
        Some(port) if is_own(place.node, packet.destination) => Reason::NotOnThisAddress(port.name.clone()),
        _ => Reason::NotOurs,
    }
}

/// Who has an address of which the mode refuses other ports.
fn owners(place: Place<'_>, ip: IpAddr) -> Vec<(ServicePortName, u16)> {
    if place.manners != Manners::Balanced {
        return owners_of_cluster_ip(place.book, ip);
    }
    let names = |port: &&Arc<ServicePort>| {
        port.cluster_ip == ip || port.external_ips.contains(&ip) || port.load_balancer_ips.contains(&ip)
    };
    place.book.ports().values().filter(names).map(|port| (port.name.clone(), port.port)).collect()
}

/// Looks at every service port: somebody asked, and waits.
fn owners_of_cluster_ip(book: &Book, ip: IpAddr) -> Vec<(ServicePortName, u16)> {
    let owners = book.ports().values().filter(|port| port.cluster_ip == ip);
    owners.map(|port| (port.name.clone(), port.port)).collect()
}

/// The policy that decides for a kind of frontend.
pub(crate) fn policy(port: &ServicePort, kind: FrontendKind) -> TrafficPolicy {
    if kind == FrontendKind::ClusterIp { port.internal_policy } else { port.external_policy }
}

#[cfg(test)]
mod means;
#[cfg(test)]
mod tests;
