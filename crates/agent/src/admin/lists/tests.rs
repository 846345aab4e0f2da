//! Pages of long lists.

use std::collections::BTreeMap;

use switchyard_model::ObjectName;
use switchyard_serve::admin::Question;

use super::*;
use crate::admin::page::{ITEMS, LOOKS};
use crate::admin::{List, quarantine};
use crate::shelf::{Troubles, World, port};

const MANY: u32 = 50_000;

/// Very many Services in a hundred namespaces, each with an endpoint.
fn crowd() -> World {
    let one = |n: u32| {
        let address = |base: u32| std::net::Ipv4Addr::from_bits(base + n).to_string();
        let name = format!("ns-{:03}/web-{n:05}:http", n % 100);
        port(&name, &address(0x0a60_0000), &[&format!("{}:80", address(0x0b00_0000))])
    };
    let six = |n: u32| port(&format!("six/web-{n:05}"), &format!("fd00::{n:x}"), &[]);
    World::new(&(0..MANY).map(one).chain((0..700).map(six)).collect::<Vec<_>>())
}

/// A Service that everybody has heard of.
fn giant(endpoints: u32) -> World {
    let addresses = (0..endpoints).map(|n| format!("{}:80", std::net::Ipv4Addr::from_bits(0x0b00_0000 + n)));
    let addresses: Vec<String> = addresses.collect();
    let mut giant =
        port("shop/giant", "10.96.0.1", &addresses.iter().map(String::as_str).collect::<Vec<_>>());
    giant.external_ips = (1..=40).map(|n| std::net::Ipv4Addr::new(203, 0, 113, n).into()).collect();
    World::new(&[
        port("shop/before", "10.96.0.2", &["10.1.0.1:80"]),
        giant,
        port("shop/next", "10.96.0.3", &[]),
    ])
}

/// A part of a list, and what was looked at for it.
fn part(world: &World, list: List, parameters: &[(&str, &str)]) -> (Value, usize) {
    let query = parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let page = Page::read(&Question { path: String::new(), query }).unwrap();
    let mut looks = Looks::default();
    let answer = list(&world.view(), &page, &mut looks).unwrap();
    (answer, looks.0)
}

/// Every item of a list, and the number of its pages, none of which may be more work than this.
fn all(world: &World, list: List, parameters: &[(&str, &str)], work: usize) -> (Vec<Value>, usize) {
    let (mut token, mut items, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let (mut one, looks) = part(world, list, &[parameters, &[("continue", &token)]].concat());
        let made = one["items"].as_array_mut().map(std::mem::take).unwrap();
        assert!(made.len() <= ITEMS && looks <= work, "{} items, {looks} looks", made.len());
        items.extend(made);
        pages += 1;
        match one["continue"].as_str() {
            Some(next) => token = next.to_owned(),
            None => return (items, pages),
        }
    }
}

/// How many different items there are.
fn different(items: &[Value]) -> usize {
    items.iter().map(ToString::to_string).collect::<BTreeSet<_>>().len()
}

/// Every page costs as many items as it holds, however long the list is, and all pages are the whole list.
#[test]
fn fifty_thousand_services_come_in_bounded_pages() {
    let world = crowd();
    for (list, count) in [(services as List, 50_700), (endpoints, 50_000), (routes, 50_700)] {
        // A service port and its endpoint each, and the first one of the page behind.
        let (items, pages) = all(&world, list, &[("limit", "9999")], 2 * 500 + 1);
        assert_eq!((items.len(), different(&items), pages), (count, count, 102));
    }
    let (items, pages) = all(&world, services, &[("limit", "7"), ("namespace", "ns-042")], 2 * 7 + 1);
    assert_eq!((items.len(), pages), (500, 500_usize.div_ceil(7)));
}

#[test]
fn a_namespace_and_a_service_are_found_without_the_rest() {
    let world = crowd();
    let count = |parameters: &[(&str, &str)], work| {
        let (items, _) = all(&world, services, parameters, work);
        items.len()
    };
    assert_eq!(count(&[("namespace", "ns-042"), ("name", "web-00042")], 501), 1);
    assert_eq!(count(&[("namespace", "nobody")], 0), 0);
    // Names of no namespace in particular are anywhere: they are looked for, some at a time.
    assert_eq!(count(&[("name", "web-00042")], LOOKS + 1), 2);
    assert_eq!(count(&[("name", "nobody")], LOOKS + 1), 0);
    let (first, looks) = part(&world, services, &[("name", "nobody")]);
    assert!(first["items"] == json!([]) && first["continue"].is_string() && looks <= LOOKS + 1, "{first}");
}

