//! Hostile objects through every subcommand and every form of output: what reaches the terminal is text, and nothing acts on it.

use serde_json::json;
use switchyard_lab::Host;
use switchyard_model::{Family, is_unseen};

use super::{ask, json, socket, text};
use crate::common::looking::ip;
use crate::common::objects::{service, slice};
use crate::common::variant::Variant;
use crate::common::world::World;

/// Escapes of a terminal in seven and in eight bits, a line of its own, marks of direction, and characters that nobody sees.
const EVIL: &str = "e\u{1b}[31m\u{9b}2J\u{7f}\r\nError: forged\u{202e}\u{2066}\u{61c}\u{ad}\u{180e}\u{206a}\u{feff}\u{e0041}é日שלום";

/// With Services whose parts are hostile, and objects whose names are; all of them are about `evil/victim` or set aside.
fn evil(variant: Variant) -> Option<World> {
    let world = World::new_or_skip(variant)?;
    world.write("service web cluster.1:80/tcp\nendpoint web n2.2:8080");
    let victim = ip(&world.pod("n2.3"), Family::V4).to_string();
    let mut endpoints = slice("evil", "victim", "", "IPv4", &victim, &json!(8080));
    endpoints["endpoints"][0]["nodeName"] = json!(EVIL);
    endpoints["endpoints"][0]["hints"] = json!({ "forZones": [{ "name": EVIL }] });
    endpoints["endpoints"][0]["targetRef"] = json!({ "kind": "Pod", "namespace": "evil", "name": EVIL });
    let mut labelled = service("evil", "victim", "", "10.96.7.1", &json!(80));
    labelled["metadata"]["labels"] = json!({ "app": "evil", EVIL: EVIL });
    labelled["metadata"]["annotations"] = json!({ EVIL: EVIL });
    let mut ranges = service("evil", "ranges", "", "10.96.7.2", &json!(80));
    ranges["spec"]["type"] = json!("LoadBalancer");
    ranges["spec"]["loadBalancerSourceRanges"] = json!([EVIL]);
    let items = [
        labelled,
        endpoints,
        ranges,
        service("evil", EVIL, "", "10.96.7.3", &json!(80)),
        service(EVIL, "name", "", "10.96.7.4", &json!(80)),
        service("evil", "port", EVIL, "10.96.7.5", &json!(80)),
        service("evil", "number", "", "10.96.7.6", &json!(EVIL)),
        service("evil", "address", "", EVIL, &json!(80)),
        json!({ "apiVersion": "v1", "kind": EVIL, "metadata": { "name": EVIL } }),
    ];
    world.put_manifest("evil.json", json!({ "kind": "List", "items": items }).to_string().as_bytes());
    world.start(&["--admin-socket", socket(&world).to_str().unwrap()]);
    world.settle();
    Some(world)
}

/// The text, in which nothing acts on a terminal.
fn harmless<'a>(what: &[&str], bytes: &'a [u8]) -> &'a str {
    let text = text(bytes);
    let harm = text.chars().find(|c| *c != '\n' && is_unseen(*c));
    assert_eq!(harm, None, "{what:?}: {text}");
    assert!(!text.contains("\nError: forged"), "{what:?}: {text}");
    text
}

#[test]
fn nothing_of_hostile_objects_acts_on_a_terminal() {
    let Some(world) = evil(Variant::Nftables) else { return };
    let lists = ["services", "endpoints", "routes", "quarantine", "changes"].map(|list| vec!["get", list]);
    let named = [
        vec!["get", "services", EVIL],
        vec!["get", "quarantine", EVIL],
        vec!["get", "services", "-n", EVIL],
        vec!["get", "services", "-l", EVIL],
        vec!["get", "services", "-l", "app=evil"],
        vec!["get", "endpoints", "victim"],
    ];
    let others = [
        vec!["explain", "--to", "evil/victim"],
        vec!["explain", "--to", EVIL],
        vec!["explain", "--to", "evil/victim", "--from", EVIL],
        vec!["explain", "--to", "evil/victim", "--interface", EVIL],
        vec!["diff"],
    ];
    let wide = ["table", "wide", "json", "yaml", "name"];
    let with = |all: &[Vec<&'static str>], outputs: &[&'static str]| -> Vec<Vec<&'static str>> {
        let with = |command: &Vec<&'static str>, output| [&command[..], &["-o", output]].concat();
        all.iter().flat_map(|command| outputs.iter().map(move |output| with(command, output))).collect()
    };
    let mut seen = String::new();
    let commands =
        [with(&lists, &wide), with(&named, &wide), with(&others, &["table", "json", "yaml"])].concat();
    for command in &commands {
        let output = ask(&world, command);
        seen.push_str(harmless(command, &output.stdout));
        let error = harmless(command, &output.stderr);
        assert!(error.lines().count() <= 1, "{command:?}: {error}");
    }
    // It is shown nevertheless, and programs get all of it.
    assert!(seen.contains(r"e\u{1b}[31m\u{9b}2J\u{7f}\r\nError: forged\u{202e}"), "{seen}");
    let quarantine = json(&ask(&world, &["get", "quarantine", "-o", "json"]));
    let items = quarantine["items"].as_array().unwrap();
    let has =
        |field: &str| items.iter().any(|item| item[field].as_str().is_some_and(|text| text.contains(EVIL)));
    assert_eq!(["namespace", "name", "cause"].map(has), [true; 3], "{quarantine}");
}

fn run(host: &Host, arguments: &[&str]) {
    let output = host.exec(env!("CARGO_BIN_EXE_switchyard"), arguments).unwrap();
    harmless(arguments, &output.stdout);
    harmless(arguments, &output.stderr);
}

/// Commands that ask the kernel, whose objects may have such names as well.
#[test]
fn nothing_of_a_hostile_kernel_acts_on_a_terminal() {
    let Some(world) = evil(Variant::Legacy) else { return };
    // Only bytes that x_tables keeps: a comment of somebody, in a chain of ours.
    let comment = "e\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{e0041}";
    world.iptables("iptables", &["-t", "nat", "-A", "KUBE-SERVICES", "-m", "comment", "--comment", comment]);
    for output in ["table", "json", "yaml"] {
        let found = ask(&world, &["diff", "-o", output]);
        assert_eq!(found.status.code(), Some(1), "{found:?}");
        let shown = harmless(&["diff"], &found.stdout);
        assert!(shown.contains("31m"), "the rule is told: {shown}");
        run(world.n1(), &["check", "-o", output]);
        run(world.n1(), &["cleanup", "--dry-run", "-o", output]);
    }
}
