//! Userspace mode: which listeners a service port needs, and who may answer behind each.
//!
//! In: the routes of a service port. Out: [`Listener`]s, and for the kernel a [`stand_in`]: the same service port with
//! listeners in the place of its endpoints.
//!
//! Two ways in. With rules, the kernel decides as in nftables mode which pool a client may use, and each pool is one
//! listener ([`behind_rules`]). Without rules every frontend has a listener on a loopback address
//! ([`on_loopback`]); whoever dials it is this node.
//!
//! Invariants
//! - The kernel treats a stand-in as it would treat the service port: the same frontends, the same clients, the same
//!   pool, rejected or dropped where that would be. Only who answers differs.
//! - On loopback, a door and the port that it would like depend on its own service port alone.

mod heritage;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use switchyard_model::{Conditions, Endpoint, Hints, Protocol, ServicePort, ServicePortName};

pub use heritage::Heritage;

use crate::route::{Client, Frontend, FrontendAddress, FrontendKind, Pool, PortRoutes, Route, Verdict};
use crate::settings::Settings;

/// Ports on loopback addresses begin here: below those that kernels and API servers give out.
const FIRST_PORT: u16 = 20_000;
/// And so many there are.
const PORTS: u16 = 10_000;

/// By this the kernel knows packets that the relay sends to endpoints (`SO_PRIORITY`). It is no mark: those belong to others, who give way
/// and verdicts by them. As a class of traffic it has no place in any queue, and so the usual one.
pub const PRIORITY: u32 = 0x5359_0000;

/// The node that no node is.
const NO_NODE: &str = "";

/// What a listener of a service port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Door {
    /// Everything that rules send to the endpoints of the whole cluster.
    Cluster,
    /// Everything that rules send to the endpoints of this node.
    Local,
    /// The cluster IP.
    ClusterIp,
    /// An external IP.
    ExternalIp(IpAddr),
    /// A load-balancer IP.
    LoadBalancerIp(IpAddr),
    /// The node port.
    NodePort(u16),
}

/// Which port of a loopback address a listener gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// This one or none.
    Only(u16),
    /// This one if it is free, else one behind it.
    From(u16),
    /// The one that it had, else any.
    Any,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// What for.
    pub door: Door,
    /// What its clients would dial elsewhere, if it stands for one frontend.
    pub frontend: Option<Frontend>,
    /// What its clients dial, where rules lead them here; nothing where they come by themselves.
    pub frontends: Vec<Frontend>,
    /// Where it would like to be.
    pub port: Port,
    /// Who gets new clients. Empty if nobody does.
    pub targets: Vec<SocketAddr>,
    /// Who may keep the clients that it has.
    pub serving: Vec<SocketAddr>,
    /// Seconds that a client stays with its target.
    pub affinity: Option<u32>,
}

/// True if a relay can speak it.
pub fn is_relayed(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Tcp | Protocol::Udp)
}

/// The listeners that rules lead to: one for each pool that some client may use.
pub fn behind_rules(routes: &PortRoutes<'_>) -> Vec<Listener> {
    let branches = routes.routes.iter().flat_map(|route| &route.branches);
    let verdicts: Vec<Verdict> = branches.map(|branch| branch.verdict).collect();
    let wanted = [(Pool::Cluster, Door::Cluster), (Pool::Local, Door::Local)].into_iter();
    let wanted = wanted.filter(|(pool, _)| verdicts.contains(&Verdict::Pick(*pool)));
    let wanted = wanted.filter(|_| is_relayed(routes.port.name.protocol));
    let frontends: Vec<Frontend> = routes.routes.iter().map(|route| route.frontend).collect();
    let listener = |(pool, door)| Listener {
        frontends: frontends.clone(),
        ..listener(routes, door, None, Port::Any, targets(routes, pool))
    };
    wanted.map(listener).collect()
}

/// The listeners on loopback addresses: one for each frontend. One without targets turns its clients away, but keeps
/// its port.
pub fn on_loopback(settings: &Settings, routes: &PortRoutes<'_>) -> Vec<Listener> {
    if !is_relayed(routes.port.name.protocol) {
        return Vec::new();
    }
    let mut seen: BTreeSet<Frontend> = BTreeSet::new();
    // One service port may name an address twice, as external and as load-balancer IP: the first route counts.
    let own = routes.routes.iter().filter(|route| seen.insert(route.frontend));
    own.map(|route| of_route(settings, routes, route)).collect()
}

