//! Other programs that write to tables of their own: theirs is untouched, and we are not disturbed.

use std::process::Command;

use switchyard_lab::Transport::Tcp;

use crate::common::looking::{PATIENCE, eventually, is_idle};
use crate::common::objects::{crowd, crowd_ip};
use crate::common::ruleset;
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::{REPAIRED, nft};

const TWO: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\n\
                   service other cluster.2:80/tcp nodeport=30081 affinity=60\nendpoint other n2.1:8080";

/// Tables of others, one of them with the names of our chains.
const FOREIGN: &str = "table inet firewalld { set s { type ipv4_addr; elements = { 203.0.113.7 } }\n\
    chain filter_INPUT { type filter hook input priority 10; policy accept; ip saddr @s drop; }\n}\n\
    table ip nat { chain DOCKER { tcp dport 9999 return; }\nchain PREROUTING { type nat hook prerouting priority -100; jump DOCKER; }\n}\n\
    table ip6 mine { chain services { tcp dport 9998 drop; }\nchain nat-prerouting { type nat hook prerouting priority -99; jump services; }\n}\n\
    table inet switchyard { chain forward { type filter hook forward priority 5; tcp dport 9997 drop; }\n}\n";

const TABLES: [(&str, &str); 4] =
    [("inet", "firewalld"), ("ip", "nat"), ("ip6", "mine"), ("inet", "switchyard")];

fn foreign(world: &World) -> String {
    TABLES.iter().map(|(family, name)| ruleset::table(world.n1(), family, name)).collect()
}

#[test]
fn tables_of_others_are_untouched_also_by_cleanup() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    nft(world.n1(), FOREIGN);
    let before = foreign(&world);
    for port in ["9999", "9998", "9997", "203.0.113.7"] {
        assert!(before.contains(port), "{before}");
    }
    world.write(TWO);
    world.start(&[]);
    world.settle();
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1"]);
    world.wait_for_answer("client", Tcp, "n1:30081", &["n2.1"]);
    world.write("remove service other");
    world.settle();
    assert_eq!(foreign(&world), before);
    world.kill();
    world.launch(world.n1(), &mut world.command(&["--cleanup"]));
    let status = world.agent(|agent| agent.wait(PATIENCE)).unwrap();
    assert!(status.is_some_and(|s| s.success()), "{}", world.log());
    assert!(!world.has_rules(), "{}", world.rules());
    assert_eq!(foreign(&world), before);
}

/// Another program writes to its own table without pause: every transaction of ours is planned for rules that have changed since.
#[test]
fn a_busy_writer_does_not_keep_us_from_starting() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    world.put_manifest("crowd.json", crowd(0..1500).to_string().as_bytes());
    world.write(TWO);
    nft(world.n1(), "table inet busy { set s { type ipv4_addr; }\n}");
    let script = "while :; do nft 'add element inet busy s { 192.0.2.7 }; delete element inet busy s { 192.0.2.7 }' && echo written; done";
    let writer = world.n1().start(Command::new("sh").args(["-c", script]), &world.path("busy.log")).unwrap();
    let written = || writer.log().unwrap().matches("written").count();
    eventually("the other program writes", || written() > 0);
    let before = written();
    world.start(&[]);
    let is_there = || world.rules().contains(&crowd_ip(200, 1499)) && is_idle(world.n1());
    eventually("all is written", is_there);
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    world.settle();
    assert!(written() > before, "the other program does not write any more");
    assert_eq!(world.metric(REPAIRED, ""), 0.0, "{}", world.log());
    assert!(!world.log().contains("sync failed"), "{}", world.log());
}

/// So many changes at once that the kernel cannot tell us of all of them.
#[test]
fn a_very_large_write_of_another_program_is_no_harm() {
    let Some(world) = World::running(Variant::Nftables, TWO) else { return };
    let addresses: Vec<String> = (0..60_000u32).map(|n| format!("198.18.{}.{}", n / 250, n % 250)).collect();
    let load = format!(
        "table inet large {{ set s {{ type ipv4_addr; elements = {{ {} }}; }}\n}}",
        addresses.join(", ")
    );
    for _ in 0..3 {
        nft(world.n1(), &load);
        nft(world.n1(), "delete table inet large");
    }
    world.settle();
    world.settle();
    assert_eq!(world.metric(REPAIRED, ""), 0.0, "{}", world.log());
    assert!(!world.log().contains("changed by another program"), "{}", world.log());
    // Harm is still noticed afterwards.
    nft(world.n1(), "delete table ip switchyard");
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    world.assert_as_fresh();
}
