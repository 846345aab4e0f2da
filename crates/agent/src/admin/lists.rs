//! Lists of what is served, in pages: service ports, their endpoints, their frontends; and who answers.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::{Value, json};
use switchyard_model::{Endpoint, ServicePort, TrafficPolicy};
use switchyard_plan::book::Book;
use switchyard_plan::route::{Branch, Client, Masquerade, Pool, PortRoutes, Route, Verdict};

use super::page::{Looks, Page, page};
use super::{Identity, Refusal};
use crate::sync::{FamilySync, View};

/// Each family, with what is known of it.
fn sources<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a Book, &'a FamilySync)> {
    view.families.iter().map(|sync| (sync.book(), sync))
}

pub(super) fn services(view: &View<'_>, asked: &Page, looks: &mut Looks) -> Result<Value, Refusal> {
    page(sources(view), asked, looks, "ServicePortList", |sync, port, begin, sheet| {
        sheet.fill([port], begin, |port| (1, service(sync, port)))
    })
}

fn service(sync: &FamilySync, port: &ServicePort) -> Value {
    let book = sync.book();
    let routes = book.routes(port);
    let loopback = sync.stand_ins(&port.name).into_iter();
    let loopback =
        loopback.map(|(frontend, at)| json!({ "frontend": frontend.to_string(), "dial": at.to_string() }));
    let mut item = identity(port);
    let ready = port.endpoints.iter().filter(|endpoint| endpoint.is_ready()).count();
    let more = json!({
        "clusterIP": port.cluster_ip,
        "externalIPs": port.external_ips,
        "loadBalancerIPs": port.load_balancer_ips,
        "sourceRanges": port.source_ranges.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "port": port.port,
        "nodePort": port.node_port,
        "healthCheckNodePort": port.health_check_node_port,
        "affinitySeconds": port.affinity,
        "internalTrafficPolicy": policy(port.internal_policy),
        "externalTrafficPolicy": policy(port.external_policy),
        "endpoints": port.endpoints.len(),
        "ready": ready,
        "usable": routes.choice.reachable.len(),
        "loopback": loopback.collect::<Vec<_>>(),
        "quarantined": book.quarantined().get(&port.name).map(|entry| entry.cause.clone()),
    });
    merge(&mut item, more);
    item
}

pub(super) fn endpoints(view: &View<'_>, asked: &Page, looks: &mut Looks) -> Result<Value, Refusal> {
    page(sources(view), asked, looks, "EndpointList", |sync, port, begin, sheet| {
        let used = Used::of(&sync.book().routes(port));
        sheet.fill(&port.endpoints, begin, |endpoint| (1, endpoint_item(port, &used, endpoint)))
    })
}

/// Addresses that somebody is led to.
struct Used {
    cluster: BTreeSet<SocketAddr>,
    local: BTreeSet<SocketAddr>,
}

impl Used {
    fn of(routes: &PortRoutes<'_>) -> Self {
        let of = |pool: Pool| routes.pool(pool).iter().map(|endpoint| endpoint.address).collect();
        Self { cluster: of(Pool::Cluster), local: of(Pool::Local) }
    }
}

fn endpoint_item(port: &ServicePort, used: &Used, endpoint: &Endpoint) -> Value {
    let mut item = identity(port);
    let hints = endpoint.hints.as_deref();
    let more = json!({
        "address": endpoint.address.to_string(),
        "ready": endpoint.conditions.ready,
        "serving": endpoint.conditions.serving,
        "terminating": endpoint.conditions.terminating,
        "node": endpoint.node.as_deref(),
        "hintedZones": hints.map(|hints| hints.zones.iter().map(|zone| zone.to_string()).collect::<Vec<_>>()),
        "hintedNodes": hints.map(|hints| hints.nodes.iter().map(|node| node.to_string()).collect::<Vec<_>>()),
        "usedForCluster": used.cluster.contains(&endpoint.address),
        "usedForLocal": used.local.contains(&endpoint.address),
    });
    merge(&mut item, more);
    item
}

pub(super) fn routes(view: &View<'_>, asked: &Page, looks: &mut Looks) -> Result<Value, Refusal> {
    page(sources(view), asked, looks, "RouteList", |sync, port, begin, sheet| {
        let routes = sync.book().routes(port);
        sheet.fill(&routes.routes, begin, |route| (weight(&routes, route), route_item(port, &routes, route)))
    })
}

/// One, and one for each endpoint that is named.
fn weight(routes: &PortRoutes<'_>, route: &Route) -> usize {
    let named = |branch: &Branch| match branch.verdict {
        Verdict::Pick(pool) => routes.pool(pool).len(),
        Verdict::Reject | Verdict::Drop => 0,
    };
    1 + route.branches.iter().map(named).sum::<usize>()
}

fn route_item(port: &ServicePort, routes: &PortRoutes<'_>, route: &Route) -> Value {
    let mut item = identity(port);
    let more = json!({
        "frontend": route.frontend.to_string(),
        "frontendKind": route.kind.to_string(),
        "allowedSources": route.allowed_sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "branches": route.branches.iter().map(|branch| branch_item(routes, branch)).collect::<Vec<_>>(),
    });
    merge(&mut item, more);
    item
}

fn branch_item(routes: &PortRoutes<'_>, branch: &Branch) -> Value {
    let (verdict, endpoints) = match branch.verdict {
        Verdict::Pick(pool) => ("pick", routes.pool(pool).iter().map(|e| e.address.to_string()).collect()),
        Verdict::Reject => ("reject", Vec::new()),
        Verdict::Drop => ("drop", Vec::new()),
    };
    let from = match branch.client {
        Client::LocalPod => "pods of this node",
        Client::ThisNode => "this node",
        Client::Anyone => "anyone",
    };
    let masquerade = match branch.masquerade {
        Masquerade::Never => "never",
        Masquerade::FromOutside => "from outside",
        Masquerade::Always => "always",
    };
    json!({ "from": from, "verdict": verdict, "endpoints": endpoints, "masquerade": masquerade })
}

/// Who answers.
pub(super) fn status(identity: &Identity, view: &View<'_>) -> Value {
    let family = |sync: &FamilySync| {
        let book = sync.book();
        json!({
            "family": sync.family().to_string(),
            "nodeIP": book.settings().node_ip,
            "servicePorts": book.ports().len(),
            "endpoints": book.endpoints(),
            "quarantined": book.quarantined().len(),
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Status",
        "version": env!("CARGO_PKG_VERSION"),
        "node": identity.node,
        "mode": identity.mode.as_str(),
        "isStarted": view.is_started,
        "families": view.families.iter().map(family).collect::<Vec<_>>(),
        "lastChange": view.ledger.count(),
    })
}

fn identity(port: &ServicePort) -> Value {
    json!({
        "namespace": &*port.name.service.namespace,
        "name": &*port.name.service.name,
        "portName": &*port.name.port,
        "protocol": port.name.protocol.to_string(),
        "family": port.family.to_string(),
    })
}

fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

fn merge(item: &mut Value, more: Value) {
    if let (Value::Object(item), Value::Object(more)) = (item, more) {
        item.extend(more);
    }
}

#[cfg(test)]
mod tests;
