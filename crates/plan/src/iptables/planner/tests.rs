//! Incremental equals full, nothing is written twice, and cost follows the change.

use std::sync::Arc;

use proptest::prelude::*;
use switchyard_model::{Endpoint, Family};

use super::*;
use crate::settings::Settings;
use crate::testing::kernel::FakeKernel;
use crate::testing::{World, address, all, arbitrary, settings, socket};

mod hostile;
mod quarantine;

type Change = (ServicePortName, Option<ServicePort>);

fn empty(settings: Settings) -> Planner {
    Planner::new(Config::default(), Book::new(settings))
}

fn changes(list: &[Change]) -> PortChanges {
    list.iter().map(|(name, port)| (name.clone(), port.clone().map(Arc::new))).collect()
}

/// A full sync. The kernel refuses a jump into nothing after every step.
fn sync(planner: &mut Planner, kernel: &mut FakeKernel, limit: usize) {
    for step in planner.full(&kernel.chains("nat"), limit) {
        let text = planner.render(&step).restore.text();
        assert_eq!(kernel.restore(&text), Ok(()), "{text}");
    }
}

fn assert_counts(planner: &Planner, kernel: &FakeKernel) {
    let counts = planner.counts();
    assert_eq!((counts.filter, counts.nat), (kernel.rules("filter"), kernel.rules("nat")));
}

