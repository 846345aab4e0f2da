//! Incremental equals full, the kernel takes every transaction, nothing is written twice, and cost follows the change.

use std::net::SocketAddr;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::nft::fake::FakeKernel;
use crate::nft::slots::MIDDLE;
use crate::settings::Settings;
use crate::testing::packets::packets;
use crate::testing::{World, all, arbitrary, node_addresses};

mod adoption;
mod counts;
mod growth;
mod passing;

type PortChange = (ServicePortName, Option<ServicePort>);

fn empty(settings: Settings) -> Planner {
    Planner::new(Config::default(), Book::new(settings))
}

fn changes(list: &[PortChange]) -> PortChanges {
    list.iter().map(|(name, port)| (name.clone(), port.clone().map(Arc::new))).collect()
}

/// A change, with one of two timeouts where there is affinity.
fn change(family: Family) -> impl Strategy<Value = PortChange> {
    (arbitrary::change(family), select(vec![60, 120])).prop_map(|((name, mut port), seconds)| {
        if let Some(port) = &mut port {
            port.affinity = port.affinity.map(|_| seconds);
        }
        (name, port)
    })
}

fn worlds() -> impl Strategy<Value = (Settings, Vec<Vec<PortChange>>)> {
    arbitrary::family().prop_flat_map(|f| {
        let batch = proptest::collection::vec(change(f), 0..4);
        (arbitrary::any_settings(f), proptest::collection::vec(batch, 1..7))
    })
}

/// Endpoints of each frontend by side of the middle, in order, and its slots.
type Pools = BTreeMap<(Set, String), (Vec<u16>, Vec<SocketAddr>, Vec<SocketAddr>)>;

