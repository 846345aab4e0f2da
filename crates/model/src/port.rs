//! Service ports with their endpoints: what the planner works on.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::{Family, ServicePortName, TrafficPolicy};

/// What an EndpointSlice says about an endpoint's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// May get new connections. Unset in the API means true.
    pub ready: bool,
    /// Answers, perhaps while shutting down. Unset in the API means true.
    pub serving: bool,
    /// Is shutting down. Unset in the API means false.
    pub terminating: bool,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { ready: true, serving: true, terminating: false }
    }
}

/// Topology hints of an endpoint. Empty lists mean "no hint".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `hints.forZones`.
    pub zones: Vec<Arc<str>>,
    /// `hints.forNodes`.
    pub nodes: Vec<Arc<str>>,
}

/// One address and port that may answer for a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// Ready, serving, terminating.
    pub conditions: Conditions,
    /// The node it runs on, if known.
    pub node: Option<Arc<str>>,
    /// Topology hints, if any.
    pub hints: Option<Arc<Hints>>,
}

impl Endpoint {
    /// Ready: may get new connections.
    pub fn is_ready(&self) -> bool {
        self.conditions.ready
    }

    /// Shutting down but still answering: the last resort when nothing is ready.
    pub fn is_serving_terminating(&self) -> bool {
        self.conditions.serving && self.conditions.terminating
    }

    /// True if the endpoint runs on the named node.
    pub fn is_on(&self, node: &str) -> bool {
        self.node.as_deref() == Some(node)
    }

    /// True if a hint names this node.
    pub fn is_hinted_for_node(&self, node: &str) -> bool {
        self.hints.as_ref().is_some_and(|h| h.nodes.iter().any(|n| &**n == node))
    }

    /// True if a hint names this zone.
    pub fn is_hinted_for_zone(&self, zone: &str) -> bool {
        self.hints.as_ref().is_some_and(|h| h.zones.iter().any(|z| &**z == zone))
    }
}

/// One port of one Service in one family, with every endpoint that the slices name for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Service, port name and protocol.
    pub name: ServicePortName,
    /// The family of every address in this value.
    pub family: Family,
    /// The Service's age, see [`crate::Service::created`].
    pub created: i64,
    /// The cluster IP.
    pub cluster_ip: IpAddr,
    /// Port of the cluster IP, external IPs and load-balancer IPs.
    pub port: u16,
    /// Port on every node.
    pub node_port: Option<u16>,
    /// External IPs.
    pub external_ips: Vec<IpAddr>,
    /// Load-balancer IPs.
    pub load_balancer_ips: Vec<IpAddr>,
    /// Who may use the load-balancer IPs; empty means everybody.
    pub source_ranges: Vec<IpNet>,
    /// Seconds of ClientIP affinity.
    pub affinity: Option<u32>,
    /// Policy for the cluster IP.
    pub internal_policy: TrafficPolicy,
    /// Policy for all other frontends; `Cluster` when the Service's type has no external traffic.
    pub external_policy: TrafficPolicy,
    /// Port on which a load balancer asks whether this node has local endpoints.
    pub health_check_node_port: Option<u16>,
    /// Endpoints, ordered by the text of `ip:port`, without duplicates.
    pub endpoints: Vec<Endpoint>,
}

impl ServicePort {
    /// True if the port has a frontend besides its cluster IP.
    pub fn is_externally_accessible(&self) -> bool {
        self.node_port.is_some() || !self.load_balancer_ips.is_empty() || !self.external_ips.is_empty()
    }

    /// True if some frontend may use endpoints of the whole cluster.
    pub fn uses_cluster_endpoints(&self) -> bool {
        self.internal_policy == TrafficPolicy::Cluster || self.is_externally_accessible()
    }

    /// True if some frontend may use only endpoints of this node.
    pub fn uses_local_endpoints(&self) -> bool {
        self.internal_policy == TrafficPolicy::Local
            || (self.external_policy == TrafficPolicy::Local && self.is_externally_accessible())
    }
}
