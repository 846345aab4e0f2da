//! One Service for its page: ports, routes and endpoints, the first of each.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use switchyard_model::{Endpoint as Member, ServiceName, ServicePort};
use switchyard_plan::book::Book;
use switchyard_plan::route::{Branch, Client, Masquerade, Pool, PortRoutes, Verdict};
use switchyard_serve::ui::{Endpoint, EndpointState, PortSheet, Route, ServiceSheet};

use super::lists::{frontend, ports_of};
use crate::sync::{FamilySync, View};

/// Ports, each in each family, that a page holds.
const PORTS: usize = 24;
/// Rows about packets per port.
const ROUTES: usize = 64;
/// Endpoints per port.
const ENDPOINTS: usize = 250;

/// See the module. Nothing if no port of the Service is known.
pub(super) fn sheet(view: &View<'_>, namespace: &str, name: &str) -> Option<ServiceSheet> {
    let name = ServiceName::new(namespace, name);
    let (mut ports, mut port_count) = (Vec::new(), 0);
    for book in view.families.iter().map(FamilySync::book) {
        for (port, refused) in ports_of(book, &name) {
            port_count += 1;
            if ports.len() < PORTS {
                ports.push(port_sheet(book, port, refused));
            }
        }
    }
    ports.sort_by(|a, b| (&a.port_name, a.protocol, a.family).cmp(&(&b.port_name, b.protocol, b.family)));
    (port_count > 0).then_some(ServiceSheet { name, ports, port_count })
}

fn port_sheet(book: &Book, port: &ServicePort, refused: Option<&str>) -> PortSheet {
    let routes = book.routes(port);
    let used: BTreeSet<SocketAddr> = [Pool::Cluster, Pool::Local]
        .into_iter()
        .flat_map(|pool| routes.pool(pool))
        .map(|one| one.address)
        .collect();
    let endpoint = |member: &Member| endpoint(member, &used, &book.settings().node_name);
    PortSheet {
        port_name: port.name.port.to_string(),
        protocol: port.name.protocol,
        family: port.family,
        affinity_seconds: port.affinity,
        internal_policy: port.internal_policy,
        external_policy: port.external_policy,
        health_check_node_port: port.health_check_node_port,
        set_aside: refused.map(str::to_owned),
        routes: rows(book, &routes).take(ROUTES).collect(),
        route_count: rows(book, &routes).count(),
        endpoints: port.endpoints.iter().take(ENDPOINTS).map(endpoint).collect(),
        endpoint_count: port.endpoints.len(),
    }
}

fn rows<'a>(book: &'a Book, routes: &'a PortRoutes<'_>) -> impl Iterator<Item = Route> + 'a {
    routes.routes.iter().flat_map(move |route| {
        route.branches.iter().map(move |branch| Route {
            frontend: frontend(book, route),
            client: client(branch.client).to_owned(),
            verdict: verdict(routes, branch),
            masquerade: masquerade(branch).to_owned(),
            allowed_sources: route.allowed_sources.iter().map(ToString::to_string).collect(),
        })
    })
}

fn client(client: Client) -> &'static str {
    match client {
        Client::LocalPod => "pods of this node",
        Client::ThisNode => "this node",
        Client::Anyone => "anyone",
    }
}

fn verdict(routes: &PortRoutes<'_>, branch: &Branch) -> String {
    match branch.verdict {
        Verdict::Pick(pool) => match (routes.pool(pool).len(), pool) {
            (1, Pool::Cluster) => "the one endpoint".to_owned(),
            (1, Pool::Local) => "the one endpoint on this node".to_owned(),
            (count, Pool::Cluster) => format!("one of {count} endpoints"),
            (count, Pool::Local) => format!("one of {count} endpoints on this node"),
        },
        Verdict::Reject => "rejected: no endpoint can answer".to_owned(),
        Verdict::Drop => "dropped: only other nodes can answer".to_owned(),
    }
}

/// What is not translated keeps its source.
fn masquerade(branch: &Branch) -> &'static str {
    match (branch.verdict, branch.masquerade) {
        (Verdict::Reject | Verdict::Drop, _) => "–",
        (_, Masquerade::Never) => "no",
        (_, Masquerade::FromOutside) => "unless a pod of this node",
        (_, Masquerade::Always) => "yes",
    }
}

fn endpoint(member: &Member, used: &BTreeSet<SocketAddr>, node: &str) -> Endpoint {
    let hints = member.hints.iter().flat_map(|hints| {
        let zones = hints.zones.iter().map(|zone| format!("zone {zone}"));
        zones.chain(hints.nodes.iter().map(|node| format!("node {node}")))
    });
    let conditions = member.conditions;
    Endpoint {
        address: member.address,
        state: match (conditions.ready, conditions.serving, conditions.terminating) {
            (true, ..) => EndpointState::Ready,
            (false, true, true) => EndpointState::ServingWhileEnding,
            (false, false, true) => EndpointState::Ending,
            (false, _, false) => EndpointState::NotReady,
        },
        node: member.node.as_deref().map(str::to_owned),
        is_here: member.is_on(node),
        hints: hints.collect(),
        is_used: used.contains(&member.address),
    }
}