fn worlds() -> impl Strategy<Value = (Settings, Vec<Vec<Change>>)> {
    arbitrary::family().prop_flat_map(|f| {
        let batch = proptest::collection::vec(arbitrary::change(f), 0..4);
        (arbitrary::any_settings(f), proptest::collection::vec(batch, 1..6))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn incremental_is_full((settings, batches) in worlds(), limit in 0..8_usize) {
        let mut planner = empty(settings.clone());
        let mut kernel = FakeKernel::default();
        sync(&mut planner, &mut kernel, limit);
        for batch in &batches {
            let partial = planner.partial(changes(batch));
            prop_assert_eq!(kernel.restore(&partial.batch.restore.text()), Ok(()));
            assert_counts(&planner, &kernel);
            // The same again is nothing.
            let again = planner.partial(changes(batch));
            prop_assert!(again.batch.restore.is_empty() && again.replaced.is_empty());
            prop_assert_eq!(again.batch.planned, 0);
        }
        // A planner that only ever saw the end, with a fresh kernel.
        let mut fresh = empty(settings);
        for batch in &batches {
            fresh.book_mut().update(changes(batch));
        }
        let mut fresh_kernel = FakeKernel::default();
        sync(&mut fresh, &mut fresh_kernel, limit);
        prop_assert_eq!(&kernel, &fresh_kernel);
        prop_assert_eq!(planner.counts(), fresh.counts());
        // A full sync over the incremental result changes nothing, in one step or in many.
        for limit in [limit, usize::MAX] {
            let before = kernel.clone();
            sync(&mut planner, &mut kernel, limit);
            prop_assert_eq!(&kernel, &before);
            prop_assert_eq!(planner.counts(), fresh.counts());
        }
    }

    /// Whatever an earlier run left, a full sync in steps of any size ends with what is wanted and nothing else.
    #[test]
    fn full_sync_replaces_what_an_earlier_run_left(
        (settings, before, after) in arbitrary::family().prop_flat_map(|f| {
            let ports = || proptest::sample::subsequence((0..6).collect::<Vec<_>>(), 0..=6)
                .prop_flat_map(move |some| {
                    some.into_iter().map(|i| arbitrary::service_port(f, i)).collect::<Vec<_>>()
                });
            (arbitrary::any_settings(f), ports(), ports())
        }),
        limit in 0..8_usize,
    ) {
        let mut old = empty(settings.clone());
        old.book_mut().update(all(&before));
        let mut kernel = FakeKernel::default();
        sync(&mut old, &mut kernel, usize::MAX);

        let mut planner = empty(settings.clone());
        planner.book_mut().update(all(&after));
        let mut fresh_kernel = FakeKernel::default();
        sync(&mut planner.clone(), &mut fresh_kernel, usize::MAX);
        sync(&mut planner, &mut kernel, limit);
        prop_assert_eq!(&kernel, &fresh_kernel);
        assert_counts(&planner, &kernel);

        // The same for a planner that lived through it.
        let mut gone: PortChanges = old.book().ports().keys().map(|n| (n.clone(), None)).collect();
        gone.extend(all(&after));
        old.book_mut().update(gone);
        sync(&mut old, &mut kernel, limit);
        prop_assert_eq!(&kernel, &fresh_kernel);
        assert_counts(&old, &kernel);
    }

    #[test]
    fn order_of_events_does_not_matter(
        ports in arbitrary::family().prop_flat_map(arbitrary::service_ports),
        order in Just((0..arbitrary::SERVICES).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let family = ports[0].family;
        let mut all_at_once = empty(settings(family));
        all_at_once.book_mut().update(all(&ports));
        let mut one_by_one = empty(settings(family));
        for i in order {
            one_by_one.partial(all(&ports[i..=i]));
        }
        let text = |planner: &mut Planner| {
            let steps = planner.full(&BTreeSet::new(), 100);
            steps.iter().map(|step| planner.render(step).restore.text()).collect::<String>()
        };
        prop_assert_eq!(text(&mut all_at_once), text(&mut one_by_one));
        prop_assert_eq!(all_at_once.ruleset(), one_by_one.ruleset());
    }
}

/// A cluster of that many service ports with two endpoints each.
fn cluster(ports: usize) -> Vec<ServicePort> {
    let template = World::new(
        Family::V4,
        "svc shop/web tcp 10.96.0.1:80 node=30000 ext=203.0.113.1\n ep 10.1.0.1:80\n ep 10.1.0.2:80",
    );
    let one = |i: usize| {
        let mut port = template.ports[0].clone();
        let [a, b] = u16::try_from(i).unwrap().to_be_bytes();
        port.name.service.name = format!("web{i}").into();
        port.cluster_ip = address(Family::V4, &format!("10.96.{a}.{b}"));
        port.external_ips = vec![address(Family::V4, &format!("203.0.{a}.{b}"))];
        port.node_port = Some(u16::try_from(30000 + i).unwrap());
        port
    };
    (0..ports).map(one).collect()
}

#[test]
fn the_cost_of_one_endpoint_does_not_grow_with_the_cluster() {
    let cost = |size: usize| {
        let ports = cluster(size);
        let mut planner = empty(settings(Family::V4));
        planner.book_mut().update(all(&ports));
        let mut changed = ports[size / 2].clone();
        changed.endpoints[0].address = socket(Family::V4, "10.1.9.9:80");
        let partial = planner.partial(all(&[changed]));
        assert_eq!(partial.replaced.len(), 1);
        (partial.batch.planned, partial.batch.restore.lines())
    };
    // Table, two chains written, one deleted, two endpoint rules, two balancing rules, -X, COMMIT.
    assert_eq!(cost(1_000), (1, 10));
    assert_eq!(cost(10_000), (1, 10));
}

#[test]
fn a_shared_chain_is_written_only_if_it_differs() {
    let world = World::new(
        Family::V4,
        "svc a/x tcp 10.96.0.1:80 node=30080\n ep 10.1.0.1:80\n svc b/x tcp 10.96.0.2:80\n ep 10.1.0.1:80",
    );
    let mut planner = world.planner();
    let mut port = world.ports[1].clone();
    port.endpoints.clear();
    let text = planner.partial(all(&[port])).batch.restore.text();
    let chains: Vec<&str> = text.lines().filter(|l| l.starts_with('*') || l.starts_with(':')).collect();
    assert_eq!(chains[..3], ["*filter", ":KUBE-SERVICES - [0:0]", "*nat"]);
    assert_eq!(chains[3], ":KUBE-SERVICES - [0:0]");
    assert!(chains[4..].iter().all(|c| names_of_ports(c)), "{chains:?}");
}

fn names_of_ports(line: &str) -> bool {
    line.starts_with(":KUBE-SVC-") || line.starts_with(":KUBE-SEP-")
}

#[test]
fn exactly_the_stale_chains_of_service_ports_are_deleted() {
    const STALE: [&str; 5] = [
        "KUBE-EXT-AAAAAAAAAAAAAAAA",
        "KUBE-FW-AAAAAAAAAAAAAAAA",
        "KUBE-SEP-AAAAAAAAAAAAAAAA",
        "KUBE-SVC-AAAAAAAAAAAAAAAA",
        "KUBE-SVL-AAAAAAAAAAAAAAAA",
    ];
    const FOREIGN: [&str; 8] = [
        "CNI-KUBE-SVC-1",
        "CNI-0123456789abcdef",
        "KUBE-SERVICES-2",
        "KUBE-KUBELET-CANARY",
        "KUBE-FIREWALL",
        "KUBE-SVC",
        "kube-svc-x",
        "cali-KUBE-SEP-1",
    ];
    let world = World::new(Family::V4, "svc a/x tcp 10.96.0.1:80 node=30080\n ep 10.1.0.1:80");
    for limit in [1, 2, 100] {
        let mut planner = world.planner();
        let mut kernel = FakeKernel::default();
        sync(&mut planner, &mut kernel, 100);
        let wanted = kernel.clone();
        let mut existing = kernel.chains("nat");
        existing.extend(STALE.iter().chain(&FOREIGN).map(|s| s.to_string()));
        let lines: String = existing.iter().map(|c| format!(":{c} - [0:0]\n")).collect();
        // As an earlier run left them: each refers to the next.
        let rules = "-A KUBE-FW-AAAAAAAAAAAAAAAA -j KUBE-EXT-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-EXT-AAAAAAAAAAAAAAAA -j KUBE-SVL-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SVL-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SERVICES -j KUBE-FW-AAAAAAAAAAAAAAAA
-A CNI-KUBE-SVC-1 -j ACCEPT";
        assert_eq!(kernel.restore(&format!("*nat\n{lines}{rules}\nCOMMIT\n")), Ok(()));
        let mut written = String::new();
        for step in planner.full(&kernel.chains("nat"), limit) {
            let text = planner.render(&step).restore.text();
            assert_eq!(kernel.restore(&text), Ok(()), "limit {limit}");
            written += &text;
        }
        for stale in STALE {
            assert_eq!(written.matches(&format!("-X {stale}\n")).count(), 1);
        }
        assert_eq!(written.matches("-X ").count(), STALE.len());
        for foreign in FOREIGN {
            assert!(!written.contains(&format!("{foreign} ")) && !written.contains(&format!("{foreign}\n")));
            assert!(kernel.chains("nat").contains(foreign));
        }
        assert_eq!(kernel.chain("nat", "CNI-KUBE-SVC-1"), ["-j ACCEPT"]);
        for chain in wanted.chains("nat") {
            assert_eq!(kernel.chain("nat", &chain), wanted.chain("nat", &chain));
        }
    }
}

#[test]
fn silent_frontends_are_counted_per_service_port() {
    let world = World::new(
        Family::V4,
        "svc a/x tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 itp=local etp=local\n ep 10.1.1.1:80 @there
         svc b/x tcp 10.96.0.2:80 itp=local\n ep 10.1.1.1:80 @there
         svc c/x tcp 10.96.0.3:80 itp=local etp=local node=30081",
    );
    let mut planner = world.planner();
    sync(&mut planner, &mut FakeKernel::default(), 1);
    let counts = planner.counts();
    assert_eq!((counts.silent_internal, counts.silent_external), (2, 1));
}

/// The change that crosses the limit for comments does not rewrite the whole cluster: rules stay right, their comments
/// follow when they are written next.
#[test]
fn crossing_the_limit_for_comments_costs_nothing() {
    let ports = cluster(500);
    let mut planner = empty(settings(Family::V4));
    planner.book_mut().update(all(&ports));
    let mut kernel = FakeKernel::default();
    sync(&mut planner, &mut kernel, usize::MAX);
    let mut changed = ports[7].clone();
    let third = Endpoint { address: socket(Family::V4, "10.1.9.9:80"), ..changed.endpoints[0].clone() };
    changed.endpoints.push(third);
    let partial = planner.partial(all(&[changed]));
    assert_eq!(partial.batch.planned, 1);
    assert_eq!(kernel.restore(&partial.batch.restore.text()), Ok(()));
    assert_counts(&planner, &kernel);
    let incremental = kernel.clone();
    sync(&mut planner, &mut kernel, usize::MAX);
    assert_ne!(kernel, incremental);
    assert_eq!(kernel.without_comments(), incremental.without_comments());
}
