//! `switchyard diff` with an agent that repairs harm by itself, so harm is only seen where it does not look.

use switchyard_lab::Transport;

use super::{answering, ask, json, text};
use crate::common::variant::Variant;

const OBJECTS: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.2:8080\nendpoint web n2.2:8080";

fn nothing_differs(variant: Variant) {
    let Some(world) = answering(variant, OBJECTS) else { return };
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.2", "n2.2"]);
    let plain = ask(&world, &["diff"]);
    assert_eq!((plain.status.code(), text(&plain.stdout), text(&plain.stderr)), (Some(0), "", ""));
    let found = json(&ask(&world, &["diff", "-o", "json"]));
    assert_eq!((&found["isEqual"], &found["count"]), (&true.into(), &0.into()), "{found}");
    world.write("endpoint web n2.3:8080");
    world.settle();
    assert_eq!(text(&ask(&world, &["diff"]).stdout), "");
}

every_mode!(nothing_differs);

#[test]
fn nothing_differs_in_userspace_mode() {
    nothing_differs(Variant::Userspace);
}

/// Nobody tells iptables mode of a single rule that goes from x_tables: that is what the question is for.
#[test]
fn a_rule_that_is_gone_is_told_with_exit_code_1() {
    let Some(world) = answering(Variant::Legacy, OBJECTS) else { return };
    let saved = world.iptables("iptables", &["-t", "nat", "-S"]);
    let chain = saved.lines().find_map(|line| line.strip_prefix("-N KUBE-SEP-")).unwrap();
    world.iptables("iptables", &["-t", "nat", "-D", &format!("KUBE-SEP-{chain}"), "2"]);
    let found = ask(&world, &["diff"]);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    let lines: Vec<&str> = text(&found.stdout).lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(&format!("+ IPv4: rule -A KUBE-SEP-{chain} ")), "{lines:?}");
    assert!(lines[0].ends_with("  # default/web"), "{lines:?}");
    let again = ask(&world, &["diff", "-o", "json"]);
    assert_eq!((again.status.code(), &json(&again)["items"][0]["sign"]), (Some(1), &"+".into()));
}

#[test]
fn without_an_agent_it_cannot_be_said() {
    let Some(world) = crate::common::world::World::new_or_skip(Variant::Nftables) else { return };
    let said = ask(&world, &["diff"]);
    assert_eq!((said.status.code(), text(&said.stdout)), (Some(2), ""));
    let error = text(&said.stderr);
    assert!(error.starts_with("Error: no agent answers on ") && error.lines().count() == 1, "{error}");
}