/// One Service may have more endpoints than a page may have items.
#[test]
fn a_giant_service_is_listed_in_parts() {
    let count = 12_000;
    let world = giant(12_000);
    let (items, pages) = all(&world, endpoints, &[], count + 3);
    assert_eq!((items.len(), different(&items), pages), (count + 1, count + 1, 3));
    assert_eq!(items[1]["address"], "11.0.0.0:80");
    // Each of its routes names every endpoint, so it is a page of its own.
    let (items, pages) = all(&world, routes, &[], count + 3);
    assert_eq!((items.len(), different(&items), pages), (1 + 41 + 1, 43, 42));
    assert_eq!(items.last().unwrap()["name"], "next");
    // If it goes meanwhile, the list goes on behind it.
    let (first, _) = part(&world, endpoints, &[]);
    let token = first["continue"].as_str().unwrap();
    let without = World::new(&[port("shop/next", "10.96.0.3", &["10.1.0.2:80"])]);
    let (rest, _) = part(&without, endpoints, &[("continue", token)]);
    assert_eq!(
        (rest["items"].as_array().unwrap().len(), &rest["items"][0]["address"]),
        (1, &json!("10.1.0.2:80"))
    );
}

#[test]
fn a_token_that_is_none_of_ours_is_refused() {
    let world = giant(1);
    for (list, token) in [
        (services as List, "IPv4/x/a/b/tcp/"),
        (services, "IPv9//a/b/tcp/"),
        (services, "[]"),
        (quarantine::list, "IPv4//a/b/tcp/"),
        (quarantine::list, "[\"refused\"]"),
        (quarantine::list, "[\"conflict\",\"IPv4\",\"x\",\"tcp\",80,0]"),
        (quarantine::list, "{}"),
    ] {
        let page = Page::default().behind(token);
        let refusal = list(&world.view(), &page, &mut Looks::default()).unwrap_err();
        assert!(
            refusal.0 == 400 && refusal.1.starts_with("continue is none of ours"),
            "{token}: {refusal:?}"
        );
    }
}

/// Something of every kind, with names that no Service may have.
fn troubled() -> World {
    let at = |name: &str, n: u8| {
        let mut port = port(&format!("shop/{name}"), &format!("10.96.0.{n}"), &[]);
        (port.external_ips, port.node_port) = (vec!["203.0.113.1".parse().unwrap()], Some(30080));
        port
    };
    let names = ["big", "odd", "sctp", "twin", "winner"];
    let ports: Vec<_> = (1..).zip(names).map(|(n, name)| at(name, n)).collect();
    let troubles = Troubles { refused: &["odd"], unserved: &["sctp"], left_out: &["big"] };
    let mut world = World::troubled(&ports, troubles);
    world.complain(&ObjectName::new("Service", "sh/op\"\u{1b}", "a\n[]"), &["one", "two"]);
    world.complain(&ObjectName::new("Service", "shop", "odd"), &["three"]);
    world.complain(&ObjectName::new("file", "", "/x.yaml"), &["four"]);
    world
}

#[test]
fn everything_that_was_set_aside_is_listed_whatever_the_size_of_a_page() {
    let world = troubled();
    let (whole, _) = all(&world, quarantine::list, &[], 100);
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    whole.iter().for_each(|item| *kinds.entry(item["kind"].as_str().unwrap()).or_default() += 1);
    let want = [("conflict", 6), ("left out", 1), ("object", 4), ("refused", 1), ("unserved", 1)];
    assert_eq!(kinds, BTreeMap::from(want), "{whole:#?}");
    for limit in ["1", "2", "5"] {
        assert_eq!(all(&world, quarantine::list, &[("limit", limit)], 100).0, whole, "{limit}");
    }
    let causes = |parameters: &[(&str, &str)]| -> Vec<String> {
        let (items, _) = all(&world, quarantine::list, parameters, 100);
        items.iter().map(|item| item["cause"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(causes(&[("name", "odd")]), ["three", "no room"]);
    assert_eq!(causes(&[("namespace", "shop"), ("name", "sctp")])[0], "its port is taken");
    assert_eq!(causes(&[("namespace", "sh/op\"\u{1b}"), ("limit", "1")]), ["one", "two"]);
    assert_eq!(causes(&[("name", "nobody")]), [""; 0]);
    let (answer, _) = part(&world, quarantine::list, &[("name", "odd")]);
    assert_eq!(
        (&answer["name"], &answer["namespace"]),
        (&json!("odd"), &Value::Null),
        "what was heeded is said"
    );
}

#[test]
fn fifty_thousand_wrong_objects_come_in_bounded_pages() {
    let mut world = giant(1);
    for n in 0..MANY {
        world.complain(&ObjectName::new("Service", "bad", &format!("svc-{n:05}")), &["port 0"]);
    }
    let (items, pages) = all(&world, quarantine::list, &[], 500);
    assert_eq!((items.len(), different(&items), pages), (50_000, 50_000, 100));
    let (items, pages) = all(&world, quarantine::list, &[("name", "svc-49999")], LOOKS);
    assert_eq!((items.len(), pages), (1, 3));
}
