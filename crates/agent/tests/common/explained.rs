//! `switchyard explain` about the flows of a scenario: it must say what the packets did, and why.
//!
//! In: how to ask, and the objects. Out: what was said wrongly. Who answers is compared with the expectation of the flow, address and port;
//! the reason and the seconds of affinity with the objects.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Flow, Objects, PortSpec, Scenario, Seen, ServiceSpec, Step};
use switchyard_model::{Family, TrafficPolicy};

use super::variant::Variant;

/// Asks an agent: arguments of `switchyard`, and the answer as JSON.
pub(crate) type Ask<'a> = dyn Fn(&[&str]) -> anyhow::Result<Value> + 'a;

/// What the answers say that the packets did not do. The agent may learn of the last change a moment after the first packets of a step,
/// if those happen to go where they should already before.
pub(crate) fn failures(
    ask: &Ask<'_>,
    scenario: &Scenario,
    step: &Step,
    variant: Variant,
    patience: Duration,
) -> Vec<String> {
    let end = Instant::now() + patience;
    loop {
        let tries = step.flows.iter().flat_map(|flow| flow.families().iter().map(move |f| (flow, *f)));
        let failed = tries.filter_map(|(flow, family)| {
            let error = said(ask, &step.objects, flow, variant, family).err()?;
            let (name, line, title) = (&scenario.name, flow.line, &step.title);
            Some(format!("{name}.txt:{line} {family} ({title}): {flow}: explain: {error:#}"))
        });
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() || Instant::now() >= end {
            return failed;
        }
    }
}

fn said(
    ask: &Ask<'_>,
    objects: &Objects,
    flow: &Flow,
    variant: Variant,
    family: Family,
) -> anyhow::Result<()> {
    let address = |symbol: Symbol| symbol.ip(family).with_context(|| format!("{symbol} has no address"));
    let to = format!("{}/{}", SocketAddr::new(address(flow.to)?, flow.port), flow.protocol);
    let answer = ask(&["explain", "--from", &address(flow.from)?.to_string(), "--to", &to])?;
    let chosen = match variant {
        Variant::Nft | Variant::Legacy | Variant::Nftables => "each with the same odds",
        Variant::Ipvs => "which take turns (scheduler rr)",
        Variant::Userspace => "which take turns",
    };
    check(&answer, objects, flow, flow.expected_in(variant.mode()), chosen, family)
}

/// Compares one answer. `chosen` is how one of several endpoints is.
pub(crate) fn check(
    answer: &Value,
    objects: &Objects,
    flow: &Flow,
    expected: &Expected,
    chosen: &str,
    family: Family,
) -> anyhow::Result<()> {
    let hit = hit(answer, objects, flow)?;
    let wanted = match (expected, &hit) {
        (Expected::Pods(pods) | Expected::Sticky(pods), Some(hit)) => sockets(hit, pods, objects, family),
        (Expected::Pods(_) | Expected::Sticky(_), None) => "endpoints of a Service".to_owned(),
        (Expected::Reject, _) => "reject".to_owned(),
        (Expected::Drop, _) => "drop".to_owned(),
        (Expected::Untouched | Expected::Http(_), _) => "untouched".to_owned(),
    };
    let got = outcome(answer)?;
    ensure!(got == wanted, "it says {got}, packets {wanted}");
    ensure!(!matches!(expected, Expected::Sticky(_)) || affinity(answer).is_some(), "not sticky");
    check_reason(answer, hit.as_ref(), expected, objects, chosen)?;
    let by = answer.get("by").and_then(Value::as_array).context("no by")?;
    ensure!(by.is_empty() == (got == "untouched"), "it is {got} by {by:?}");
    Ok(())
}

/// A service port of the objects.
struct Hit<'a> {
    service: &'a ServiceSpec,
    port: &'a PortSpec,
}

/// The one that is said to be hit; it must be one that has the frontend.
fn hit<'a>(answer: &Value, objects: &'a Objects, flow: &Flow) -> anyhow::Result<Option<Hit<'a>>> {
    let text = |name: &str| answer.pointer(name).and_then(Value::as_str).unwrap_or_default();
    if answer.get("hit").is_none_or(Value::is_null) {
        return Ok(None);
    }
    let (name, port_name) = (text("/hit/service"), text("/hit/portName"));
    let service = objects.services.values().find(|service| service.name.to_string() == name);
    let service = service.with_context(|| format!("there is no Service {name}"))?;
    let is_named = service.cluster_ip == flow.to
        || service.external_ips.contains(&flow.to)
        || service.load_balancer_ips.contains(&flow.to);
    let is_node = matches!(flow.to, Symbol::Node(_) | Symbol::Gateway | Symbol::Localhost);
    let has = |port: &&PortSpec| {
        let number =
            if is_node { port.node_port == Some(flow.port) } else { is_named && port.port == flow.port };
        number && port.protocol == flow.protocol && port.name == port_name
    };
    let port = service.ports.iter().find(has);
    let port = port.with_context(|| format!("port {port_name:?} of {name} has no such frontend"))?;
    let wanted = service.affinity.map(u64::from);
    ensure!(affinity(answer) == wanted, "affinity of {:?} s, not {wanted:?}", affinity(answer));
    Ok(Some(Hit { service, port }))
}

