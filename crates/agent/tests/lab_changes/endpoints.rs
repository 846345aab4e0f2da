//! Endpoints that go, under connections that are held.

use std::time::Duration;

use switchyard_lab::{Dial, Held};
use switchyard_model::Family;

use crate::common::looking::at;
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![
    a_held_connection_survives_while_new_ones_avoid_a_removed_endpoint,
    a_terminating_endpoint_keeps_its_connection_and_serves_as_last_resort,
];

const TWO: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080";

/// A connection from pod n1.9 that this pod answers.
fn hold_to(world: &World, pod: &str, family: Family) -> Held {
    let dial = Dial::tcp(at("cluster.1:80", family)).within(Duration::from_secs(5));
    let name = world.pod(pod).name().to_owned();
    let mut tries = (0..200).map(|_| world.pod("n1.9").hold(&dial).unwrap());
    tries.find_map(|mut held| (held.ask().name() == Some(&name)).then_some(held)).unwrap()
}

fn assert_only(world: &World, pod: &str) {
    for family in Family::ALL {
        for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080"), ("n1", "cluster.1:80")] {
            let tally = world.host(from).dial_many(&Dial::tcp(at(to, family)), 12);
            let names: Vec<&String> = tally.answered.keys().collect();
            assert_eq!(names, [world.pod(pod).name()], "{from} {to} {family}: {tally:?}");
            assert!(tally.failed.is_empty(), "{from} {to} {family}: {tally:?}");
        }
    }
}

fn a_held_connection_survives_while_new_ones_avoid_a_removed_endpoint(variant: Variant) {
    let Some(world) = World::running(variant, TWO) else { return };
    let stays = Family::ALL.map(|family| hold_to(&world, "n1.1", family));
    let goes = Family::ALL.map(|family| hold_to(&world, "n2.1", family));
    world.write("remove endpoint web n2.1:8080");
    world.settle();
    assert_only(&world, "n1.1");
    for mut held in stays {
        assert_eq!(held.ask().name(), Some("pod-1-1"));
    }
    for mut held in goes {
        // The pod still runs: a connection is the pod's to end, not ours.
        assert_eq!(held.ask().name(), Some("pod-2-1"));
    }
}

fn a_terminating_endpoint_keeps_its_connection_and_serves_as_last_resort(variant: Variant) {
    let Some(world) = World::running(variant, TWO) else { return };
    let mut held = Family::ALL.map(|family| hold_to(&world, "n2.1", family));
    world.write("endpoint web n2.1:8080 ready=false serving=true terminating=true");
    world.settle();
    assert_only(&world, "n1.1");
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some("pod-2-1")));
    world.write("endpoint web n1.1:8080 ready=false serving=false");
    world.settle();
    assert_only(&world, "n2.1");
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some("pod-2-1")));
}
