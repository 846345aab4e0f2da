//! Endpoint choice: which endpoints one service port may use on this node.
//!
//! In: a service port with all its endpoints, and the node's name and zone. Out: [`Choice`].
//!
//! Invariants
//! - Every list follows the endpoints' order, so equal inputs give byte-equal plans.
//! - A terminating endpoint appears only if the same scope (cluster or node) has no ready one.
//! - One ready endpoint without a hint switches that kind of hint off for the whole port.
//! - Local policy never looks at hints.
//!
//! Why not filter in `source`? Cluster policy, Local policy and the health-check port need three different subsets
//! of one list; filtering early would lose two of them.

use std::collections::HashSet;
use std::net::SocketAddr;

use switchyard_model::{Endpoint, ServicePort};

use crate::settings::Settings;

/// Which hints count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// None: every ready endpoint.
    Anywhere,
    /// Endpoints hinted for this node.
    SameNode,
    /// Endpoints hinted for this zone.
    SameZone,
}

/// The endpoints of one service port, seen from this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'a> {
    /// For frontends with Cluster policy.
    pub cluster: Vec<&'a Endpoint>,
    /// For frontends with Local policy.
    pub local: Vec<&'a Endpoint>,
    /// All that may be used by any frontend.
    pub reachable: Vec<&'a Endpoint>,
    /// Whether any node of the cluster has an endpoint that could answer.
    pub exists_somewhere: bool,
}

/// Chooses.
pub fn choose<'a>(settings: &Settings, port: &'a ServicePort) -> Choice<'a> {
    let topology = if port.uses_cluster_endpoints() { topology(settings, port) } else { Topology::Anywhere };
    let cluster = if port.uses_cluster_endpoints() { cluster(settings, port, topology) } else { Vec::new() };
    if !port.uses_local_endpoints() {
        let exists_somewhere = !cluster.is_empty();
        return Choice { reachable: cluster.clone(), cluster, local: Vec::new(), exists_somewhere };
    }
    let (local, is_last_resort) = local(settings, port);
    let exists_somewhere =
        !cluster.is_empty() || port.endpoints.iter().any(|e| e.is_ready() || e.is_serving_terminating());
    let reachable = if !port.uses_cluster_endpoints() {
        local.clone()
    } else if topology == Topology::Anywhere && !is_last_resort {
        cluster.clone() // Already holds every local one.
    } else {
        union(port, &cluster, &local)
    };
    Choice { cluster, local, reachable, exists_somewhere }
}

/// Which hints count for a service port; only ready endpoints are asked.
pub fn topology(settings: &Settings, port: &ServicePort) -> Topology {
    let ready = || port.endpoints.iter().filter(|e| e.is_ready());
    if ready().next().is_none() {
        return Topology::Anywhere;
    }
    let node = &*settings.node_name;
    if ready().all(|e| e.hints.as_ref().is_some_and(|h| !h.nodes.is_empty()))
        && ready().any(|e| e.is_hinted_for_node(node))
    {
        return Topology::SameNode;
    }
    let zone = settings.zone.as_deref().unwrap_or_default();
    if ready().all(|e| e.hints.as_ref().is_some_and(|h| !h.zones.is_empty()))
        && ready().any(|e| e.is_hinted_for_zone(zone))
    {
        return Topology::SameZone;
    }
    Topology::Anywhere
}

fn cluster<'a>(settings: &Settings, port: &'a ServicePort, topology: Topology) -> Vec<&'a Endpoint> {
    let zone = settings.zone.as_deref().unwrap_or_default();
    let fits = |e: &&Endpoint| match topology {
        Topology::Anywhere => true,
        Topology::SameNode => e.is_hinted_for_node(&settings.node_name),
        Topology::SameZone => e.is_hinted_for_zone(zone),
    };
    let ready: Vec<&Endpoint> = port.endpoints.iter().filter(|e| e.is_ready()).filter(fits).collect();
    if !ready.is_empty() {
        return ready;
    }
    port.endpoints.iter().filter(|e| e.is_serving_terminating()).collect()
}

/// The node's own endpoints, and whether only terminating ones were left.
fn local<'a>(settings: &Settings, port: &'a ServicePort) -> (Vec<&'a Endpoint>, bool) {
    let here = || port.endpoints.iter().filter(|e| e.is_on(&settings.node_name));
    let ready: Vec<&Endpoint> = here().filter(|e| e.is_ready()).collect();
    if !ready.is_empty() {
        return (ready, false);
    }
    let last_resort: Vec<&Endpoint> = here().filter(|e| e.is_serving_terminating()).collect();
    let is_last_resort = !last_resort.is_empty();
    (last_resort, is_last_resort)
}

fn union<'a>(port: &'a ServicePort, one: &[&'a Endpoint], other: &[&'a Endpoint]) -> Vec<&'a Endpoint> {
    let wanted: HashSet<SocketAddr> = one.iter().chain(other).map(|e| e.address).collect();
    port.endpoints.iter().filter(|e| wanted.contains(&e.address)).collect()
}

#[cfg(test)]
mod tests;
