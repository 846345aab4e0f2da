//! Each endpoint of a service port: may it answer this packet, which source does it see, and why.

use std::collections::HashSet;
use std::net::SocketAddr;

use switchyard_model::{Endpoint, ServicePort, TrafficPolicy};

use super::{Place, policy};
use crate::choice::{Topology, topology};
use crate::route::{Branch, Client, FrontendKind, Masquerade, Pool, PortRoutes, Verdict};
use crate::settings::{LocalDetector, MasqueradeClusterIp, Settings};
use crate::trace::{Packet, Seen, is_local_pod, is_own};

/// One endpoint.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Which.
    pub endpoint: &'a Endpoint,
    /// What became of it.
    pub standing: Standing,
}

impl Judged<'_> {
    /// Nobody may answer, for a reason of its own.
    pub(super) fn refuse(all: &mut [Self], why: Exclusion) {
        let candidates = all.iter_mut().filter(|judged| matches!(judged.standing, Standing::Candidate(_)));
        candidates.for_each(|judged| judged.standing = Standing::Excluded(why));
    }
}

/// What became of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may answer.
    Candidate(Source),
    /// It may not.
    Excluded(Exclusion),
}

/// Why an endpoint may not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// It is not ready.
    NotReady,
    /// It is shutting down and does not answer any more.
    Ended,
    /// It is shutting down, and others are ready.
    Ending,
    /// The policy is Local, and it is on another node.
    OtherNode,
    /// Its hints name other nodes.
    HintedForOtherNode,
    /// Its hints name other zones.
    HintedForOtherZone,
    /// It could answer, but nobody may: the sender is not allowed.
    SenderRefused,
    /// It could answer, but the process cannot dial it.
    NotRelayed,
}

/// Which source address an endpoint sees, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The client's: it is a pod of this node.
    KeptForLocalPod,
    /// The client's: pods cannot be told from others, so nothing is replaced.
    KeptWithoutDetector,
    /// The client's: the external policy is Local.
    KeptByPolicy,
    /// The client's: the endpoint is in this node's own network, and the packet never leaves.
    KeptOnNode,
    /// The node's: all traffic is masqueraded.
    ReplacedForAll,
    /// The node's: what it sends to an address that it has for Services alone would come from that address.
    ReplacedForVirtualAddress,
    /// The node's: the client is not a pod of this node.
    ReplacedForOutsider,
    /// The node's: the endpoint may be on another node, and its answer must come back through this one.
    ReplacedForWayBack,
    /// The node's: the client is the endpoint itself.
    ReplacedForHairpin,
    /// The node's: the process itself dials the endpoint.
    ReplacedByRelay,
}

impl Source {
    /// Whose address that is.
    pub fn seen(self) -> Seen {
        match self {
            Self::KeptForLocalPod | Self::KeptWithoutDetector | Self::KeptByPolicy | Self::KeptOnNode => {
                Seen::Client
            }
            Self::ReplacedForAll
            | Self::ReplacedForVirtualAddress
            | Self::ReplacedForOutsider
            | Self::ReplacedForWayBack
            | Self::ReplacedForHairpin
            | Self::ReplacedByRelay => Seen::Node,
        }
    }
}

/// Judges all endpoints of a service port for one branch of a route.
pub(super) fn judge<'a>(
    place: Place<'a>,
    routes: &PortRoutes<'a>,
    kind: FrontendKind,
    branch: &Branch,
    packet: &Packet,
) -> Vec<Judged<'a>> {
    let settings = place.book.settings();
    let pool = match branch.verdict {
        Verdict::Pick(pool) => pool,
        _ if policy(routes.port, kind) == TrafficPolicy::Local => Pool::Local,
        _ => Pool::Cluster,
    };
    let is_picked = matches!(branch.verdict, Verdict::Pick(_));
    let members: HashSet<SocketAddr> = routes.pool(pool).iter().map(|e| e.address).collect();
    let topology = topology(settings, routes.port);
    let standing = |endpoint: &Endpoint| {
        if is_picked && members.contains(&endpoint.address) {
            return Standing::Candidate(source(place, kind, branch, endpoint, packet));
        }
        Standing::Excluded(exclusion(settings, routes.port, pool, topology, endpoint))
    };
    routes.port.endpoints.iter().map(|endpoint| Judged { endpoint, standing: standing(endpoint) }).collect()
}

fn exclusion(
    settings: &Settings,
    port: &ServicePort,
    pool: Pool,
    topology: Topology,
    endpoint: &Endpoint,
) -> Exclusion {
    let is_here = endpoint.is_on(&settings.node_name);
    match pool {
        _ if !endpoint.is_ready() && !endpoint.is_serving_terminating() => {
            if endpoint.conditions.terminating { Exclusion::Ended } else { Exclusion::NotReady }
        }
        Pool::Local if !is_here => Exclusion::OtherNode,
        _ if !endpoint.is_ready() && port.endpoints.iter().any(Endpoint::is_ready) => Exclusion::Ending,
        _ => match topology {
            Topology::SameNode => Exclusion::HintedForOtherNode,
            Topology::SameZone => Exclusion::HintedForOtherZone,
            Topology::Anywhere => Exclusion::NotReady,
        },
    }
}

fn source(
    place: Place<'_>,
    kind: FrontendKind,
    branch: &Branch,
    endpoint: &Endpoint,
    packet: &Packet,
) -> Source {
    if place.manners.is_relayed() {
        return Source::ReplacedByRelay;
    }
    let settings = place.book.settings();
    let is_outsider = !is_local_pod(settings, packet);
    let replaced = match branch.masquerade {
        Masquerade::Always if kind != FrontendKind::ClusterIp => Some(Source::ReplacedForWayBack),
        Masquerade::Always if settings.masquerade == MasqueradeClusterIp::All => Some(Source::ReplacedForAll),
        Masquerade::Always => Some(Source::ReplacedForVirtualAddress),
        Masquerade::FromOutside if is_outsider => Some(Source::ReplacedForOutsider),
        Masquerade::FromOutside | Masquerade::Never => None,
    };
    let is_hairpin = endpoint.address.ip() == packet.source;
    let replaced = replaced.or(is_hairpin.then_some(Source::ReplacedForHairpin));
    // A packet from elsewhere to an endpoint in this node's own network never leaves, so it keeps its source.
    let stays_here = packet.interface.is_some() && is_own(place.node, endpoint.address.ip());
    match replaced {
        Some(_) if stays_here => Source::KeptOnNode,
        Some(replaced) => replaced,
        None => kept(settings, kind, branch),
    }
}

fn kept(settings: &Settings, kind: FrontendKind, branch: &Branch) -> Source {
    let cannot_tell = settings.detector == LocalDetector::None
        && settings.masquerade == MasqueradeClusterIp::FromOutside
        && kind == FrontendKind::ClusterIp;
    match branch.client {
        _ if cannot_tell => Source::KeptWithoutDetector,
        Client::Anyone if kind != FrontendKind::ClusterIp => Source::KeptByPolicy,
        _ => Source::KeptForLocalPod,
    }
}