fn affinity(answer: &Value) -> Option<u64> {
    answer.pointer("/hit/affinitySeconds").and_then(Value::as_u64)
}

/// The endpoints of a service port that are in these pods.
fn sockets(hit: &Hit<'_>, pods: &BTreeMap<Symbol, Seen>, objects: &Objects, family: Family) -> String {
    let own = objects.endpoints.get(&hit.service.name).into_iter().flatten();
    let own = own.filter(|e| e.port_name == hit.port.name && e.protocol == hit.port.protocol);
    let seen = own.filter_map(|endpoint| {
        let source = if *pods.get(&endpoint.pod)? == Seen::Node { "node" } else { "client" };
        Some((SocketAddr::new(endpoint.pod.ip(family)?, endpoint.port), source.to_owned()))
    });
    format!("{:?}", seen.collect::<BTreeMap<_, _>>())
}

/// The endpoints that an answer names with what each sees, or its verdict.
fn outcome(answer: &Value) -> anyhow::Result<String> {
    let verdict = answer.get("verdict").and_then(Value::as_str).context("no verdict")?;
    if verdict != "endpoints" {
        return Ok(verdict.to_owned());
    }
    let endpoints = answer.pointer("/hit/endpoints").and_then(Value::as_array).context("no endpoints")?;
    let mut seen: BTreeMap<SocketAddr, String> = BTreeMap::new();
    for endpoint in endpoints {
        let text = |name: &str| endpoint.get(name).and_then(Value::as_str);
        ensure!(text("odds").is_some() != text("excluded").is_some(), "neither in nor out: {endpoint}");
        if let (Some(address), Some(source)) = (text("address"), text("seenSource")) {
            seen.insert(address.parse()?, source.to_owned());
        }
    }
    Ok(format!("{seen:?}"))
}

/// The reason must be one that holds for these objects and leads to this outcome.
fn check_reason(
    answer: &Value,
    hit: Option<&Hit<'_>>,
    expected: &Expected,
    objects: &Objects,
    chosen: &str,
) -> anyhow::Result<()> {
    let reason = answer.get("reason").and_then(Value::as_str).context("no reason")?;
    let has_endpoints = hit.is_some_and(|hit| {
        let own = objects.endpoints.get(&hit.service.name).into_iter().flatten();
        own.clone().any(|e| e.port_name == hit.port.name && e.protocol == hit.port.protocol)
    });
    let is_local = hit.is_some_and(|hit| {
        [hit.service.internal_policy, hit.service.external_policy].contains(&TrafficPolicy::Local)
    });
    let is_restricted = hit.is_some_and(|hit| !hit.service.source_ranges.is_empty());
    let fits = match (expected, hit) {
        (Expected::Pods(_) | Expected::Sticky(_), Some(hit)) => {
            let stay = hit
                .service
                .affinity
                .map(|seconds| format!("; a client that was here in the last {seconds} s"));
            let rest = reason.strip_prefix("one of the usable endpoints").unwrap_or_default();
            let rest = match rest.strip_prefix(" on this node (the policy is Local)") {
                Some(rest) if is_local => rest,
                _ => rest,
            };
            rest.strip_prefix(&format!(", {chosen}")).is_some_and(|rest| match stay {
                Some(stay) => rest.starts_with(&stay),
                None => rest.is_empty(),
            })
        }
        (Expected::Reject | Expected::Drop, Some(_)) => match reason {
            reason if reason.starts_with("the Service has no endpoints") => !has_endpoints,
            reason if reason.starts_with("no endpoint is ready") => has_endpoints,
            reason if reason.starts_with("the policy is Local") => has_endpoints && is_local,
            reason if reason.starts_with("the source is in none of") => is_restricted,
            _ => false,
        },
        (Expected::Reject, None) => is_unknown_port(reason),
        (Expected::Drop, None) => reason.starts_with("the address is in the range "),
        (Expected::Http(_), None) => reason.starts_with("the node itself answers health checks of "),
        (Expected::Untouched, None) => {
            is_unknown_port(reason)
                || reason == "no Service has this address, protocol and port"
                || reason.contains(" has this node port, but node ports are not served on ")
        }
        _ => bail!("it says {answer}, packets {expected:?}"),
    };
    ensure!(fits, "{reason:?} is no reason for {expected:?}");
    Ok(())
}

fn is_unknown_port(reason: &str) -> bool {
    reason.starts_with("the address is a") && reason.contains(" but its Service")
}
