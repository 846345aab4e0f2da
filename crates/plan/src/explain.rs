//! Why a packet goes where it goes.
//!
//! In: a book, the node's addresses, what the mode does beyond routes, and the first packet of a connection. Out: an [`Explanation`]: the
//! answer, the frontend and its owner, and for every endpoint whether it may answer and why (not).
//!
//! The packet tracer over routes ([`crate::trace::through_routes`]) is this without the reasons, so the two cannot disagree. Words for
//! people are in [`words`]; nothing here decides anything that [`crate::route`] did not decide.

mod endpoints;
mod loopback;
mod manners;
mod words;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use switchyard_model::{Family, PortKey, Protocol, ServiceName, ServicePort, ServicePortName, TrafficPolicy};

pub use endpoints::{Exclusion, Judged, Source, Standing};
pub use manners::{Chooser, Manners, Pick};

use crate::book::Book;
use crate::route::{
    Branch, Client, Frontend, FrontendAddress, FrontendKind, Masquerade, Pool, PortRoutes, Route, Verdict,
    source_ranges,
};
use crate::trace::{Answer, NodeAddresses, Packet, Seen, is_local_pod, is_own};

/// Where the question is asked.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// What is served, in the family of the packet.
    pub book: &'a Book,
    /// The node's addresses.
    pub node: &'a NodeAddresses,
    /// What the mode does beyond routes.
    pub manners: &'a Manners<'a>,
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

    /// How many endpoints may answer.
    pub fn candidates(&self) -> usize {
        self.endpoints.iter().filter(|judged| matches!(judged.standing, Standing::Candidate(_))).count()
    }
}

/// Why a packet goes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// One of a pool.
    Picked(Pick),
    /// The service port has no endpoint at all.
    NoEndpoints,
    /// No endpoint anywhere is ready, or answers while it ends.
    NoneUsable,
    /// Local policy, and none of the usable endpoints is on this node.
    NoneHere,
    /// The source is in none of the allowed ranges.
    SourceNotAllowed,
    /// The process itself dials the endpoints, and does not speak this.
    NotRelayed(Protocol),
    /// Services name the address, and none of them the port.
    NoSuchPort(Named),
    /// The address is in a range of cluster IPs, and no Service has it.
    Unallocated(IpNet),
    /// A node port, but not on this address of the node.
    NotOnThisAddress(ServicePortName, IpAddr),
    /// A frontend to which nothing leads: its clients dial this address.
    DialInstead(ServicePortName, SocketAddr),
    /// A frontend to which nothing leads, and which has no listener either.
    NoListener(ServicePortName),
    /// A listener of this host, dialled from elsewhere.
    OnlyFromThisNode,
    /// Where the node itself answers health checks of a Service.
    HealthCheck(ServiceName),
    /// No frontend.
    NotOurs,
}

/// An address that Services name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// As what; if as several things, as the first.
    pub kind: FrontendKind,
    /// Which, and the ports that they have there.
    pub owners: Vec<(ServicePortName, u16)>,
}

/// Explains.
pub fn explain<'a>(place: Place<'a>, packet: &Packet) -> Explanation<'a> {
    if let Manners::Loopback { doors } = place.manners {
        return loopback::explain(place, doors, packet);
    }
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
    let is_node_port = is_own(place.node, packet.destination)
        && !is_virtual(place, packet.destination)
        && place.book.settings().serves_node_ports_on(packet.destination);
    let node_port = is_node_port.then(|| at(FrontendAddress::Node(Family::of(packet.destination))));
    std::iter::once(at(FrontendAddress::Ip(packet.destination))).chain(node_port)
}

/// True if the mode itself gave the node this address, because Services name it.
fn is_virtual(place: Place<'_>, ip: IpAddr) -> bool {
    match place.manners {
        Manners::Balanced { own, .. } => !own.contains(&ip) && named(place.book, ip).is_some(),
        _ => false,
    }
}

