//! Very many changes of other Services, one by one, from an API server.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use switchyard_lab::scenario::{Scenario, to_manifests};
use switchyard_model::Family;

use crate::common::api_server::ApiServer;
use crate::common::looking::{eventually, is_idle};
use crate::common::objects::{crowd_ip, crowd_service, crowd_slice};
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::{REPAIRED, nft};

const WEB: &str = "service web cluster.1:80/tcp\nendpoint web n1.1:8080\nendpoint web n2.1:8080";

/// Services that change.
const OTHERS: u16 = 100;

/// Each of them changes so often.
const ROUNDS: u8 = 10;

/// 200 changes per second.
const EVERY: Duration = Duration::from_millis(5);

const SYNCS: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count";
const QUARANTINED: &str = "switchyard_quarantined_objects";

/// A world whose proxy watches an API server with the Services `web` and `crowd-n`.
fn watching() -> Option<(World, ApiServer)> {
    let world = World::new_or_skip(Variant::Nftables)?;
    let server = ApiServer::start(world.n1());
    let scenario = Scenario::parse("web", WEB).unwrap();
    scenario.pods().iter().for_each(|pod| drop(world.pod(&pod.to_string())));
    let list: Value = serde_json::from_str(&to_manifests(&scenario.steps[0].objects, &Family::ALL)).unwrap();
    list["items"].as_array().unwrap().iter().for_each(|object| server.put(object.clone()));
    for n in 0..OTHERS {
        server.put(crowd_service(n));
        server.put(crowd_slice(n, 0));
    }
    std::fs::write(world.path("kubeconfig"), ApiServer::kubeconfig()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.arg("--kubeconfig").arg(world.path("kubeconfig")).args(world.flags());
    world.environment(&mut command);
    world.launch(world.n1(), &mut command);
    eventually("the first rules are written", || is_written(&world, 0) && is_idle(world.n1()));
    Some((world, server))
}

/// True if each of the Services leads to its endpoint of this generation, and nowhere else.
fn is_written(world: &World, generation: u8) -> bool {
    let rules = world.rules();
    let leads = |n: u16| {
        let (service, endpoint) = (crowd_ip(97, n), crowd_ip(200 + generation, n));
        format!("ip slots [\"{service}\",\"tcp\",80] has endpoint {{\"concat\":[\"{endpoint}\",8080]}}")
    };
    let mut expected: Vec<String> = (0..OTHERS).map(leads).collect();
    expected.sort();
    let is_others = |line: &&str| line.starts_with("ip slots [\"10.97.") && line.contains(" has endpoint ");
    rules.lines().filter(is_others).eq(expected.iter().map(String::as_str))
}

/// One change of a Service: mostly another endpoint; now and then it goes and comes back.
fn change(server: &ApiServer, round: u8, n: u16) {
    match (round + u8::try_from(n % 5).unwrap()) % 5 {
        3 if round + 2 < ROUNDS => server.delete(&crowd_service(n)),
        _ => {
            server.put(crowd_service(n));
            server.put(crowd_slice(n, round));
        }
    }
}

#[test]
fn two_hundred_changes_per_second_disturb_nobody() {
    let Some((world, server)) = watching() else { return };
    let syncs = world.metric(SYNCS, "");
    let began = Instant::now();
    while_connecting(&world, || {
        let mut due = Instant::now();
        for round in 1..=ROUNDS {
            for n in 0..OTHERS {
                change(&server, round, n);
                due += EVERY;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        eventually("every change is in force", || is_written(&world, ROUNDS));
    });
    let syncs = world.metric(SYNCS, "") - syncs;
    eprintln!("{} changes, {syncs} syncs in {:?}", u32::from(ROUNDS) * u32::from(OTHERS), began.elapsed());
    assert!(syncs > 50.0, "they were to come one by one, but there were only {syncs} syncs");
    assert_eq!(world.metric(REPAIRED, ""), 0.0, "{}", world.log());
    assert_eq!(world.metric(QUARANTINED, ""), 0.0, "{}", world.log());
}

/// While changes come without pause, another program deletes the table.
#[test]
fn a_table_that_goes_in_a_storm_of_changes_comes_back() {
    let Some((world, server)) = watching() else { return };
    for round in 1..=ROUNDS {
        for n in 0..OTHERS {
            change(&server, round, n);
            if round % 3 == 0 && n == OTHERS / 2 {
                eventually("there is something to delete", || world.has_rules());
                nft(world.n1(), "delete table ip switchyard");
            }
            std::thread::sleep(EVERY);
        }
    }
    eventually("every change is in force", || is_written(&world, ROUNDS));
    // A change that is refused because there is no table is nobody's fault.
    assert!(!world.log().contains("refuses a service port"), "{}", world.log());
    assert_eq!(world.metric(QUARANTINED, ""), 0.0, "{}", world.log());
    world.wait_for_answer("n1.9", switchyard_lab::Transport::Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    assert!(world.metric(REPAIRED, "IPv4") >= 1.0, "{}", world.log());
}
