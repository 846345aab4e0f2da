//! A restart: the rules of the earlier run lead clients to where its listeners were.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use switchyard_lab::{Dial, Host};
use switchyard_model::Family;

use crate::changes::slots;
use crate::common::looking::{at, eventually};
use crate::common::objects::crowd;
use crate::common::variant::Variant;
use crate::common::world::World;

/// Services, each with one of four pods.
const MANY: u8 = 60;

/// The number of its pod.
fn pod(service: u8) -> u8 {
    1 + service % 4
}

fn many() -> String {
    let one = |n: u8| {
        let pod = pod(n);
        format!(
            "service s{n} cluster.{n}:80/tcp nodeport=30{n:03} etp=Local\nendpoint s{n} n1.{pod}:8080\n\
             service u{n} cluster.{n}:53/udp\nendpoint u{n} n1.{pod}:8080/udp\n"
        )
    };
    (1..=MANY).map(one).collect()
}

/// Asks all Services in turn until it is over, and counts the answers.
fn ask_all(client: &Host, is_over: &AtomicBool, answers: &AtomicUsize) {
    while !is_over.load(Ordering::Relaxed) {
        for n in 1..=MANY {
            let tcp = Dial::tcp(at(&format!("cluster.{n}:80"), Family::V4));
            let udp = Dial::udp(at(&format!("cluster.{n}:53"), Family::V4));
            for dial in [tcp, udp] {
                let answer = client.dial(&dial.within(Duration::from_millis(300)));
                if let Some(name) = answer.name() {
                    assert_eq!(name, format!("pod-1-{}", pod(n)), "at Service {n}");
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Ends the questions, also if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_restart_leads_everybody_where_he_was() {
    let Some(world) = World::running(Variant::Userspace, &many()) else { return };
    let before = slots(&world);
    assert!(before.len() > 6 * usize::from(MANY), "{}", before.len());
    let (is_over, client) = (AtomicBool::new(false), world.pod("n1.9"));
    let answers = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| ask_all(&client, &is_over, &answers));
        let _end = End(&is_over);
        for _ in 0..3 {
            world.kill();
            world.start(&[]);
            world.settle();
            let all = answers.load(Ordering::Relaxed) + 4 * usize::from(MANY);
            eventually("all answer again", || answers.load(Ordering::Relaxed) >= all);
        }
    });
    assert_eq!(slots(&world), before, "every listener is where it was");
}

/// Ports of listeners that the rules lead to.
fn ports(world: &World) -> BTreeSet<String> {
    let rules = world.rules();
    let slots = rules.lines().filter(|line| line.contains("ip slots [\"10.97."));
    slots.filter_map(|line| line.rsplit_once(',')?.1.strip_suffix("]}")).map(str::to_owned).collect()
}

#[test]
fn a_restart_takes_no_port_to_which_the_rules_lead_others() {
    let Some(world) = World::new_or_skip(Variant::Userspace) else { return };
    // So few ports that random ones would meet.
    let range = "40000 41999";
    world.n1().run(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range)).unwrap().unwrap();
    world.put_manifest("crowd.json", crowd(0..400).to_string().as_bytes());
    world.write("service web cluster.1:80/tcp\nendpoint web n1.1:8080");
    world.start(&[]);
    world.settle();
    let before = ports(&world);
    assert_eq!(before.len(), 400);
    world.kill();
    world.put_manifest("crowd.json", crowd(400..800).to_string().as_bytes());
    world.start(&[]);
    world.settle();
    let after = ports(&world);
    assert_eq!(after.len(), 400);
    assert!(after.is_disjoint(&before), "{} in common", after.intersection(&before).count());
}
