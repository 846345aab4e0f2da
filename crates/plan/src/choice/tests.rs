//! Every row of the decision, for both families.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use switchyard_model::Family;

use super::*;
use crate::testing::{World, arbitrary, endpoints};

/// The choice for one service port, which must be the same in both families and for all alternatives (separated by
/// `|`) of node and service.
fn check(nodes: &str, services: &str, eps: &str, expect: &Expect) {
    let mut shown = std::collections::BTreeSet::new();
    for (node, service) in nodes.split('|').flat_map(|n| services.split('|').map(move |s| (n, s))) {
        for family in Family::ALL {
            let text = format!("node {node}\nsvc shop/web tcp 10.96.0.1:80 {service}\n{eps}");
            shown.insert(show(&World::new(family, &text)));
        }
    }
    assert_eq!(shown.len(), 1, "{shown:#?}");
    expect.assert_eq(&shown.pop_first().unwrap());
}

fn show(world: &World) -> String {
    let port = &world.ports[0];
    let choice = choose(&world.settings, port);
    format!(
        "topology  {:?}, exists {}\ncluster   {}\nlocal     {}\nreachable {}\n",
        topology(&world.settings, port),
        choice.exists_somewhere,
        endpoints(&choice.cluster),
        endpoints(&choice.local),
        endpoints(&choice.reachable),
    )
}

const BOTH_LOCAL: &str = "node=30080 itp=local etp=local";

