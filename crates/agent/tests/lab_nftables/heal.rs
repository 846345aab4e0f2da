//! Other programs harm our table.

use std::process::Command;
use std::time::{Duration, Instant};

use switchyard_lab::Transport::Tcp;

use crate::common::looking::{PATIENCE, eventually, within};
use crate::common::ruleset;
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::{REPAIRED, nft};

const OBJECTS: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080\n\
    service sticky cluster.2:80/tcp affinity=600\nendpoint sticky n1.1:8080\nendpoint sticky n2.1:8080\n\
    service lb cluster.3:80/tcp nodeport=30082 lb=lb.3 ranges=client etp=Local\nendpoint lb n1.1:8080\n\
    service none cluster.4:80/tcp\n";

const BOTH: &[&str] = &["IPv4", "IPv6"];
const V4: &[&str] = &["IPv4"];

fn counts(world: &World) -> [f64; 2] {
    ["IPv4", "IPv6"].map(|family| world.metric(REPAIRED, family))
}

/// Each harm is repaired, once, in the families that it hit. No more than four: with each, the rest before the next repair doubles.
fn are_repaired(harms: &[(&str, &[&str])]) {
    let Some(world) = World::running(Variant::Nftables, OBJECTS) else { return };
    for (harm, families) in harms {
        let (good, before) = (world.rules(), counts(&world));
        nft(world.n1(), harm);
        eventually(&format!("{harm:?} is counted"), || {
            families.iter().all(|family| {
                world.metric(REPAIRED, family) > before[BOTH.iter().position(|f| f == family).unwrap()]
            })
        });
        eventually(&format!("{harm:?} is repaired"), || world.rules() == good);
        for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080"), ("n1.9", "cluster.2:80")] {
            world.wait_for_answer(from, Tcp, to, &["n1.1", "n2.1"]);
        }
        world.wait_for_answer("client", Tcp, "lb.3:80", &["n1.1"]);
        // Longer than the listener waits for quiet: a second repair would have begun by now.
        world.settle();
        let once =
            BOTH.iter().zip(before).map(|(f, count)| count + f64::from(u8::from(families.contains(f))));
        assert_eq!(counts(&world).to_vec(), once.collect::<Vec<f64>>(), "{harm:?}: {}", world.log());
    }
    world.wait_for_log("nft (process ");
    world.assert_as_fresh();
}

#[test]
fn lost_tables_come_back() {
    are_repaired(&[
        ("delete table ip switchyard", V4),
        ("flush ruleset", BOTH),
        ("flush table ip switchyard", V4),
        // In two transactions, and something of its own in place of ours.
        ("delete table ip switchyard\nadd table ip switchyard", V4),
    ]);
}

#[test]
fn lost_elements_come_back() {
    are_repaired(&[
        ("flush map ip switchyard frontends", V4),
        ("delete element ip switchyard slots { 10.96.0.1 . tcp . 80 . 1 }", V4),
        ("flush map ip switchyard slots\nflush map ip6 switchyard slots", BOTH),
        ("delete element ip switchyard cluster-ips { 10.96.0.4 }", V4),
    ]);
}

#[test]
fn what_others_add_goes() {
    are_repaired(&[
        ("insert rule ip switchyard services tcp dport 80 drop", V4),
        ("add chain ip switchyard theirs { type filter hook forward priority 0; policy drop; }", V4),
        ("add element ip switchyard frontends { 10.96.0.77 . tcp . 80 : drop }", V4),
        ("add set ip switchyard theirs { type ipv4_addr; }", V4),
    ]);
}

#[test]
fn what_others_change_is_put_right() {
    are_repaired(&[
        ("flush chain ip switchyard services", V4),
        (
            "delete element ip switchyard frontends { 10.96.0.1 . tcp . 80 }\n\
             add element ip switchyard frontends { 10.96.0.1 . tcp . 80 : drop }",
            V4,
        ),
        (
            "delete element ip switchyard slots { 10.96.0.1 . tcp . 80 . 0 }\n\
             add element ip switchyard slots { 10.96.0.1 . tcp . 80 . 0 : 10.1.2.250 . 8080 }",
            V4,
        ),
        ("flush chain ip switchyard nat-prerouting", V4),
    ]);
}

