//! What a mode does beyond routes, and how it chooses among endpoints.
//!
//! In: nothing; modes say it of themselves. Out: [`Manners`], and the [`Chooser`] that follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::Protocol;

use crate::route::{Frontend, Pool};
use crate::trace::Answer;
use crate::userspace::is_relayed;

/// What a mode does beyond routes.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    Balanced {
        /// Who chooses among the endpoints.
        scheduler: &'a Arc<str>,
        /// Addresses that the node has anyway, whatever Services name.
        own: &'a BTreeSet<IpAddr>,
    },
    /// As strict, and the process itself dials the endpoints.
    Relayed {
        /// Where cluster IPs come from.
        service_cidrs: &'a [IpNet],
    },
    /// Nothing leads from a frontend anywhere. Each has a listener of the process at an address of this host instead, and whoever dials
    /// that is this node.
    Loopback {
        /// Where the listeners are.
        doors: BTreeMap<Frontend, SocketAddr>,
    },
}

impl Manners<'_> {
    /// How one of several endpoints is chosen.
    pub(super) fn chooser(&self) -> Chooser {
        match self {
            Self::Lenient | Self::Strict { .. } => Chooser::Lot,
            Self::Balanced { scheduler, .. } => Chooser::Scheduler(Arc::clone(scheduler)),
            Self::Relayed { .. } | Self::Loopback { .. } => Chooser::Turns,
        }
    }

    /// True if the process itself dials the endpoints.
    pub(super) fn is_relayed(&self) -> bool {
        matches!(self, Self::Relayed { .. } | Self::Loopback { .. })
    }

    /// True if the mode has a way for this protocol.
    pub(super) fn speaks(&self, protocol: Protocol) -> bool {
        !self.is_relayed() || is_relayed(protocol)
    }

    /// True if clients dial a listener in the place of a frontend.
    pub(super) fn is_by_door(&self) -> bool {
        matches!(self, Self::Loopback { .. })
    }

    /// How a client notices what was decided. A listener cannot be silent once a connection was accepted, nor refuse a datagram.
    pub(super) fn noticed(&self, answer: Answer, protocol: Protocol) -> Answer {
        match (answer, protocol) {
            (Answer::Drop, Protocol::Tcp) if self.is_by_door() => Answer::Reject,
            (Answer::Reject, Protocol::Udp) if self.is_by_door() => Answer::Drop,
            (answer, _) => answer,
        }
    }
}

/// How one of several endpoints is chosen for a new client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// By lot.
    Lot,
    /// They take turns.
    Turns,
    /// By a scheduler of IPVS; every endpoint has the same weight.
    Scheduler(Arc<str>),
}

/// What is known of a scheduler of IPVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Each in its turn.
    Turns,
    /// By how busy each is.
    LeastBusy,
    /// By a hash of the client's address.
    Client,
    /// By a hash of the client's address and port.
    ClientAndPort,
    /// By a hash of what was dialled.
    Dialled,
    /// In some other way.
    Own,
}

impl Method {
    pub(super) fn of(scheduler: &str) -> Self {
        match scheduler {
            "rr" | "wrr" => Self::Turns,
            "lc" | "wlc" | "sed" | "nq" => Self::LeastBusy,
            "sh" => Self::Client,
            "mh" => Self::ClientAndPort,
            "dh" => Self::Dialled,
            _ => Self::Own,
        }
    }
}

impl Chooser {
    /// The part that one of so many endpoints gets, or by what it is chosen if that cannot be said in numbers.
    pub fn odds(&self, count: usize) -> String {
        match self {
            Self::Scheduler(name) if count > 1 && Method::of(name) != Method::Turns => format!("by {name}"),
            _ => format!("1/{count}"),
        }
    }
}

/// How the endpoint is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Among which.
    pub pool: Pool,
    /// How, for a client that is new.
    pub chooser: Chooser,
    /// For how many seconds a client goes back to its endpoint.
    pub affinity: Option<u32>,
}