fn follow<'a>(place: Place<'a>, routes: &PortRoutes<'a>, route: &Route, packet: &Packet) -> Explanation<'a> {
    let Some(branch) = route.branches.iter().find(|branch| fits(place, branch.client, packet)) else {
        return Explanation { answer: Answer::Untouched, reason: Reason::NotOurs, hit: None };
    };
    let branch = &branch_for_all(place, routes, route.kind, *branch, packet);
    let allowed_sources = allowed_sources(place, routes, route);
    let is_allowed = match sender(place, packet) {
        _ if allowed_sources.is_empty() => true,
        sender => allowed_sources.iter().any(|range| range.contains(&sender)),
    };
    let mut endpoints = endpoints::judge(place, routes, route.kind, branch, packet);
    let (answer, reason) = match branch.verdict {
        _ if !is_allowed => {
            Judged::refuse(&mut endpoints, Exclusion::SenderRefused);
            (Answer::Drop, Reason::SourceNotAllowed)
        }
        _ if !place.manners.speaks(packet.protocol) => {
            Judged::refuse(&mut endpoints, Exclusion::NotRelayed);
            (Answer::Reject, Reason::NotRelayed(packet.protocol))
        }
        Verdict::Pick(pool) => {
            let pick = Pick { pool, chooser: place.manners.chooser(), affinity: routes.port.affinity };
            (Answer::Endpoints(candidates(&endpoints)), Reason::Picked(pick))
        }
        Verdict::Drop => (Answer::Drop, Reason::NoneHere),
        Verdict::Reject if routes.port.endpoints.is_empty() => (Answer::Reject, Reason::NoEndpoints),
        Verdict::Reject => (Answer::Reject, Reason::NoneUsable),
    };
    let answer = place.manners.noticed(answer, packet.protocol);
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

/// Whether the sender is one of these clients. Behind a listener everybody is this node.
fn fits(place: Place<'_>, client: Client, packet: &Packet) -> bool {
    match client {
        Client::LocalPod => !place.manners.is_by_door() && is_local_pod(place.book.settings(), packet),
        Client::ThisNode => place.manners.is_by_door() || is_own(place.node, packet.source),
        Client::Anyone => true,
    }
}

/// What the mode makes of a branch.
fn branch_for_all(
    place: Place<'_>,
    routes: &PortRoutes<'_>,
    kind: FrontendKind,
    mut branch: Branch,
    packet: &Packet,
) -> Branch {
    if !matches!(place.manners, Manners::Balanced { .. }) {
        return branch;
    }
    let is_local = policy(routes.port, kind) == TrafficPolicy::Local && !routes.choice.local.is_empty();
    if is_local && matches!(branch.verdict, Verdict::Pick(_)) {
        branch.verdict = Verdict::Pick(Pool::Local);
    }
    let is_outsider = !is_local_pod(place.book.settings(), packet);
    let is_masqueraded = is_outsider && branch.masquerade == Masquerade::FromOutside;
    if kind == FrontendKind::ClusterIp && packet.interface.is_none() && !is_masqueraded {
        branch.masquerade = Masquerade::Always;
    }
    branch
}

/// Who may use a frontend. Where the check comes first, it holds for a load-balancer IP whatever else the address is, and without endpoints.
fn allowed_sources(place: Place<'_>, routes: &PortRoutes<'_>, route: &Route) -> Vec<IpNet> {
    let is_load_balancer =
        |one: &Route| one.kind == FrontendKind::LoadBalancerIp && one.frontend == route.frontend;
    match place.manners {
        Manners::Lenient | Manners::Loopback { .. } => route.allowed_sources.clone(),
        _ if routes.routes.iter().any(is_load_balancer) => source_ranges(place.book.settings(), routes.port),
        _ => Vec::new(),
    }
}

/// The address that a packet comes from. What the node sends to an address that it has for Services comes from that address.
fn sender(place: Place<'_>, packet: &Packet) -> IpAddr {
    match packet.interface {
        None if is_virtual(place, packet.destination) => packet.destination,
        _ => packet.source,
    }
}

fn candidates(endpoints: &[Judged<'_>]) -> BTreeMap<SocketAddr, Seen> {
    let seen = |judged: &Judged<'_>| match judged.standing {
        Standing::Candidate(source) => Some((judged.endpoint.address, source.seen())),
        Standing::Excluded(_) => None,
    };
    endpoints.iter().filter_map(seen).collect()
}

fn losers(book: &Book, winner: &ServicePort, frontend: &Frontend) -> Vec<PortKey> {
    let own = PortKey::from(winner);
    let others = book.claimants(frontend);
    others.into_iter().filter(|key| *key != own).collect()
}

/// A packet that hits no frontend. The mode may still refuse it.
fn stray<'a>(place: Place<'a>, packet: &Packet) -> Explanation<'a> {
    let to = packet.destination;
    let named = named(place.book, to);
    let (answer, reason) = match (place.manners, named) {
        (Manners::Balanced { .. }, Some(named))
            if is_virtual(place, to) && health_checked(place.book, packet).is_none() =>
        {
            (Answer::Reject, Reason::NoSuchPort(named))
        }
        (Manners::Strict { .. } | Manners::Relayed { .. }, Some(named))
            if named.kind == FrontendKind::ClusterIp =>
        {
            (Answer::Reject, Reason::NoSuchPort(named))
        }
        (Manners::Strict { service_cidrs } | Manners::Relayed { service_cidrs }, _) => {
            match service_cidrs.iter().find(|range| range.contains(&to)) {
                Some(range) => (Answer::Drop, Reason::Unallocated(*range)),
                None => (Answer::Untouched, near_miss(place, packet)),
            }
        }
        _ => (Answer::Untouched, near_miss(place, packet)),
    };
    Explanation { answer, reason, hit: None }
}

