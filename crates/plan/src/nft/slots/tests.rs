//! Few endpoints move, and pools have no gaps.

use std::collections::BTreeMap;

use proptest::prelude::*;
use switchyard_model::{Endpoint, Family, ServicePort};

use super::*;
use crate::testing::{World, arbitrary, plain_socket};

fn settle(before: &Slots, port: &ServicePort, world: &World) -> Slots {
    before.settle(&crate::route::routes(&world.settings, port, |_| false))
}

/// Slots of a world's only service port after each step; a step is the list of its endpoints.
fn check(service: &str, steps: &[&[&str]], wanted: &[&str]) {
    for family in Family::ALL {
        let mut slots = Slots::default();
        for (endpoints, wanted) in steps.iter().zip(wanted) {
            let lines: Vec<String> = endpoints.iter().map(|e| format!("ep {e}")).collect();
            let world =
                World::new(family, &format!("svc a/x tcp 10.96.0.1:80 {service}\n{}", lines.join("\n")));
            slots = settle(&slots, &world.ports[0], &world);
            let show = |(slot, at): &(u16, SocketAddr)| {
                format!(
                    "{}={}",
                    i32::from(*slot),
                    plain_socket(*at).ip().to_string().rsplit('.').next().unwrap()
                )
            };
            assert_eq!(slots.placed().iter().map(show).collect::<Vec<_>>().join(" "), *wanted);
        }
    }
}

#[test]
fn endpoints_keep_their_slots() {
    const ONE: &str = "10.1.0.1:80";
    const TWO: &str = "10.1.0.2:80";
    const THREE: &str = "10.1.0.3:80";
    const FOUR: &str = "10.1.0.4:80";
    check(
        "",
        &[&[ONE, TWO, THREE], &[ONE, TWO, THREE, FOUR], &[TWO, THREE, FOUR], &[TWO, FOUR], &[ONE, FOUR], &[]],
        &["0=1 1=2 2=3", "0=1 1=2 2=3 3=4", "0=4 1=2 2=3", "0=4 1=2", "0=4 1=1", ""],
    );
}

#[test]
fn pools_of_a_local_policy_share_their_slots() {
    const NEAR: [&str; 3] = ["10.1.0.1:80 @here", "10.1.0.2:80 @here", "10.1.0.3:80 @here"];
    const FAR: [&str; 3] = ["10.1.1.4:80 @there", "10.1.1.5:80 @there", "10.1.1.6:80 @there"];
    check(
        "node=30080 etp=local",
        &[
            &[NEAR[0], NEAR[1], FAR[0], FAR[1]],
            &[NEAR[1], FAR[0], FAR[1], FAR[2]],
            &[NEAR[1], NEAR[2], FAR[1], FAR[2]],
        ],
        &[
            "32766=4 32767=5 32768=1 32769=2",
            "32765=6 32766=4 32767=5 32768=2",
            "32766=6 32767=5 32768=2 32769=3",
        ],
    );
}

fn numbered(count: usize, node: &str) -> Vec<Endpoint> {
    let template = World::new(Family::V4, &format!("svc a/x tcp 10.96.0.1:80\nep 10.1.0.1:80 @{node}"));
    let one = |i: usize| Endpoint {
        address: SocketAddr::from(([10, 2, 0, 0], u16::try_from(i % 65_536).unwrap())),
        ..template.ports[0].endpoints[0].clone()
    };
    (0..count).map(one).collect()
}

#[test]
fn a_pool_is_never_larger_than_its_slots() {
    for (service, node) in
        [("", "there"), ("etp=local node=30080", "here"), ("etp=local node=30080", "there")]
    {
        let mut world = World::new(Family::V4, &format!("svc a/x tcp 10.96.0.1:80 {service}"));
        world.ports[0].endpoints = numbered(MAX + 5, node);
        let slots = settle(&Slots::default(), &world.ports[0], &world);
        assert_eq!((slots.left_out(), slots.placed().len()), (5, MAX), "{service} {node}");
        world.ports[0].endpoints = numbered(MAX, node);
        let slots = settle(&slots, &world.ports[0], &world);
        assert_eq!((slots.left_out(), slots.placed().len()), (0, MAX));
        let filled = slots.window(Pool::Cluster).slots().count();
        assert_eq!(filled, MAX);
    }
}

fn by_slot(slots: &Slots) -> BTreeMap<u16, SocketAddr> {
    slots.placed().iter().copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Each window holds exactly its pool; one change alters at most three slots.
    #[test]
    fn windows_hold_their_pools(
        ports in proptest::collection::vec(arbitrary::service_port(Family::V4, 0), 1..5),
        gone in any::<prop::sample::Index>(),
    ) {
        let world = World::new(Family::V4, "");
        let mut slots = Slots::default();
        for port in &ports {
            slots = settle(&slots, port, &world);
            let routes = crate::route::routes(&world.settings, port, |_| false);
            for pool in [Pool::Cluster, Pool::Local] {
                let placed = by_slot(&slots);
                let held = slots.window(pool).slots().map(|slot| placed[&slot]);
                let wanted = routes.pool(pool).iter().map(|e| e.address);
                let sorted = |mut list: Vec<SocketAddr>| { list.sort(); list };
                prop_assert_eq!(sorted(held.collect()), sorted(wanted.collect()));
            }
            prop_assert_eq!(&settle(&slots, port, &world), &slots, "settled already");
        }
        let mut port = ports.last().unwrap().clone();
        port.endpoints.iter_mut().for_each(|e| { e.hints = None; e.conditions = Default::default(); });
        let before = settle(&slots, &port, &world);
        if !port.endpoints.is_empty() {
            port.endpoints.remove(gone.index(port.endpoints.len()));
        }
        let (before, after) = (by_slot(&before), by_slot(&settle(&before, &port, &world)));
        let altered = before.iter().filter(|(slot, at)| after.get(slot) != Some(at)).count();
        prop_assert!(altered <= 2, "{altered}");
    }
}
