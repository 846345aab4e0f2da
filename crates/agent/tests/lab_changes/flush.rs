//! Another program flushes our rules.

use std::time::{Duration, Instant};

use switchyard_lab::Dial;
use switchyard_lab::Transport::Tcp;
use switchyard_model::Family;

use crate::common::looking::{at, eventually, script};
use crate::common::variant::Variant;
use crate::common::world::World;

const WEB: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080";
const REPAIRED: &str = "switchyard_rules_repaired_total";
const SECOND: Duration = Duration::from_secs(1);

/// Repairs while a test machine is busy with other things may be late; of several, one must be in time.
const TRIES: usize = 3;

/// A second, on a machine that is not too busy to run the sixty or so programs of a repair in that time.
fn limit(world: &World) -> Duration {
    let began = Instant::now();
    for _ in 0..5 {
        world.iptables("iptables", &["-t", "nat", "-S", "POSTROUTING"]);
    }
    SECOND.max(began.elapsed() / 5 * 60)
}

/// Harms the rules and checks that connections work again within a second, that it is counted, and that the log names the program.
fn repaired_within_a_second(program: &str, arguments: &[&str]) {
    let Some(world) = World::running(Variant::Nft, WEB) else { return };
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1"]);
    assert_eq!(world.metric(REPAIRED, ""), 0.0);
    let caller = world.pod("n1.9");
    // A lost packet is sent again after a second: too late for us.
    let dial = Dial::tcp(at("cluster.1:80", Family::V4)).within(Duration::from_millis(100));
    let is_in_time = |n: usize| {
        let before = Instant::now();
        world.n1().exec_ok(program, arguments).unwrap();
        eventually("it is repaired", || caller.dial(&dial).name().is_some());
        let took = before.elapsed();
        eprintln!("{program} {arguments:?}: repaired after {took:?} (try {n})");
        let count = f64::from(u32::try_from(n).unwrap());
        eventually("the repair is counted", || world.metric(REPAIRED, "IPv4") >= count);
        took < limit(&world)
    };
    assert!((1..=TRIES).any(is_in_time), "no repair in time");
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    world.wait_for_log(&format!("{program} (process "));
    world.settle();
    world.assert_as_fresh();
}

#[test]
fn a_flush_of_the_whole_ruleset_is_repaired() {
    repaired_within_a_second("nft", &["flush", "ruleset"]);
}

#[test]
fn a_flush_of_the_nat_table_is_repaired() {
    repaired_within_a_second("iptables-nft", &["-t", "nat", "-F"]);
}

#[test]
fn a_deleted_jump_is_repaired() {
    let jump = ["-m", "comment", "--comment", "kubernetes service portals", "-j", "KUBE-SERVICES"];
    let delete = ["-t", "nat", "-D", "PREROUTING"];
    repaired_within_a_second("iptables-nft", &[&delete[..], &jump[..]].concat());
}

#[test]
fn our_own_writes_are_not_taken_for_harm() {
    let Some(world) = World::running(Variant::Nft, WEB) else { return };
    for n in 0..50 {
        world.write(&format!("service s{n} cluster.{}:80/tcp\nendpoint s{n} n1.1:8080", n + 10));
        if n % 2 == 1 {
            world.write(&format!("remove service s{}", n - 1));
        }
    }
    world.settle();
    world.start(&[]);
    world.settle();
    // What the listener heard is answered after a moment of quiet; a doubt takes some programs more.
    let end = Instant::now() + SECOND;
    while Instant::now() < end {
        assert_eq!(world.metric(REPAIRED, ""), 0.0, "{}", world.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// IPv6 is written after IPv4: until then its canary cannot be missed.
#[test]
fn a_slow_first_sync_is_not_taken_for_harm() {
    let Some(world) = World::new_or_skip(Variant::Legacy) else { return };
    let real = "exec /usr/sbin/iptables-legacy-restore \"$@\"";
    script(&world.fakes().join("iptables-legacy-restore"), &format!("sleep 1\n{real}"));
    world.write(WEB);
    world.start(&["--iptables-sync-period=300ms"]);
    world.settle();
    // What is wrongly noticed meanwhile would be repaired before the next change.
    world.settle();
    assert_eq!(world.metric(REPAIRED, ""), 0.0);
    assert!(!world.log().contains("changed by another program"), "{}", world.log());
}

#[test]
fn a_flush_on_the_legacy_variant_is_repaired_by_the_canary() {
    let Some(world) = World::new_or_skip(Variant::Legacy) else { return };
    world.write(WEB);
    world.start(&["--iptables-sync-period=1s"]);
    world.settle();
    for tool in ["iptables", "ip6tables"] {
        for table in ["nat", "filter", "mangle"] {
            world.iptables(tool, &["-t", table, "-F"]);
            world.iptables(tool, &["-t", table, "-X"]);
        }
    }
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1"]);
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    assert!(world.metric(REPAIRED, "") >= 2.0);
    assert!(world.log().contains("a canary chain is gone"));
    world.assert_as_fresh();
}
