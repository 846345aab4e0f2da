//! Lists of what is served, in pages.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};
use switchyard_model::{
    Endpoint, Family, PortKey, Protocol, ServiceName, ServicePort, ServicePortName, TrafficPolicy,
};
use switchyard_plan::book::Book;
use switchyard_plan::route::{Branch, Client, Masquerade, Pool, PortRoutes, Route, Verdict};
use switchyard_serve::admin::Question;

use super::{Identity, Refusal, number};
use crate::sync::{FamilySync, View};

/// Service ports on a page unless less is asked for, and at most.
const LIMIT: u64 = 500;

/// Which part of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    limit: usize,
    after: Option<PortKey>,
    namespace: Option<String>,
    name: Option<String>,
    /// Only these Services.
    chosen: Option<BTreeSet<ServiceName>>,
}

impl Page {
    pub(super) fn read(question: &Question) -> Result<Self, Refusal> {
        let limit = number(question, "limit")?.unwrap_or(LIMIT).clamp(1, LIMIT);
        let text = |name: &str| question.parameter(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let after =
            text("continue").map(|token| place(&token).ok_or((400, "continue is none of ours".to_owned())));
        Ok(Self {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            after: after.transpose()?,
            namespace: text("namespace"),
            name: text("name"),
            chosen: None,
        })
    }

    /// The same of these Services alone.
    pub(super) fn of(self, chosen: BTreeSet<ServiceName>) -> Self {
        Self { chosen: Some(chosen), ..self }
    }

    /// The namespace that it is about, if it is about one.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Service ports of one namespace stand beside each other, and those of one Service, too.
    fn begin(&self) -> Bound<ServicePortName> {
        let Some(namespace) = &self.namespace else { return Bound::Unbounded };
        let service = ServiceName::new(namespace, self.name.as_deref().unwrap_or_default());
        Bound::Included(ServicePortName { service, port: "".into(), protocol: Protocol::Tcp })
    }

    /// False if neither this one nor any behind it can be wanted.
    fn may_have(&self, name: &ServicePortName) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| **namespace == *name.service.namespace)
    }

    fn has(&self, name: &ServicePortName) -> bool {
        let is = |wanted: &Option<String>, found: &Arc<str>| {
            wanted.as_ref().is_none_or(|wanted| **wanted == **found)
        };
        let is_chosen = || self.chosen.as_ref().is_none_or(|chosen| chosen.contains(&name.service));
        is(&self.namespace, &name.service.namespace) && is(&self.name, &name.service.name) && is_chosen()
    }
}

/// Where the next page begins, as text that only we read.
fn token(key: &PortKey) -> String {
    let ServicePortName { service, port, protocol } = &key.name;
    format!("{}/{}/{}/{protocol}/{port}", key.family, service.namespace, service.name)
}

fn place(token: &str) -> Option<PortKey> {
    let mut parts = token.splitn(5, '/');
    let family = parts.next()?;
    let family = Family::ALL.into_iter().find(|known| known.to_string() == family)?;
    let service = ServiceName::new(parts.next()?, parts.next()?);
    let protocol = parts.next()?;
    let protocol =
        [Protocol::Tcp, Protocol::Udp, Protocol::Sctp].into_iter().find(|p| p.to_string() == protocol)?;
    Some(PortKey { family, name: ServicePortName { service, port: parts.next()?.into(), protocol } })
}

/// One page: items of each service port, in order of family and name.
fn page<'a, T: 'a>(
    sources: impl Iterator<Item = (&'a Book, &'a T)>,
    page: &Page,
    kind: &str,
    items: impl Fn(&T, &ServicePort) -> Vec<Value>,
) -> Value {
    let (mut all, mut count, mut next) = (Vec::new(), 0, None);
    // A page may end where a family does.
    let mut last: Option<(Family, &ServicePortName)> = None;
    'pages: for (book, one) in sources {
        let family = book.settings().family;
        let begin = match &page.after {
            Some(after) if after.family > family => continue,
            Some(after) if after.family == family => Bound::Excluded(after.name.clone()),
            _ => page.begin(),
        };
        let ports = book.ports().range((begin, Bound::Unbounded)).take_while(|(name, _)| page.may_have(name));
        for (name, port) in ports.filter(|(name, _)| page.has(name)) {
            if count == page.limit {
                next = last.map(|(family, name)| token(&PortKey { family, name: name.clone() }));
                break 'pages;
            }
            all.extend(items(one, port));
            (count, last) = (count + 1, Some((family, name)));
        }
    }
    json!({ "apiVersion": "v1", "kind": kind, "items": all, "continue": next })
}

/// Each family, with what is known of it.
fn sources<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a Book, &'a FamilySync)> {
    view.families.iter().map(|sync| (sync.book(), sync))
}

pub(super) fn services(view: &View<'_>, asked: &Page) -> Value {
    page(sources(view), asked, "ServicePortList", |sync, port| vec![service(sync, port)])
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

pub(super) fn endpoints(view: &View<'_>, asked: &Page) -> Value {
    page(sources(view), asked, "EndpointList", |sync, port| {
        let routes = sync.book().routes(port);
        port.endpoints.iter().map(|endpoint| endpoint_item(port, &routes, endpoint)).collect()
    })
}

fn endpoint_item(port: &ServicePort, routes: &PortRoutes<'_>, endpoint: &Endpoint) -> Value {
    let is_in = |pool: Pool| routes.pool(pool).iter().any(|one| one.address == endpoint.address);
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
        "usedForCluster": is_in(Pool::Cluster),
        "usedForLocal": is_in(Pool::Local),
    });
    merge(&mut item, more);
    item
}

pub(super) fn routes(view: &View<'_>, asked: &Page) -> Value {
    page(sources(view), asked, "RouteList", |sync, port| {
        let routes = sync.book().routes(port);
        routes.routes.iter().map(|route| route_item(port, &routes, route)).collect()
    })
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

/// What was set aside: objects that are wrong, service ports that the kernel refused, frontends that another one has.
pub(super) fn quarantine(view: &View<'_>) -> Value {
    let mut items = Vec::new();
    for (object, complaints) in view.complaints {
        let problems = complaints.iter().map(|complaint| complaint.problem.clone());
        items.extend(
            problems.map(|cause| json!({ "kind": "object", "object": object.to_string(), "cause": cause })),
        );
    }
    for book in view.families.iter().map(FamilySync::book) {
        let family = book.settings().family.to_string();
        for (name, entry) in book.quarantined() {
            items.push(json!({ "kind": "refused", "object": name.to_string(), "family": family, "cause": entry.cause }));
        }
        for conflict in book.conflicts() {
            let cause = format!("{} belongs to {}", conflict.frontend, conflict.winner.name);
            let losers = conflict.losers.iter();
            items.extend(losers.map(
                |key| json!({ "kind": "conflict", "object": key.name.to_string(), "family": family, "cause": cause }),
            ));
        }
    }
    json!({ "apiVersion": "v1", "kind": "QuarantineList", "items": items })
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

pub(super) fn merge(item: &mut Value, more: Value) {
    if let (Value::Object(item), Value::Object(more)) = (item, more) {
        item.extend(more);
    }
}

#[cfg(test)]
mod tests;
