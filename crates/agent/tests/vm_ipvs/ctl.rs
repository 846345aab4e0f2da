//! The subcommands of an operator as processes, beside an agent in ipvs mode: what they print, and their exit codes.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;
use switchyard_model::Family;
use switchyard_netlink::ipvs::{Command, Destination, Forwarding, Listed, ServiceId};

use super::common::looking::{at, ip};
use super::common::variant::Variant;
use super::common::world::World;
use super::{LINK, WEB, destinations, ipvs, link_addresses, services, start, stop};

/// Nobody looks at IPVS again while a test runs, so harm stays.
const NEVER: &str = "--ipvs-sync-period=24h";

/// A virtual server of somebody else, at an address of the node.
const THEIRS: u16 = 8443;

/// An agent that answers on a socket, with all that it should have written.
fn answering() -> Option<World> {
    let world = World::new_or_skip(Variant::Ipvs)?;
    world.write(WEB);
    start(&world, &[NEVER, "--admin-socket", world.path("admin.sock").to_str().unwrap()]);
    world.settle();
    Some(world)
}

fn switchyard(world: &World, arguments: &[&str]) -> Output {
    world.n1().exec(env!("CARGO_BIN_EXE_switchyard"), arguments).unwrap()
}

/// A subcommand that asks the agent.
fn ask(world: &World, arguments: &[&str]) -> Output {
    let socket = world.path("admin.sock");
    switchyard(world, &[arguments, &["--admin-socket", socket.to_str().unwrap()]].concat())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).map_err(|_| format!("{output:?}")).unwrap()
}

fn send(world: &World, command: Command) {
    assert_eq!(ipvs(world, |ipvs| ipvs.send(&[command]).unwrap()), [None]);
}

fn id(to: &str, family: Family) -> ServiceId {
    let to = at(to, family);
    ServiceId { address: to.ip(), protocol: 6, port: to.port() }
}

/// The lines of `diff`, which must find something.
fn differences(world: &World) -> BTreeSet<String> {
    let found = ask(world, &["diff"]);
    assert_eq!((found.status.code(), text(&found.stderr)), (Some(1), ""), "{found:?}");
    let counted = json(&ask(world, &["diff", "-o", "json"]));
    let lines: BTreeSet<String> = text(&found.stdout).lines().map(str::to_owned).collect();
    let (is_equal, count) = (counted.pointer("/isEqual").unwrap(), counted.pointer("/count").unwrap());
    assert_eq!((is_equal, count), (&false.into(), &lines.len().into()), "{counted}");
    lines
}

/// Harm grows from a destination to all of a virtual server; the other family is in order all the time.
fn harm_is_named(family: Family) {
    let Some(world) = answering() else { return };
    let plain = ask(&world, &["diff"]);
    assert_eq!((plain.status.code(), text(&plain.stdout), text(&plain.stderr)), (Some(0), "", ""));
    let found = json(&ask(&world, &["diff", "-o", "json"]));
    assert_eq!((found.pointer("/isEqual"), found.pointer("/count")), (Some(&true.into()), Some(&0.into())));

    let web = id("cluster.1:80", family);
    let listed = destinations(&world, "cluster.1:80", family);
    let [first, second] = <[Listed; 2]>::try_from(listed).unwrap().map(|listed| listed.destination.at);
    let destination = |sign: &str, end| {
        format!("{sign} {family}: destination {end} of virtual server {web}  # default/web")
    };
    send(&world, Command::DeleteDestination(web, first));
    assert_eq!(differences(&world), [destination("+", first)].into());

    let stray = std::net::SocketAddr::new(ip(&world.pod("n2.9"), family), 8080);
    let added = Destination { at: stray, weight: 1, forwarding: Forwarding::Masquerade };
    send(&world, Command::AddDestination(web, added));
    let lines = differences(&world);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines.contains(&destination("+", first)), "{lines:?}");
    let extra = format!("- {family}: destination {stray} of virtual server {web}");
    assert!(lines.iter().any(|line| line.starts_with(&extra)), "{lines:?}");

    send(&world, Command::DeleteService(web));
    let server = format!("+ {family}: virtual server {web}, scheduler rr  # default/web");
    assert_eq!(differences(&world), [server, destination("+", first), destination("+", second)].into());
}

