//! Every scenario of `scenarios/` with its objects in a real API server.
//!
//! Two things are not as with manifests: the API server has a ServiceCIDR of its own, so that in nftables mode an address that no Service
//! has is dropped; and it refuses some objects, see [`is_impossible`].

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use switchyard_lab::Lab;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Flow, Scenario, Step, to_manifests};
use switchyard_model::Family;

use crate::common::proxy::{Agent, Bench, scenarios};
use crate::common::stage::Stage;
use crate::common::variant::{Variant, say};
use crate::e2e::api::is_impossible;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::gateway::Gateway;

/// How long a change may take to be seen in traffic.
const TAKES_EFFECT: Duration = Duration::from_secs(15);

#[test]
fn iptables() {
    run_all(Variant::Nft);
}

#[test]
fn nftables() {
    run_all(Variant::Nftables);
}

/// `SCENARIO=name` in the environment picks those whose names contain the text.
fn run_all(variant: Variant) {
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let started = Instant::now();
    let mut all = Scenario::read_all(&scenarios()).unwrap();
    let picked = std::env::var("SCENARIO").unwrap_or_default();
    all.retain(|scenario| scenario.name.contains(&picked));
    all.retain(|scenario| !is_impossible(&scenario.name));
    let (mut flows, mut failures) = (0, Vec::new());
    for scenario in &mut all {
        scenario.steps.iter_mut().for_each(expect_drops_in_the_service_range);
        flows += scenario.steps.iter().flat_map(|s| &s.flows).map(|f| f.families().len()).sum::<usize>();
        match play(scenario, variant, &control_plane) {
            Ok(failed) => failures.extend(failed),
            Err(error) => failures.push(format!("{}: {error:#}", scenario.name)),
        }
    }
    let (count, failed, seconds) = (all.len(), failures.len(), started.elapsed().as_secs());
    say(&format!(
        "lab {variant}, real API server: {count} scenarios, {flows} flows, {failed} failed ({seconds} s)"
    ));
    assert!(flows > 0 && failures.is_empty(), "\n{}", failures.join("\n"));
}

fn expect_drops_in_the_service_range(step: &mut Step) {
    let held: Vec<Symbol> = step.objects.services.values().map(|s| s.cluster_ip).collect();
    let is_free = |flow: &Flow| matches!(flow.to, Symbol::Cluster(_)) && !held.contains(&flow.to);
    for flow in step.flows.iter_mut().filter(|flow| is_free(flow)) {
        flow.expected_in_nftables.get_or_insert(Expected::Drop);
    }
}

fn play(scenario: &Scenario, variant: Variant, to: &ControlPlane) -> anyhow::Result<Vec<String>> {
    let lab = Lab::new()?;
    let gateway = Gateway::open(&lab, to);
    let bench = Bench::new(&lab, variant)?;
    let stage = Stage::new(lab, scenario)?;
    let mut agent: Option<Agent> = None;
    let mut failures = Vec::new();
    to.api().clear()?;
    for step in &scenario.steps {
        let objects = serde_json::from_str(&to_manifests(&step.objects, &Family::ALL))?;
        to.api().put_all(&objects).with_context(|| format!("objects of step {:?}", step.title))?;
        let patience = if agent.is_some() { TAKES_EFFECT } else { Duration::ZERO };
        if agent.is_none() {
            let mut started = bench.start_on_cluster(&to.kubeconfig(), &scenario.flags())?;
            started.wait_until_synced()?;
            agent = Some(started);
        }
        failures.extend(stage.failures(scenario, step, variant.mode(), patience));
    }
    let agent = agent.context("a scenario without a step")?;
    let repaired = agent.total("switchyard_rules_repaired_total")?;
    ensure!(repaired == 0.0, "took {repaired} own writes for harm; log:\n{}", agent.log_end());
    agent.terminate()?;
    drop(gateway);
    Ok(failures)
}
