//! `switchyard get quarantine` and `get changes` by namespace and name, of an agent to which all that can go wrong has happened.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ask, json, socket, text};
use crate::common::objects::service;
use crate::common::variant::Variant;
use crate::common::world::World;

/// Userspace mode relays no SCTP; two Services ask for one address; a range cannot be read.
fn troubled() -> Option<World> {
    let world = World::new_or_skip(Variant::Userspace)?;
    world.write("service web cluster.1:80/tcp\nendpoint web n2.2:8080");
    let named = |name: &str, address: &str, more: &[(&str, Value)]| {
        let mut object = service("shop", name, "", address, &json!(80));
        for (field, value) in more {
            object["spec"][*field] = value.clone();
        }
        object
    };
    let sctp = json!([{ "port": 80, "protocol": "SCTP" }]);
    let ranges = [("type", json!("LoadBalancer")), ("loadBalancerSourceRanges", json!(["everybody"]))];
    let items = [
        named("older", "10.96.7.1", &[("externalIPs", json!(["192.0.2.80"]))]),
        named("younger", "10.96.7.2", &[("externalIPs", json!(["192.0.2.80"]))]),
        named("sctp", "10.96.7.3", &[("ports", sctp)]),
        named("ranged", "10.96.7.4", &ranges),
    ];
    world.put_manifest("troubled.json", json!({ "kind": "List", "items": items }).to_string().as_bytes());
    world.start(&["--admin-socket", socket(&world).to_str().unwrap()]);
    world.settle();
    Some(world)
}

/// Kind and name of everything that is listed.
fn listed(world: &World, arguments: &[&str]) -> Vec<(String, String)> {
    let output = ask(world, &[&["get", "quarantine", "-o", "json"], arguments].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    let list = json(&output);
    let word = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(|item| (word(item, "kind"), word(item, "name"))).collect()
}

#[test]
fn everything_that_was_set_aside_is_listed() {
    let Some(world) = troubled() else { return };
    let all: BTreeMap<String, String> =
        listed(&world, &[]).into_iter().map(|(kind, name)| (name, kind)).collect();
    let want = [("ranged", "object"), ("sctp", "unserved"), ("younger", "conflict")];
    assert_eq!(all, want.map(|(name, kind)| (name.to_owned(), kind.to_owned())).into());
    assert_eq!(listed(&world, &["sctp"])[0].0, "unserved");
    assert_eq!(listed(&world, &["shop/ranged", "younger"]).len(), 2);
    assert_eq!(listed(&world, &["-n", "shop"]).len(), 3);
    assert_eq!(listed(&world, &["-n", "default"]), []);
    let table = ask(&world, &["get", "quarantine", "sctp", "--no-headers"]);
    assert!(
        text(&table.stdout)
            .starts_with("unserved  shop/sctp  IPv4  SCTP cannot be relayed; use another mode"),
        "{table:?}"
    );
    let none = ask(&world, &["get", "quarantine", "older"]);
    let note = "No resources found of older; nothing was set aside\n";
    assert_eq!((none.status.code(), text(&none.stdout), text(&none.stderr)), (Some(0), "", note));
}

#[test]
fn changes_are_listed_by_service() {
    let Some(world) = troubled() else { return };
    let services = |arguments: &[&str]| -> Vec<Value> {
        let list = json(&ask(&world, &[&["get", "changes", "-o", "json"], arguments].concat()));
        list["items"].as_array().unwrap().iter().map(|item| item["services"].clone()).collect()
    };
    let all = services(&[]).len();
    let of_sctp = services(&["shop/sctp"]);
    assert!(!of_sctp.is_empty() && of_sctp.len() < all, "{of_sctp:?}");
    assert!(of_sctp.iter().all(|names| names.to_string().contains("shop/sctp")), "{of_sctp:?}");
    world.write("endpoint web n2.3:8080");
    world.settle();
    assert!(services(&["web", "-n", "default"]).len() > services(&["sctp"]).len());
    assert_eq!(services(&["-n", "nobody"]), [json!(null); 0]);
    let table = ask(&world, &["get", "changes", "-o", "wide"]);
    let header = "NUMBER  AGE  SEEN                      COMMITTED                 FAMILY  KIND     LATENCY";
    assert!(text(&table.stdout).starts_with(header), "{table:?}");
}