#[test]
fn servers_that_are_gone_are_told_with_exit_code_1() {
    harm_is_named(Family::V4);
}

#[test]
fn servers_that_are_gone_are_told_with_exit_code_1_of_ipv6() {
    harm_is_named(Family::V6);
}

#[test]
fn services_are_listed() {
    let Some(world) = answering() else { return };
    let listed = ask(&world, &["get", "services"]);
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    let is_web = |line: &&str| line.contains("web") && line.contains("10.96.0.1");
    assert!(text(&listed.stdout).lines().any(|line| is_web(&line)), "{listed:?}");
    let found = json(&ask(&world, &["get", "services", "-n", "default", "web", "-o", "json"]));
    assert_eq!(found.pointer("/items").and_then(Value::as_array).map(Vec::len), Some(2), "{found}");
}

#[test]
fn check_says_that_it_works_and_leaves_nothing() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    let traces = || {
        let n1 = world.n1();
        [n1.exec_ok("nft", &["list", "ruleset"]).unwrap(), n1.exec_ok("ip", &["-o", "link"]).unwrap()]
    };
    let before = traces();
    let checked = switchyard(&world, &["check", "--proxy-mode", "ipvs"]);
    assert_eq!((checked.status.code(), text(&checked.stderr)), (Some(0), ""), "{checked:?}");
    let answer = json(&switchyard(&world, &["check", "--proxy-mode", "ipvs", "-o", "json"]));
    let rows = answer.pointer("/items").and_then(Value::as_array).unwrap();
    let of_ipvs: Vec<&Value> = rows.iter().filter(|row| row.pointer("/mode").unwrap() == "ipvs").collect();
    assert_eq!(of_ipvs.len(), 2, "{answer}");
    assert!(of_ipvs.iter().all(|row| row.pointer("/works") == Some(&true.into())), "{answer}");
    assert_eq!(traces(), before);
    assert!(services(&world).is_empty());
}

/// The objects that a dry run lists.
fn listed(world: &World) -> BTreeSet<String> {
    let output = switchyard(world, &["cleanup", "--dry-run", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer = json(&output);
    let items = answer.pointer("/items").and_then(Value::as_array).unwrap().iter();
    let word = |item: &Value, key: &str| item.pointer(key).and_then(Value::as_str).unwrap().to_owned();
    items.map(|item| format!("{} {}", word(item, "/mode"), word(item, "/object"))).collect()
}

#[test]
fn everything_that_a_cleanup_removes_is_listed_before() {
    let Some(world) = answering() else { return };
    stop(&world);
    let ours: Vec<ServiceId> = services(&world).iter().map(|service| service.id).collect();
    assert!(ours.len() >= 4, "{ours:?}");
    let theirs = ServiceId { address: ip(world.n1(), Family::V4), protocol: 6, port: THEIRS };
    let mut service = services(&world).remove(0);
    service.id = theirs;
    send(&world, Command::AddService(service));
    let before = (services(&world), link_addresses(&world), world.rules());
    let servers = ours.iter().map(|id| format!("ipvs virtual server {id}"));
    let tables = Family::ALL.map(|family| format!("ipvs table switchyard-ipvs of {family}"));
    let all: BTreeSet<String> = servers.chain(tables).chain([format!("ipvs interface {LINK}")]).collect();
    assert_eq!(listed(&world), all);
    assert_eq!((services(&world), link_addresses(&world), world.rules()), before, "nothing was removed");
    let cleaned = switchyard(&world, &["cleanup"]);
    assert!(cleaned.status.success(), "{cleaned:?}");
    assert_eq!(listed(&world), BTreeSet::new());
    let left: Vec<ServiceId> = services(&world).iter().map(|service| service.id).collect();
    assert_eq!(left, [theirs]);
    assert!(link_addresses(&world).is_empty() && !world.has_rules());
}
