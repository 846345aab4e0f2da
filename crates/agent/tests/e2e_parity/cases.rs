//! What is compared: objects at one moment, in the order in which both proxies get them.
//!
//! In: the scenarios of `scenarios/` and a mixture of many kinds of Services. Out: cases by the flags of the proxies. Each case has a
//! marker, a Service that no other case has: once its rules are there, the case is in force.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use switchyard_lab::scenario::{CLUSTER_CIDR, Flow, Scenario, Step, to_manifests};
use switchyard_model::Family;

use crate::common::objects::{service, slice};
use crate::common::proxy::scenarios;
use crate::e2e::api::is_impossible;
use crate::probes;

/// Scenarios in which the rules differ on purpose, each with the reason; see docs/differences.md.
const DIFFERENT: [(&str, &str); 1] = [(
    "same-external-ip",
    "of two Services with one address kube-proxy writes both, switchyard the older one",
)];

/// Many kinds of Services at once: SCTP, source ranges, addresses that a load balancer keeps to itself, several slices, hints.
const MIXTURE: &str = "mixture";

/// Its namespace is the last one, so that in a list a marker comes after everything else of its kind.
const MARKERS: &str = "zz-marker";

/// Objects at one moment.
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) list: Value,
    /// Whether it follows from the case before, or begins anew.
    pub(crate) is_first: bool,
    /// What the scenario tries then; a mixture tries nothing of its own.
    pub(crate) flows: Vec<Flow>,
}

/// Cases that share a pair of proxies.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) cases: Vec<Case>,
    /// Every step of every scenario, for whoever makes the pods, and whatever else has endpoints.
    pub(crate) together: Vec<Step>,
}

/// The steps of all scenarios, and what else is worth a comparison, by the flags of the proxies. `SCENARIO=name` in the environment picks
/// those whose names contain the text.
pub(crate) fn by_flags() -> BTreeMap<Vec<String>, Group> {
    let picked = std::env::var("SCENARIO").unwrap_or_default();
    let mut all = Scenario::read_all(&scenarios()).unwrap();
    all.retain(|scenario| scenario.name.contains(&picked) && !is_impossible(&scenario.name));
    all.retain(|scenario| !DIFFERENT.iter().any(|(name, _)| scenario.name == *name));
    let mut groups: BTreeMap<Vec<String>, Group> = BTreeMap::new();
    for scenario in all {
        let mut flags = scenario.flags();
        // kube-proxy refuses an empty one.
        flags.retain(|flag| flag != "--cluster-cidr=");
        groups.entry(flags).or_default().add(scenario);
    }
    if MIXTURE.contains(&picked) {
        let list = serde_json::from_str(include_str!("../data/parity.json")).unwrap();
        let group = groups.entry(vec![format!("--cluster-cidr={CLUSTER_CIDR}")]).or_default();
        group.together.extend(endpoints_of(&list).steps);
        group.cases.push(Case { title: MIXTURE.to_owned(), list, is_first: true, flows: Vec::new() });
    }
    groups
}

impl Group {
    fn add(&mut self, scenario: Scenario) {
        for (number, step) in scenario.steps.iter().enumerate() {
            self.cases.push(Case {
                title: format!("{} ({})", scenario.name, step.title),
                list: serde_json::from_str(&to_manifests(&step.objects, &Family::ALL)).unwrap(),
                is_first: number == 0,
                flows: step.flows.clone(),
            });
        }
        self.together.extend(scenario.steps);
    }
}

/// The endpoints of a list, in words of a scenario. Nobody in the lab speaks SCTP.
fn endpoints_of(list: &Value) -> Scenario {
    let mut lines = BTreeSet::new();
    for (pod, port, protocol) in probes::endpoints(list) {
        if protocol != "SCTP" {
            lines.insert(format!("endpoint any {pod}:{port}/{}\n", protocol.to_lowercase()));
        }
    }
    Scenario::parse(MIXTURE, &String::from_iter(lines)).unwrap()
}

/// With the marker of this number.
pub(crate) fn marked(list: &Value, number: u16) -> Value {
    let mut list = list.clone();
    let items = list.get_mut("items").and_then(Value::as_array_mut).unwrap();
    for (name, ip, kind, endpoint) in
        [("v4", "10.96.0.250", "IPv4", "10.1.2.250"), ("v6", "fd00:10:96::250", "IPv6", "fd00:10:1:2::250")]
    {
        // A name of its own: only with the Service and the slice of this case there are rules that lead somewhere.
        let name = format!("{name}-{number}");
        let mut marker = service(MARKERS, &name, "", ip, &json!(number));
        marker.pointer_mut("/spec").unwrap()["ipFamilies"] = json!([kind]);
        items.push(marker);
        items.push(slice(MARKERS, &name, "", kind, endpoint, &json!(1)));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::{of_flows, of_objects};

    #[test]
    fn every_case_has_flows_to_be_tried() {
        let groups = by_flags();
        for case in groups.values().flat_map(|group| &group.cases) {
            assert!(
                !(of_objects(&case.list).is_empty() && of_flows(&case.flows, &case.list).is_empty()),
                "{}",
                case.title
            );
        }
    }

    #[test]
    fn the_endpoints_of_the_mixture_are_there() {
        let list = serde_json::from_str(include_str!("../data/parity.json")).unwrap();
        let scenario = endpoints_of(&list);
        let objects = &scenario.steps.first().unwrap().objects;
        let expected: BTreeSet<_> = probes::endpoints(&list).into_iter().map(|(pod, ..)| pod).collect();
        let found: BTreeSet<_> = objects.endpoints().map(|endpoint| endpoint.pod).collect();
        // Pod 40 of n1 speaks SCTP only.
        let missing: Vec<String> = expected.difference(&found).map(ToString::to_string).collect();
        assert_eq!(missing, ["n1.40"]);
        assert!(found.len() > 30, "{}", found.len());
    }
}
