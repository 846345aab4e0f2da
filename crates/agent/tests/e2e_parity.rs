//! Switchyard beside upstream's kube-proxy: the same objects of one real API server, each in its own lab on a node of the same name and
//! addresses, both in iptables mode. Their rules must be the same. `make parity` runs this.
//!
//! Every scenario of `scenarios/` is played without a pause, so that what is compared is also what both make of a change. Scenarios with
//! the same options share a pair of proxies.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;
#[path = "e2e/all.rs"]
mod e2e;

#[path = "e2e_parity/peers.rs"]
mod peers;
#[path = "e2e_parity/rules.rs"]
mod rules;

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};
use switchyard_lab::scenario::{CLUSTER_CIDR, Scenario, to_manifests};
use switchyard_model::Family;

use common::objects::{service, slice};
use common::proxy::scenarios;
use common::variant::{Variant, say};
use e2e::control_plane::ControlPlane;
use e2e::programs::{KUBE_PROXY, find_or_skip};
use peers::Peers;

#[test]
fn iptables_nft() {
    compare_all(Variant::Nft);
}

#[test]
fn iptables_legacy() {
    compare_all(Variant::Legacy);
}

/// Scenarios in which the rules differ on purpose, each with the reason; see docs/differences.md.
const DIFFERENT: [(&str, &str); 1] = [(
    "same-external-ip",
    "of two Services with one address kube-proxy writes both, switchyard the older one",
)];

/// Many kinds of Services at once: SCTP, source ranges, addresses that a load balancer keeps to itself, several slices, hints.
const MIXTURE: &str = "mixture";

/// Objects at one moment.
struct Case {
    title: String,
    list: Value,
    /// Whether it follows from the case before, or begins anew.
    is_first: bool,
}

/// `SCENARIO=name` in the environment picks those whose names contain the text.
fn compare_all(variant: Variant) {
    let Some(program) = find_or_skip(KUBE_PROXY) else { return };
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let started = Instant::now();
    let (mut passed, mut failed, mut rules) = (0, 0, 0);
    for (flags, cases) in cases_by_flags() {
        let mut peers: Option<Peers> = None;
        for (number, case) in cases.iter().enumerate() {
            let port = u16::try_from(number + 1).unwrap();
            if case.is_first {
                control_plane.api().clear().unwrap();
            }
            control_plane.api().put_all(&marked(&case.list, port)).unwrap();
            let peers = peers.get_or_insert_with(|| Peers::start(&program, &control_plane, variant, &flags));
            match peers.compare(port) {
                Ok(count) => (passed, rules) = (passed + 1, rules + count),
                Err(difference) => {
                    failed += 1;
                    say(&format!("{} with {}:\n{difference}", case.title, flags.join(" ")));
                }
            }
        }
    }
    let seconds = started.elapsed().as_secs();
    say(&format!("parity {variant}: {rules} rules compared: {passed} passed, {failed} failed ({seconds} s)"));
    assert!(passed > 0 && failed == 0, "rules differ, see above");
}

/// The steps of all scenarios, and what else is worth a comparison, by the flags of the proxies.
fn cases_by_flags() -> BTreeMap<Vec<String>, Vec<Case>> {
    let picked = std::env::var("SCENARIO").unwrap_or_default();
    let mut all = Scenario::read_all(&scenarios()).unwrap();
    all.retain(|scenario| scenario.name.contains(&picked) && !e2e::api::is_impossible(&scenario.name));
    all.retain(|scenario| !DIFFERENT.iter().any(|(name, _)| scenario.name == *name));
    let mut cases: BTreeMap<Vec<String>, Vec<Case>> = BTreeMap::new();
    for scenario in &all {
        let mut flags = scenario.flags();
        // kube-proxy refuses an empty one.
        flags.retain(|flag| flag != "--cluster-cidr=");
        let of_flags = cases.entry(flags).or_default();
        for (number, step) in scenario.steps.iter().enumerate() {
            let title = format!("{} ({})", scenario.name, step.title);
            let list = serde_json::from_str(&to_manifests(&step.objects, &Family::ALL)).unwrap();
            of_flags.push(Case { title, list, is_first: number == 0 });
        }
    }
    if MIXTURE.contains(&picked) {
        let list = serde_json::from_str(include_str!("data/parity.json")).unwrap();
        let of_flags = cases.entry(vec![format!("--cluster-cidr={CLUSTER_CIDR}")]).or_default();
        of_flags.push(Case { title: MIXTURE.to_owned(), list, is_first: true });
    }
    cases
}

/// With a Service that no case has; rules for its port show that the case is in force.
fn marked(list: &Value, port: u16) -> Value {
    let mut list = list.clone();
    let items = list.get_mut("items").and_then(Value::as_array_mut).unwrap();
    for (name, ip, kind, endpoint) in
        [("v4", "10.96.0.250", "IPv4", "10.1.2.250"), ("v6", "fd00:10:96::250", "IPv6", "fd00:10:1:2::250")]
    {
        let mut marker = service("marker", name, "", ip, &json!(port));
        marker.pointer_mut("/spec").unwrap()["ipFamilies"] = json!([kind]);
        items.push(marker);
        items.push(slice("marker", name, "", kind, endpoint, &json!(1)));
    }
    list
}
