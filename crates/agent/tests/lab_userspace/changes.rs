//! What changes under connections, and what does not.

use std::time::Duration;

use switchyard_lab::{Dial, Held, Transport};
use switchyard_model::Family;

use crate::common::looking::{at, eventually, is_idle};
use crate::common::ruleset;
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::common::world::World;

const WEB: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080";
const DNS: &str = "service dns cluster.2:53/udp nodeport=30053\nendpoint dns n1.1:8080/udp";

/// A connection from pod n1.9 that this pod answers.
fn hold_to(world: &World, pod: &str, family: Family) -> Held {
    let dial = Dial::tcp(at("cluster.1:80", family)).within(Duration::from_secs(5));
    let name = world.pod(pod).name().to_owned();
    let mut tries = (0..20).map(|_| world.pod("n1.9").hold(&dial).unwrap());
    tries.find_map(|mut held| (held.ask().name() == Some(&name)).then_some(held)).unwrap()
}

#[test]
fn connections_outlive_endpoints_and_services() {
    let Some(world) = World::running(Variant::Userspace, WEB) else { return };
    let mut held = Family::ALL.map(|family| hold_to(&world, "n2.1", family));
    world.write("remove endpoint web n2.1:8080");
    world.settle();
    for family in Family::ALL {
        for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080"), ("n1", "cluster.1:80")] {
            let tally = world.host(from).dial_many(&Dial::tcp(at(to, family)), 6);
            let names: Vec<&String> = tally.answered.keys().collect();
            assert_eq!(names, [world.pod("n1.1").name()], "{from} {to} {family}: {tally:?}");
        }
    }
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some("pod-2-1")));
    world.write("remove service web");
    world.settle();
    world.wait_for_silence("n1.9", Transport::Tcp, "cluster.1:80");
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some("pod-2-1"), "the Service is gone"));
}

#[test]
fn a_udp_client_follows_a_replaced_endpoint() {
    let Some(world) = World::running(Variant::Userspace, DNS) else { return };
    let hold = |from: &str, to: &str, family| {
        let dial = Dial::new(Transport::Udp, at(to, family)).within(Duration::from_millis(300));
        world.host(from).hold(&dial).unwrap()
    };
    let ways = [("n1.9", "cluster.2:53"), ("client", "n1:30053"), ("n1", "cluster.2:53")];
    let mut clients: Vec<Held> =
        Family::ALL.into_iter().flat_map(|f| ways.map(|(from, to)| hold(from, to, f))).collect();
    let mut all_hear = |name: &str| {
        for held in &mut clients {
            eventually(&format!("{name} answers on the same source port"), || {
                held.ask().name() == Some(name)
            });
        }
    };
    all_hear("pod-1-1");
    world.write("remove endpoint dns n1.1:8080\nendpoint dns n2.1:8080/udp");
    all_hear("pod-2-1");
    world.write("remove endpoint dns n2.1:8080");
    world.settle();
    world.write("endpoint dns n1.1:8080/udp");
    all_hear("pod-1-1");
}

/// Where the table leads: without what the marker Service adds.
pub(crate) fn slots(world: &World) -> Vec<String> {
    let is_slot = |line: &&str| line.contains("slots ") && !line.contains("250");
    world.rules().lines().filter(is_slot).map(str::to_owned).collect()
}

#[test]
fn a_change_of_one_service_leaves_the_listeners_of_others_alone() {
    let Some(world) = World::running(Variant::Userspace, &format!("{WEB}\n{DNS}")) else { return };
    let before = slots(&world);
    assert!(!before.is_empty());
    world.write("service other cluster.3:80/tcp nodeport=30083\nendpoint other n1.1:8080");
    world.settle();
    assert_ne!(slots(&world), before);
    world.write("remove endpoint web n1.1:8080");
    world.settle();
    world.write("remove service other");
    world.settle();
    assert_eq!(slots(&world), before);
}

#[test]
fn a_lost_table_comes_back() {
    let Some(world) = World::running(Variant::Userspace, WEB) else { return };
    let before = slots(&world);
    for family in ruleset::NFT_FAMILIES {
        world.n1().exec_ok("nft", &["delete", "table", family, "switchyard"]).unwrap();
    }
    eventually("the table is back", || slots(&world) == before);
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    assert!(world.metric("switchyard_rules_repaired_total", "") >= 2.0);
}

#[test]
fn a_restart_leads_to_its_own_listeners() {
    let Some(world) = World::running(Variant::Userspace, WEB) else { return };
    world.kill();
    world.start(&[]);
    world.settle();
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    world.wait_for_answer("client", Transport::Tcp, "n1:30080", &["n1.1", "n2.1"]);
}

#[test]
fn it_takes_over_from_nftables_mode_without_a_failed_connection() {
    let Some(world) = World::running(Variant::Nftables, WEB) else { return };
    while_connecting(&world, || {
        world.kill();
        world.start_as(Variant::Userspace);
        world.wait_for_log("mode=\"userspace\"");
        eventually("it is idle", || is_idle(world.n1()));
        let is_relaying = || world.metric("switchyard_relay_connections_total", "") > 10.0;
        eventually("connections go through the relay", is_relaying);
    });
    world.kill();
    world.start(&[]);
    world.settle();
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
}