fn of_route(settings: &Settings, routes: &PortRoutes<'_>, route: &Route) -> Listener {
    let door = door(route);
    let port = match door {
        Door::NodePort(port) => Port::Only(port),
        _ => Port::From(liked_port(&routes.port.name, door)),
    };
    let is_allowed = route.allowed_sources.is_empty()
        || route.allowed_sources.iter().any(|range| range.contains(&settings.node_ip));
    let branch = route.branches.iter().find(|b| matches!(b.client, Client::ThisNode | Client::Anyone));
    let targets = match branch.map(|branch| branch.verdict) {
        Some(Verdict::Pick(pool)) if is_allowed => targets(routes, pool),
        _ => Vec::new(),
    };
    listener(routes, door, Some(route.frontend), port, targets)
}

fn door(route: &Route) -> Door {
    match (route.frontend.address, route.kind) {
        (FrontendAddress::Node(_), _) => Door::NodePort(route.frontend.port),
        (FrontendAddress::Ip(ip), FrontendKind::ExternalIp) => Door::ExternalIp(ip),
        (FrontendAddress::Ip(ip), FrontendKind::LoadBalancerIp) => Door::LoadBalancerIp(ip),
        (FrontendAddress::Ip(_), _) => Door::ClusterIp,
    }
}

fn targets(routes: &PortRoutes<'_>, pool: Pool) -> Vec<SocketAddr> {
    routes.pool(pool).iter().map(|endpoint| endpoint.address).collect()
}

fn listener(
    routes: &PortRoutes<'_>,
    door: Door,
    frontend: Option<Frontend>,
    port: Port,
    targets: Vec<SocketAddr>,
) -> Listener {
    let endpoints = routes.port.endpoints.iter();
    // Ready without serving happens with publishNotReadyAddresses.
    let serving = endpoints.filter(|e| e.conditions.serving || e.conditions.ready).map(|e| e.address);
    let (serving, affinity) = (serving.collect(), routes.port.affinity);
    Listener { door, frontend, frontends: Vec::new(), port, targets, serving, affinity }
}

/// The same for every run, and different for most doors.
fn liked_port(name: &ServicePortName, door: Door) -> u16 {
    let mut digest = Sha256::new();
    let parts = [&*name.service.namespace, &*name.service.name, &*name.port, name.protocol.as_str()];
    for part in parts.into_iter().chain([format!("{door:?}").as_str()]) {
        digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let bytes = digest.finalize();
    let number = bytes.iter().take(4).fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    FIRST_PORT + u16::try_from(number % u32::from(PORTS)).unwrap_or_default()
}

/// The service port as rules see it: its endpoints are listeners, `at` says where. A pool whose listener is nowhere has
/// none.
///
/// The listener of the cluster's pool is hinted for this node and runs nowhere; that of the node's pool runs here and is
/// hinted for nobody. So each is the only one in its pool.
pub fn stand_in(
    settings: &Settings,
    routes: &PortRoutes<'_>,
    at: impl Fn(Door) -> Option<SocketAddr>,
) -> ServicePort {
    let hinted = |node: Arc<str>| Some(Arc::new(Hints { zones: Vec::new(), nodes: vec![node] }));
    let endpoint =
        |address, node, hints| Endpoint { address, conditions: Conditions::default(), node, hints };
    let here = settings.node_name.clone();
    let mut endpoints = Vec::with_capacity(2);
    if routes.choice.exists_somewhere && is_relayed(routes.port.name.protocol) {
        // Where no client may use it, it says only that somebody could answer elsewhere.
        let nowhere = || routes.choice.cluster.is_empty().then(|| SocketAddr::new(settings.node_ip, 0));
        let cluster = at(Door::Cluster).or_else(nowhere);
        endpoints.extend(cluster.map(|address| endpoint(address, None, hinted(here.clone()))));
        let local = at(Door::Local).filter(|_| !endpoints.is_empty());
        endpoints.extend(local.map(|address| endpoint(address, Some(here), hinted(NO_NODE.into()))));
    }
    ServicePort { endpoints, affinity: None, ..routes.port.clone() }
}

#[cfg(test)]
mod tests;