#[test]
fn no_endpoints_at_all() {
    check(
        "",
        "|itp=local|node=30080 etp=local",
        "",
        &expect![[r#"
            topology  Anywhere, exists false
            cluster   -
            local     -
            reachable -
        "#]],
    );
}

#[test]
fn only_ready_endpoints_are_used() {
    check(
        "",
        "",
        "ep 10.1.0.1:80 @here ready
         ep 10.1.0.2:80 @here starting
         ep 10.1.0.3:80 @here serving-not-ready
         ep 10.1.0.4:80 @there terminating
         ep 10.1.0.5:80 @there dead
         ep 10.1.0.6:80 @there ready-terminating
         ep 10.1.0.7:80 ready-not-serving",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.1:80 10.1.0.6:80 10.1.0.7:80
            local     -
            reachable 10.1.0.1:80 10.1.0.6:80 10.1.0.7:80
        "#]],
    );
}

#[test]
fn terminating_ones_are_the_clusters_last_resort() {
    check(
        "",
        "",
        "ep 10.1.0.1:80 @here terminating
         ep 10.1.0.2:80 @there terminating zones=b
         ep 10.1.0.3:80 @there dead
         ep 10.1.0.4:80 @there serving-not-ready",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.1:80 10.1.0.2:80
            local     -
            reachable 10.1.0.1:80 10.1.0.2:80
        "#]],
    );
}

#[test]
fn nothing_usable_means_nothing_exists() {
    check(
        "",
        "|itp=local|node=30080 itp=local etp=local",
        "ep 10.1.0.1:80 @here starting
             ep 10.1.0.2:80 @there dead
             ep 10.1.0.3:80 @there serving-not-ready",
        &expect![[r#"
                topology  Anywhere, exists false
                cluster   -
                local     -
                reachable -
            "#]],
    );
}

#[test]
fn one_ready_endpoint_without_a_hint_switches_hints_off() {
    check(
        "",
        "",
        "ep 10.1.0.1:80 zones=a nodes=here
         ep 10.1.0.2:80 zones=b nodes=there
         ep 10.1.0.3:80",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.1:80 10.1.0.2:80 10.1.0.3:80
            local     -
            reachable 10.1.0.1:80 10.1.0.2:80 10.1.0.3:80
        "#]],
    );
}

#[test]
fn hints_of_endpoints_that_are_not_ready_do_not_count() {
    check(
        "",
        "",
        "ep 10.1.0.1:80 zones=b
         ep 10.1.0.2:80 zones=a
         ep 10.1.0.3:80 starting
         ep 10.1.0.4:80 terminating",
        &expect![[r#"
            topology  SameZone, exists true
            cluster   10.1.0.2:80
            local     -
            reachable 10.1.0.2:80
        "#]],
    );
    check(
        "",
        "",
        "ep 10.1.0.1:80 zones=b
         ep 10.1.0.2:80 zones=a starting
         ep 10.1.0.3:80 nodes=here terminating",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.1:80
            local     -
            reachable 10.1.0.1:80
        "#]],
    );
}

#[test]
fn node_comes_before_zone() {
    check(
        "",
        "",
        "ep 10.1.0.1:80 zones=a nodes=here
         ep 10.1.0.2:80 zones=a nodes=there
         ep 10.1.0.3:80 zones=b nodes=there,here",
        &expect![[r#"
            topology  SameNode, exists true
            cluster   10.1.0.1:80 10.1.0.3:80
            local     -
            reachable 10.1.0.1:80 10.1.0.3:80
        "#]],
    );
}

#[test]
fn zone_counts_where_nodes_do_not_decide() {
    // No node hint names this node.
    check(
        "",
        "",
        "ep 10.1.0.1:80 zones=a,b nodes=there
         ep 10.1.0.2:80 zones=b nodes=there",
        &expect![[r#"
            topology  SameZone, exists true
            cluster   10.1.0.1:80
            local     -
            reachable 10.1.0.1:80
        "#]],
    );
    // One endpoint has no node hint.
    check(
        "",
        "",
        "ep 10.1.0.1:80 zones=a
         ep 10.1.0.2:80 zones=b nodes=here",
        &expect![[r#"
            topology  SameZone, exists true
            cluster   10.1.0.1:80
            local     -
            reachable 10.1.0.1:80
        "#]],
    );
}

#[test]
fn without_an_endpoint_in_the_zone_or_without_a_zone_all_are_used() {
    check(
        "zone=c|zone=",
        "",
        "ep 10.1.0.1:80 zones=a
             ep 10.1.0.2:80 zones=b",
        &expect![[r#"
                topology  Anywhere, exists true
                cluster   10.1.0.1:80 10.1.0.2:80
                local     -
                reachable 10.1.0.1:80 10.1.0.2:80
            "#]],
    );
}

#[test]
fn local_policy_for_everything_uses_nothing_else() {
    check(
        "",
        "itp=local etp=local",
        "ep 10.1.0.1:80 @here
         ep 10.1.0.2:80 @there
         ep 10.1.0.3:80",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   -
            local     10.1.0.1:80
            reachable 10.1.0.1:80
        "#]],
    );
}

#[test]
fn local_policy_without_a_local_endpoint_knows_of_others() {
    check(
        "",
        "itp=local",
        "ep 10.1.0.2:80 @there",
        &expect![[r#"
        topology  Anywhere, exists true
        cluster   -
        local     -
        reachable -
    "#]],
    );
    check(
        "",
        "itp=local",
        "ep 10.1.0.2:80 @there terminating",
        &expect![[r#"
        topology  Anywhere, exists true
        cluster   -
        local     -
        reachable -
    "#]],
    );
}

#[test]
fn local_policy_ignores_hints_and_reaches_both_lists() {
    check(
        "",
        "node=30080 etp=local",
        "ep 10.1.0.1:80 @here zones=b
         ep 10.1.0.2:80 @there zones=a
         ep 10.1.0.3:80 @there zones=b",
        &expect![[r#"
            topology  SameZone, exists true
            cluster   10.1.0.2:80
            local     10.1.0.1:80
            reachable 10.1.0.1:80 10.1.0.2:80
        "#]],
    );
    check(
        "",
        BOTH_LOCAL,
        "ep 10.1.0.1:80 @here nodes=there
         ep 10.1.0.2:80 @there nodes=here
         ep 10.1.0.3:80 @there nodes=there",
        &expect![[r#"
            topology  SameNode, exists true
            cluster   10.1.0.2:80
            local     10.1.0.1:80
            reachable 10.1.0.1:80 10.1.0.2:80
        "#]],
    );
}

#[test]
fn last_resorts_are_decided_separately() {
    // The node has only a terminating one, the cluster a ready one.
    check(
        "",
        "node=30080 etp=local",
        "ep 10.1.0.1:80 @here terminating
         ep 10.1.0.2:80 @there
         ep 10.1.0.3:80 @here dead",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.2:80
            local     10.1.0.1:80
            reachable 10.1.0.1:80 10.1.0.2:80
        "#]],
    );
    // Nobody is ready: the cluster's list holds the node's.
    check(
        "",
        BOTH_LOCAL,
        "ep 10.1.0.1:80 @here terminating
         ep 10.1.0.2:80 @there terminating",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.1:80 10.1.0.2:80
            local     10.1.0.1:80
            reachable 10.1.0.1:80 10.1.0.2:80
        "#]],
    );
    // The node has a ready one: its terminating one is not used.
    check(
        "",
        BOTH_LOCAL,
        "ep 10.1.0.1:80 @here terminating
         ep 10.1.0.2:80 @here ready-terminating",
        &expect![[r#"
            topology  Anywhere, exists true
            cluster   10.1.0.2:80
            local     10.1.0.2:80
            reachable 10.1.0.2:80
        "#]],
    );
}

#[test]
fn external_policy_counts_only_with_external_frontends() {
    check(
        "",
        "etp=local",
        "ep 10.1.0.1:80 @here\nep 10.1.0.2:80 @there",
        &expect![[r#"
        topology  Anywhere, exists true
        cluster   10.1.0.1:80 10.1.0.2:80
        local     -
        reachable 10.1.0.1:80 10.1.0.2:80
    "#]],
    );
    check(
        "",
        "etp=local node=30080|etp=local ext=203.0.113.1|etp=local lb=198.51.100.1",
        "ep 10.1.0.1:80 @here\nep 10.1.0.2:80 @there",
        &expect![[r#"
                topology  Anywhere, exists true
                cluster   10.1.0.1:80 10.1.0.2:80
                local     10.1.0.1:80
                reachable 10.1.0.1:80 10.1.0.2:80
            "#]],
    );
}

proptest! {
    /// What other code relies on, whatever the endpoints look like.
    #[test]
    fn lists_are_ordered_parts_of_what_is_reachable(
        (settings, port) in arbitrary::family()
            .prop_flat_map(|f| (arbitrary::any_settings(f), arbitrary::service_port(f, 0)))
    ) {
        let choice = choose(&settings, &port);
        for list in [&choice.cluster, &choice.local, &choice.reachable] {
            let in_order: Vec<&Endpoint> =
                port.endpoints.iter().filter(|e| list.contains(e)).collect();
            prop_assert_eq!(&in_order, list);
            prop_assert!(list.iter().all(|e| e.is_ready() || e.is_serving_terminating()));
        }
        prop_assert!(choice.cluster.iter().chain(&choice.local).all(|e| choice.reachable.contains(e)));
        prop_assert!(choice.reachable.iter().all(|e| choice.cluster.contains(e) || choice.local.contains(e)));
        prop_assert!(choice.local.iter().all(|e| e.is_on("here")));
        let usable = port.endpoints.iter().any(|e| e.is_ready() || e.is_serving_terminating());
        prop_assert_eq!(choice.exists_somewhere, usable);
        prop_assert_eq!(choice.cluster.is_empty(), !(port.uses_cluster_endpoints() && usable));
    }
}
