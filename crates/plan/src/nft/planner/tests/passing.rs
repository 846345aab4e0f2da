//! Frontends, shared elements and sticky sets that pass from one owner or form to another.

use super::*;
use crate::nft::ops::to_text;

/// Two states, each with all its service ports; from one to the other in one transaction and back. What was written.
fn pass(before: &str, after: &str) -> [String; 2] {
    let [v4, _] = Family::ALL.map(|family| pass_in(family, before, after));
    v4
}

fn pass_in(family: Family, before: &str, after: &str) -> [String; 2] {
    let (one, other) = (World::new(family, before), World::new(family, after));
    let mut planner = Planner::new(Config::default(), one.book());
    let mut kernel = FakeKernel::holding(planner.ruleset());
    [(&one, &other), (&other, &one)].map(|(from, to)| {
        let mut changes: PortChanges = from.ports.iter().map(|p| (p.name.clone(), None)).collect();
        changes.extend(all(&to.ports));
        let ops = planner.partial(changes).ops;
        assert_eq!(kernel.commit(&ops), Ok(()), "{}", to_text(&ops, family));
        let fresh = Planner::new(Config::default(), to.book());
        assert_eq!(without_order(kernel.ruleset.clone()), without_order(fresh.ruleset()));
        to_text(&ops, family)
    })
}

#[test]
fn a_frontend_passes_to_another_service() {
    pass(
        "svc a/x tcp 10.96.0.1:80 ext=203.0.113.1 node=30080\n ep 10.1.0.1:80 @here",
        "svc b/x tcp 10.96.0.1:80 ext=203.0.113.1 node=30080\n ep 10.1.0.1:80 @here\n ep 10.1.0.2:80",
    );
    // Identical but for the name.
    pass(
        "svc a/x tcp 10.96.0.1:80\n ep 10.1.0.1:80 @here",
        "svc b/x tcp 10.96.0.1:80\n ep 10.1.0.1:80 @here",
    );
    // Two exchange their addresses.
    pass(
        "svc a/x tcp 10.96.0.1:80\n ep 10.1.0.1:80\n svc b/x tcp 10.96.0.2:80",
        "svc a/x tcp 10.96.0.2:80\n ep 10.1.0.1:80\n svc b/x tcp 10.96.0.1:80",
    );
}

#[test]
fn shared_elements_stay_while_somebody_needs_them() {
    let [away, back] = pass(
        "svc a/x:p tcp 10.96.0.1:80\n ep 10.1.0.1:80 @here\n svc a/x:q tcp 10.96.0.1:81\n ep 10.1.0.1:80 @here",
        "svc a/x:p tcp 10.96.0.1:80\n ep 10.1.0.1:80 @here",
    );
    for text in [away, back] {
        assert!(!text.contains("cluster-ips") && !text.contains("hairpins"), "{text}");
    }
}

#[test]
fn another_timeout_makes_new_sets() {
    let [text, _] = pass(
        "svc a/x tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.1:80",
        "svc a/x tcp 10.96.0.1:80 sticky=90\n ep 10.1.0.1:80",
    );
    assert!(text.contains("add set clients-90-") && text.contains("delete set clients-60-"), "{text}");
    assert!(!text.contains("element"), "{text}");
}

#[test]
fn affinity_comes_and_goes() {
    pass(
        "svc a/x tcp 10.96.0.1:80 node=30080 etp=local\n ep 10.1.0.1:80 @here\n ep 10.1.0.2:80",
        "svc a/x tcp 10.96.0.1:80 node=30080 etp=local sticky=60\n ep 10.1.0.1:80 @here\n ep 10.1.0.2:80",
    );
}

#[test]
fn a_removed_endpoint_takes_its_clients_along() {
    let [text, _] = pass(
        "svc a/x tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.1:80\n ep 10.1.0.2:80",
        "svc a/x tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.2:80",
    );
    assert_eq!(text.matches("delete set clients-60-").count(), 1, "{text}");
    assert!(!text.contains("add "), "{text}");
}

#[test]
fn policies_change() {
    let endpoints = "\n ep 10.1.0.1:80 @here\n ep 10.1.1.1:80 @there zones=b\n ep 10.1.1.2:80 zones=a";
    for (one, other) in [("", "etp=local"), ("itp=local", "etp=local"), ("itp=local etp=local", "")] {
        pass(
            &format!("svc a/x tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 {one}{endpoints}"),
            &format!("svc a/x tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 {other}{endpoints}"),
        );
    }
    let ranges =
        |from: &str| format!("svc a/x tcp 10.96.0.1:80 lb=198.51.100.1 from={from}\n ep 10.1.0.1:80");
    pass(&ranges("10.0.0.0/8"), &ranges("10.1.0.0/16,172.16.0.0/16"));
    pass(&ranges("10.1.0.0/16,10.1.2.0/24,10.0.0.0/8"), &ranges("10.1.2.0/24"));
}