/// The Service whose health checks the node itself answers on this port.
fn health_checked<'a>(book: &'a Book, packet: &Packet) -> Option<&'a ServiceName> {
    let mut ports = book.ports().values().filter(|_| packet.protocol == Protocol::Tcp);
    let port = ports.find(|port| port.health_check_node_port == Some(packet.port))?;
    Some(&port.name.service)
}

/// What somebody who dials this probably had in mind.
fn near_miss(place: Place<'_>, packet: &Packet) -> Reason {
    let (book, to) = (place.book, packet.destination);
    let address = FrontendAddress::Node(Family::of(to));
    let node_port = Frontend { address, protocol: packet.protocol, port: packet.port };
    let is_here = is_own(place.node, to) || is_virtual(place, to);
    match (health_checked(book, packet), book.owner(&node_port), named(book, to)) {
        (Some(service), ..) if is_here => Reason::HealthCheck(service.clone()),
        (_, Some(port), _) if is_here => Reason::NotOnThisAddress(port.name.clone(), to),
        (.., Some(named)) => Reason::NoSuchPort(named),
        _ => Reason::NotOurs,
    }
}

/// Who names an address. Looks at every service port: somebody asked, and waits.
fn named(book: &Book, ip: IpAddr) -> Option<Named> {
    let kind = |port: &ServicePort| match port {
        port if port.cluster_ip == ip => Some(FrontendKind::ClusterIp),
        port if port.external_ips.contains(&ip) => Some(FrontendKind::ExternalIp),
        port if port.load_balancer_ips.contains(&ip) => Some(FrontendKind::LoadBalancerIp),
        _ => None,
    };
    // Who asked for a port too late has not got it.
    let owns = |port: &ServicePort| {
        let frontend =
            Frontend { address: FrontendAddress::Ip(ip), protocol: port.name.protocol, port: port.port };
        book.owner(&frontend).is_some_and(|owner| owner.name == port.name)
    };
    let found = book.ports().values().filter_map(|port| Some((kind(port)?, port)));
    let found = found.filter(|(_, port)| owns(port));
    let (kinds, owners): (Vec<_>, Vec<_>) =
        found.map(|(kind, port)| (kind, (port.name.clone(), port.port))).unzip();
    kinds.into_iter().min().map(|kind| Named { kind, owners })
}

/// The policy that decides for a kind of frontend.
pub(crate) fn policy(port: &ServicePort, kind: FrontendKind) -> TrafficPolicy {
    if kind == FrontendKind::ClusterIp { port.internal_policy } else { port.external_policy }
}

#[cfg(test)]
mod means;
#[cfg(test)]
mod tests;