/// A ruleset whose slots are compared without regard to who has which.
fn without_order(mut ruleset: Ruleset) -> (Ruleset, Pools) {
    let mut pools = Pools::new();
    ruleset.elements.retain(|place, data| {
        let (frontend, slot) = match place.key {
            Key::Slot(ip, protocol, port, slot) => (format!("{ip} {protocol} {port}"), slot),
            Key::NodePortSlot(protocol, port, slot) => (format!("{protocol} {port}"), slot),
            _ => return true,
        };
        let (slots, far, near) = pools.entry((place.set, frontend)).or_default();
        slots.push(slot);
        let Data::Endpoint(endpoint) = data else { panic!("{place:?} has no endpoint") };
        if slot < MIDDLE {
            far.push(*endpoint)
        } else {
            near.push(*endpoint)
        }
        false
    });
    for (_, far, near) in pools.values_mut() {
        far.sort();
        near.sort();
    }
    (ruleset, pools)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn incremental_is_full(
        (settings, batches) in worlds(),
        some in proptest::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let mut planner = empty(settings.clone());
        let mut kernel = FakeKernel::holding(planner.ruleset());
        for batch in &batches {
            let partial = planner.partial(changes(batch));
            prop_assert_eq!(kernel.commit(&partial.ops), Ok(()));
            prop_assert_eq!(&kernel.ruleset, &planner.ruleset());
            prop_assert_eq!(&kernel.ruleset.chains, &planner.chains());
            // The same again is nothing.
            let again = planner.partial(changes(batch));
            prop_assert!(again.ops.is_empty() && again.replaced.is_empty() && again.planned == 0);
        }
        // A planner that only ever saw the end.
        let family = settings.family;
        let mut book = Book::new(settings);
        batches.iter().for_each(|batch| { book.update(changes(batch)); });
        let fresh = Planner::new(Config::default(), book);
        prop_assert_eq!(without_order(planner.ruleset()), without_order(fresh.ruleset()));
        prop_assert_eq!(planner.silent(), fresh.silent());
        prop_assert_eq!((&planner.shapes, &planner.shared), (&fresh.shapes, &fresh.shared));
        let (node, packets) = (node_addresses(family), packets(family));
        for packet in some.iter().map(|i| i.get(&packets)) {
            prop_assert_eq!(kernel.ruleset.trace(&node, packet), fresh.ruleset().trace(&node, packet));
        }
        // Everything can go, and nothing is left of it.
        let gone = planner.book().ports().keys().map(|name| (name.clone(), None)).collect();
        prop_assert_eq!(kernel.commit(&planner.partial(gone).ops), Ok(()));
        prop_assert_eq!(&kernel.ruleset, &empty(planner.book().settings().clone()).ruleset());
        prop_assert!(planner.slots.is_empty() && planner.shapes.is_empty() && planner.shared.is_empty());
    }

    #[test]
    fn order_of_events_does_not_matter(
        ports in arbitrary::family().prop_flat_map(arbitrary::service_ports),
        order in Just((0..arbitrary::SERVICES).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let settings = crate::testing::settings(ports[0].family);
        let mut all_at_once = empty(settings.clone());
        all_at_once.partial(all(&ports));
        let mut one_by_one = empty(settings);
        for i in order {
            one_by_one.partial(all(&ports[i..=i]));
        }
        prop_assert_eq!(all_at_once.ruleset(), one_by_one.ruleset());
    }
}

#[test]
fn what_is_set_aside_is_not_in_the_ruleset() {
    let world = World::new(
        Family::V4,
        "svc a/x tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.1:80 @here\n svc b/x tcp 10.96.0.2:80\n ep 10.1.0.1:80 @here",
    );
    let mut planner = Planner::new(Config::default(), world.book());
    let all_there = planner.ruleset();
    let name = world.ports[0].name.clone();
    planner.reset(|book, _| book.quarantine(&name, None, "refused".into()));
    let mut without = empty(world.settings.clone());
    without.partial(all(&world.ports[1..]));
    assert_eq!(planner.ruleset(), without.ruleset());
    // The next change of another port is planned as if it had never been there.
    let mut other = world.ports[1].clone();
    other.endpoints.clear();
    let mut kernel = FakeKernel::holding(planner.ruleset());
    assert_eq!(kernel.commit(&planner.partial(all(&[other])).ops), Ok(()));
    assert_eq!(kernel.ruleset, planner.ruleset());
    planner.partial(all(&world.ports[1..]));
    planner.reset(|book, _| book.readmit());
    assert_eq!(planner.ruleset(), all_there);
}

/// Names come from users: none of their bytes may be in a name or text of ours.
#[test]
fn hostile_names_never_reach_the_ruleset() {
    let mut world = World::new(Family::V4, "svc a/x tcp 10.96.0.1:80 node=30080 sticky=60\n ep 10.1.0.1:80");
    let port = &mut world.ports[0];
    port.name.service.namespace = "\"; flush ruleset; #".into();
    port.name.service.name = "}\u{0}\n".repeat(300).into();
    port.name.port = "$(reboot)".into();
    let mut planner = empty(world.settings.clone());
    let ops = planner.partial(all(&world.ports)).ops;
    let text =
        format!("{}{}", planner.ruleset().to_text(Family::V4), crate::nft::ops::to_text(&ops, Family::V4));
    assert!(!text.contains("flush") && !text.contains("reboot") && !text.contains('\u{0}'));
    let ruleset = planner.ruleset();
    let is_plain = |name: &String| {
        name.len() < 64 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    assert!(ruleset.chains.keys().chain(ruleset.clients.keys()).all(is_plain));
}

#[test]
fn names_that_print_alike_do_not_collide() {
    let world = World::new(Family::V4, "svc a/x:y tcp 10.96.0.1:80 sticky=60\n ep 10.1.0.1:80");
    let mut twin = world.ports[0].clone();
    twin.name.service.name = "x:y".into();
    twin.name.port = "".into();
    twin.cluster_ip = IpAddr::from([10, 96, 0, 2]);
    assert_eq!(twin.name.to_string(), world.ports[0].name.to_string());
    let mut planner = Planner::new(Config::default(), world.book());
    let mut kernel = FakeKernel::holding(planner.ruleset());
    assert_eq!(kernel.commit(&planner.partial(all(&[twin])).ops), Ok(()));
    assert_eq!(kernel.ruleset.clients.len(), 2);
}
