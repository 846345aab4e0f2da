//! `switchyard explain` about the flows of a scenario: it must say what the packets did.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Flow, Mode, Scenario, Seen, Step};
use switchyard_model::Family;

use crate::common::proxy::Agent;

/// What the answers say that the packets did not do. The agent may learn of the last change a moment after the first packets of a step,
/// if those happen to go where they should already before.
pub(crate) fn failures(
    agent: &Agent,
    scenario: &Scenario,
    step: &Step,
    mode: Mode,
    patience: Duration,
) -> anyhow::Result<Vec<String>> {
    let end = Instant::now() + patience;
    loop {
        let failures = failures_now(agent, scenario, step, mode)?;
        if failures.is_empty() || Instant::now() >= end {
            return Ok(failures);
        }
    }
}

fn failures_now(agent: &Agent, scenario: &Scenario, step: &Step, mode: Mode) -> anyhow::Result<Vec<String>> {
    let mut failures = Vec::new();
    for flow in &step.flows {
        for family in flow.families() {
            let (said, expected) = (said(agent, flow, *family)?, expected(flow, mode, *family));
            if said != expected {
                let (name, line, title) = (&scenario.name, flow.line, &step.title);
                failures.push(format!(
                    "{name}.txt:{line} {family} ({title}): {flow}: explain says {said}, packets {expected}"
                ));
            }
        }
    }
    Ok(failures)
}

fn said(agent: &Agent, flow: &Flow, family: Family) -> anyhow::Result<String> {
    let address = |symbol: Symbol| symbol.ip(family).with_context(|| format!("{symbol} has no address"));
    let to = std::net::SocketAddr::new(address(flow.to)?, flow.port);
    let (to, from) = (format!("{to}/{}", flow.protocol), address(flow.from)?.to_string());
    let answer = agent.ask(&["explain", "--from", &from, "--to", &to])?;
    let verdict = answer.get("verdict").and_then(Value::as_str).context("no verdict")?;
    if verdict != "endpoints" {
        return Ok(verdict.to_owned());
    }
    let endpoints = answer.pointer("/hit/endpoints").and_then(Value::as_array).context("no endpoints")?;
    let mut seen = BTreeMap::new();
    for endpoint in endpoints {
        let text = |name: &str| endpoint.get(name).and_then(Value::as_str);
        if let (Some(address), Some(source)) = (text("address"), text("seenSource")) {
            let socket: std::net::SocketAddr = address.parse()?;
            seen.insert(socket.ip().to_string(), source.to_owned());
        }
    }
    Ok(format!("{seen:?}"))
}

fn expected(flow: &Flow, mode: Mode, family: Family) -> String {
    match flow.expected_in(mode) {
        Expected::Pods(pods) | Expected::Sticky(pods) => {
            let seen = |(pod, seen): (&Symbol, &Seen)| {
                let source = if *seen == Seen::Node { "node" } else { "client" };
                Some((pod.ip(family)?.to_string(), source.to_owned()))
            };
            format!("{:?}", pods.iter().filter_map(seen).collect::<BTreeMap<_, _>>())
        }
        Expected::Reject => "reject".to_owned(),
        Expected::Drop => "drop".to_owned(),
        Expected::Untouched | Expected::Http(_) => "untouched".to_owned(),
    }
}
