//! Feature gates: which names are known, which are fixed, and what is on.
//!
//! The list in `gates.txt` is that of kube-proxy 1.36: name, default, `locked` or `free`, stage, and the gates that it
//! needs. Most have no meaning for a proxy; they are known so that a cluster's configuration is accepted as it is.

use std::collections::BTreeMap;

use crate::problem::{Problem, clip};

const LIST: &str = include_str!("gates.txt");

/// Gates that this program acts on.
pub const HONOURED: [&str; 6] = [
    "AllowServiceExternalIPs",
    "ComponentFlagz",
    "ComponentStatusz",
    "LoggingAlphaOptions",
    "MultiCIDRServiceAllocator",
    "PreferSameTrafficDistribution",
];

/// One line of the list.
#[derive(Clone, Copy)]
struct Gate<'a> {
    name: &'a str,
    default: bool,
    is_locked: bool,
    stage: &'a str,
    needs: &'a str,
}

fn gate(line: &'static str) -> Option<Gate<'static>> {
    let mut words = line.splitn(5, ' ');
    Some(Gate {
        name: words.next()?,
        default: words.next()? == "true",
        is_locked: words.next()? == "locked",
        stage: words.next()?,
        needs: words.next().unwrap_or_default(),
    })
}

fn known(name: &str) -> Option<Gate<'static>> {
    LIST.lines().filter_map(gate).find(|gate| gate.name == name)
}

/// True if a gate is on, given those that were set. An unknown one is off.
pub fn is_on(name: &str, given: &BTreeMap<String, bool>) -> bool {
    let Some(gate) = known(name) else { return false };
    let of_stage = match gate.stage {
        "ALPHA" => given.get("AllAlpha"),
        "BETA" => given.get("AllBeta"),
        _ => None,
    };
    given.get(name).or(of_stage).copied().unwrap_or(gate.default)
}

/// Every gate with its stage (`ALPHA`, `BETA`, `GA` or `DEPRECATED`) and whether it is on, in order.
pub fn all(given: &BTreeMap<String, bool>) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    LIST.lines().filter_map(gate).map(|gate| (gate.name, gate.stage, is_on(gate.name, given)))
}

/// Gates that were set and have no effect here, in order.
pub fn without_effect(given: &BTreeMap<String, bool>) -> Vec<&str> {
    given.keys().map(String::as_str).filter(|name| !HONOURED.contains(name)).collect()
}

/// What is wrong with the gates that were set: unknown, fixed, or in need of another that is off.
pub(crate) fn check(given: &BTreeMap<String, bool>) -> Vec<Problem> {
    let path = |name: &str| format!("featureGates.{}", clip(name));
    let mut problems = Vec::new();
    for (name, value) in given {
        match known(name) {
            None => problems.push(Problem::new(path(name), value, "unrecognized feature gate")),
            Some(gate) if gate.is_locked && gate.default != *value => {
                let allowed = format!("the feature is locked to {}", gate.default);
                problems.push(Problem::new(path(name), value, allowed));
            }
            Some(_) => {}
        }
    }
    if problems.is_empty() && !given.is_empty() {
        problems.extend(LIST.lines().filter_map(gate).filter_map(|gate| unmet(&gate, given)));
    }
    problems
}

/// A gate that is on while one that it needs is off.
fn unmet(gate: &Gate<'_>, given: &BTreeMap<String, bool>) -> Option<Problem> {
    let off: Vec<&str> = gate.needs.split_whitespace().filter(|need| !is_on(need, given)).collect();
    if off.is_empty() || !is_on(gate.name, given) {
        return None;
    }
    let allowed = format!("depends on features that are disabled: {}", off.join(", "));
    Some(Problem::new(format!("featureGates.{}", gate.name), true, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(list: &[(&str, bool)]) -> BTreeMap<String, bool> {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_list_is_whole() {
        let gates: Vec<Gate<'_>> = LIST.lines().filter_map(gate).collect();
        assert_eq!(gates.len(), LIST.lines().count());
        for gate in &gates {
            assert!(["ALPHA", "BETA", "GA", "DEPRECATED"].contains(&gate.stage), "{}", gate.name);
            for need in gate.needs.split_whitespace() {
                assert!(known(need).is_some(), "{} needs {need}", gate.name);
            }
        }
        for name in HONOURED {
            assert!(known(name).is_some(), "{name}");
        }
        assert_eq!(check(&given(&[("AllBeta", true)])), []);
    }

    #[test]
    fn unknown_locked_and_unmet_gates_are_refused_together() {
        let text = |list: &[(&str, bool)]| -> Vec<String> {
            check(&given(list)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            text(&[("Foo", true), ("NFTablesProxyMode", false), ("NativeHistograms", true)]),
            [
                "featureGates.Foo: invalid value true: unrecognized feature gate",
                "featureGates.NFTablesProxyMode: invalid value false: the feature is locked to true",
            ]
        );
        assert_eq!(text(&[("NFTablesProxyMode", true)]), [""; 0]);
        let unmet = text(&[("AllAlpha", true), ("AllBeta", false)]);
        assert_eq!(unmet.len(), 3, "{unmet:?}");
        assert!(unmet[0].contains("PodLevelResourceManagers") && unmet[0].ends_with("PodLevelResources"));
    }

    #[test]
    fn a_gate_is_as_set_or_as_its_stage_or_as_always() {
        assert!(!is_on("LoggingAlphaOptions", &given(&[])));
        assert!(is_on("LoggingAlphaOptions", &given(&[("AllAlpha", true)])));
        assert!(!is_on("LoggingAlphaOptions", &given(&[("AllAlpha", true), ("LoggingAlphaOptions", false)])));
        assert!(is_on("ComponentFlagz", &given(&[])));
        assert!(!is_on("ComponentFlagz", &given(&[("AllBeta", false)])));
        assert!(is_on("AllowServiceExternalIPs", &given(&[("AllBeta", false)])));
        assert!(!is_on("Foo", &given(&[("Foo", true)])));
        assert_eq!(
            without_effect(&given(&[("AtomicFIFO", true), ("LoggingAlphaOptions", true)])),
            ["AtomicFIFO"]
        );
    }
}