/// What a firewall that reloads loads.
const FIREWALL: &str = "table inet firewalld {\n\
    set blocked { type ipv4_addr; elements = { 203.0.113.7 } }\n\
    chain filter_INPUT { type filter hook input priority 10; policy accept; ip saddr @blocked drop; tcp dport 9999 drop; }\n\
    chain filter_FORWARD { type filter hook forward priority 10; policy accept; ct state established,related accept; }\n}\n";

#[test]
fn a_firewall_that_reloads_keeps_its_own_and_we_keep_ours() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    nft(world.n1(), FIREWALL);
    let theirs = || ruleset::table(world.n1(), "inet", "firewalld");
    let loaded = theirs();
    assert!(loaded.contains("203.0.113.7"), "{loaded}");
    world.write(OBJECTS);
    world.start(&[]);
    world.settle();
    let good = world.rules();
    for n in 1..=3 {
        nft(world.n1(), &format!("flush ruleset\n{FIREWALL}"));
        eventually("it is repaired", || {
            counts(&world) == [f64::from(n); 2] && world.rules() == good && world.has_rules()
        });
        assert_eq!(theirs(), loaded);
        world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1", "n2.1"]);
    }
    world.write("remove service web");
    world.settle();
    assert_eq!(counts(&world), [3.0; 2], "{}", world.log());
    assert_eq!(theirs(), loaded);
}

#[test]
fn our_own_writes_are_not_taken_for_harm() {
    let Some(world) = World::running(Variant::Nftables, OBJECTS) else { return };
    for n in 0..50 {
        let affinity = if n % 3 == 0 { "affinity=60" } else { "" };
        world.write(&format!("service s{n} cluster.{}:80/tcp {affinity}\nendpoint s{n} n1.1:8080", n + 10));
        if n % 2 == 1 {
            world.write(&format!("remove service s{}", n - 1));
        }
        if n % 5 == 0 {
            world.settle();
        }
    }
    world.settle();
    // A client that a sticky Service remembers is written by the kernel.
    world.wait_for_answer("n1.9", Tcp, "cluster.2:80", &["n1.1", "n2.1"]);
    let noticed = within(Duration::from_secs(1), || counts(&world) != [0.0; 2]);
    assert!(!noticed, "{}", world.log());
    assert!(!world.log().contains("changed by another program"), "{}", world.log());
    world.assert_as_fresh();
}

/// Another program deletes our table again and again: repairs become rare, everything else goes on, and in the end all is well.
#[test]
fn a_fight_is_not_fought_without_end() {
    let Some(world) = World::running(Variant::Nftables, OBJECTS) else { return };
    let script = "while :; do nft delete table ip switchyard 2>/dev/null && echo deleted; done";
    let began = Instant::now();
    let mut fighter =
        world.n1().start(Command::new("sh").args(["-c", script]), &world.path("fight.log")).unwrap();
    let repairs = || world.metric(REPAIRED, "IPv4");
    // So many happen in the first seconds, also if each rest is twice the one before.
    eventually("it fights back", || repairs() >= 6.0);
    // The other family is served, and the loop is not stuck.
    world.write("service more cluster.5:80/tcp\nendpoint more n1.1:8080");
    let v6 = switchyard_model::Family::V6;
    eventually("a change takes effect", || world.ask("n1.9", Tcp, "cluster.5:80", v6).name().is_some());
    assert_eq!(world.health("/livez").0, 200);
    let (fought, fighting) = (repairs(), began.elapsed());
    fighter.kill().unwrap();
    // 0.1 s, 0.2 s, 0.4 s...: each rest is twice the one before.
    let bound = (fighting.as_secs_f64() / 0.1 + 1.0).log2() + 2.0;
    assert!(fought <= bound, "{fought} repairs in {fighting:?}, not more than {bound} expected");
    let deleted = fighter.log().unwrap().matches("deleted").count();
    eprintln!("{deleted} deletions, {fought} repairs in {fighting:?}");
    assert!(deleted >= 4, "{deleted}");
    // The last rest may be as long as the whole fight.
    let v4 = switchyard_model::Family::V4;
    let is_back = || world.ask("n1.9", Tcp, "cluster.5:80", v4).name().is_some();
    assert!(within(PATIENCE + fighting, is_back), "{}", world.log());
    world.settle();
    world.assert_as_fresh();
    assert!(!world.log().contains("refuses a service port"), "{}", world.log());
    assert_eq!(world.metric("switchyard_quarantined_objects", ""), 0.0, "{}", world.log());
}
