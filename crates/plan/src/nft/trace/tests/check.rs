//! One packet at a time.

use switchyard_model::Protocol;

use super::*;
use crate::testing::clients::{FLOWS, LOCAL, NODE, OUTSIDE, POD, show};

/// Where the ruleset sends a packet: `endpoint` (source kept), `endpoint*` (masqueraded), reject, drop, untouched.
fn check(text: &str, from: (&str, &str), to: &str, port: u16, wanted: &str) {
    for family in Family::ALL {
        let world = World::new(family, text);
        let planner = Planner::new(config(family), world.book());
        let node = node_addresses(family);
        let packet = packet(family, from, to, Protocol::Tcp, port);
        assert_eq!(show(planner.ruleset().trace(&node, &packet)), wanted, "{family} ruleset");
        let by_routes = through_routes(planner.book(), &node, &packet);
        assert_eq!(show(expected(planner.book(), &node, &packet, by_routes)), wanted, "{family} routes");
    }
}

#[test]
fn local_policy_and_source_ranges_by_client() {
    for (from, to, port, wanted) in FLOWS {
        check(LOCAL, from, to, port, wanted);
    }
}

#[test]
fn source_ranges_hold_without_endpoints() {
    let text = "svc shop/web tcp 10.96.0.1:80 lb=198.51.100.1 from=8.8.0.0/16";
    check(text, OUTSIDE, "198.51.100.1", 80, "reject");
    check(text, ("9.9.9.9", "eth0"), "198.51.100.1", 80, "drop");
}

#[test]
fn source_ranges_that_overlap() {
    let text =
        "svc shop/web tcp 10.96.0.1:80 lb=198.51.100.1 from=8.0.0.0/8,8.8.0.0/16,8.8.8.0/24\nep 10.1.0.1:80";
    check(text, ("8.9.9.9", "eth0"), "198.51.100.1", 80, "10.1.0.1:80*");
    check(text, ("9.9.9.9", "eth0"), "198.51.100.1", 80, "drop");
}

/// Endpoints of other nodes are not in the set of hairpins: their packets do not come here, as a rule. Routes, and
/// iptables mode, would masquerade this one.
#[test]
fn a_pod_of_another_node_that_reaches_itself_keeps_its_address() {
    for family in Family::ALL {
        let world = World::new(family, LOCAL);
        let (planner, node) = (Planner::new(config(family), world.book()), node_addresses(family));
        let cidr = "svc a/x tcp 10.96.0.1:80\nep 10.1.1.1:8080 @there";
        let world = World::new(family, &format!("node detector=cidr:10.1.0.0/16\n{cidr}"));
        let remote = Planner::new(config(family), world.book());
        let packet = packet(family, ("10.1.1.1", "eth0"), "10.96.0.1", Protocol::Tcp, 80);
        assert_eq!(show(remote.ruleset().trace(&node, &packet)), "10.1.1.1:8080");
        assert_eq!(show(through_routes(remote.book(), &node, &packet)), "10.1.1.1:8080*");
        // Not told apart from outside clients: masqueraded anyway.
        assert_eq!(show(planner.ruleset().trace(&node, &packet)), "10.1.0.1:8080* 10.1.1.1:8080*");
    }
}

#[test]
fn refusals_reach_the_node_itself() {
    let text = "svc shop/web tcp 10.96.0.1:80 node=30080 ext=203.0.113.1";
    for from in [NODE, OUTSIDE] {
        check(text, from, "10.96.0.1", 80, "reject");
        check(text, from, "203.0.113.1", 80, "reject");
        check(text, from, "192.168.1.10", 30080, "reject");
    }
}

#[test]
fn unknown_ports_and_unallocated_cluster_ips() {
    let text = "svc shop/web tcp 10.96.0.1:80\nep 10.1.0.1:80";
    for from in [NODE, POD, OUTSIDE] {
        check(text, from, "10.96.0.1", 81, "reject");
        check(text, from, "10.96.0.99", 80, "drop");
        check(text, from, "8.8.4.4", 80, "untouched");
    }
}

#[test]
fn node_ports_on_some_addresses() {
    let text = "node nodeports=192.168.0.10,127.0.0.1 loopback=served
        svc shop/web tcp 10.96.0.1:80 node=30080\nep 10.1.0.1:80
        svc shop/none tcp 10.96.0.2:80 node=30081";
    check(text, OUTSIDE, "192.168.0.10", 30080, "10.1.0.1:80*");
    check(text, OUTSIDE, "192.168.1.10", 30080, "untouched");
    check(text, OUTSIDE, "192.168.0.10", 30081, "reject");
    check(text, OUTSIDE, "192.168.1.10", 30081, "untouched");
    check(text, ("127.0.0.1", "-"), "127.0.0.1", 30080, "untouched");
    check(text, ("127.0.0.1", "-"), "127.0.0.1", 30081, "untouched");
}

/// An endpoint in the network of this node sees the client, because such packets are never masqueraded.
#[test]
fn endpoints_of_the_node_itself_see_their_clients() {
    let text = "svc shop/web tcp 10.96.0.1:80 node=30080\nep 192.168.0.10:8080 @here\nep 10.1.0.1:8080 @here";
    check(text, OUTSIDE, "192.168.0.10", 30080, "10.1.0.1:8080* 192.168.0.10:8080");
    check(text, NODE, "10.96.0.1", 80, "10.1.0.1:8080 192.168.0.10:8080*");
}

#[test]
fn sticky_services_by_client() {
    let text = LOCAL.replace("etp=local", "etp=local sticky=60");
    check(&text, OUTSIDE, "203.0.113.1", 80, "10.1.0.1:8080");
    check(&text, POD, "203.0.113.1", 80, "10.1.0.1:8080 10.1.1.1:8080");
    check(&text, NODE, "192.168.0.10", 30080, "10.1.0.1:8080* 10.1.1.1:8080*");
}

/// A node's address as external IP, with a port that is also another Service's node port: the external IP's refusal
/// comes first. iptables goes on to node ports here.
#[test]
fn an_external_ip_comes_before_node_ports() {
    let text = "svc a/silent tcp 10.96.0.1:30080 ext=192.168.0.10 etp=local\n ep 10.1.1.1:80 @there
        svc b/loud tcp 10.96.0.2:80 node=30080";
    check(text, OUTSIDE, "192.168.0.10", 30080, "drop");
    let text = format!("{text}\n ep 10.1.1.2:80 @there");
    check(&text, OUTSIDE, "192.168.0.10", 30080, "drop");
}

/// One Service names an address twice, or its own cluster IP as an external one: the first route counts, as in routes.
#[test]
fn an_address_named_twice() {
    let text = "node detector=prefix:cali
        svc a/x tcp 10.96.0.1:80 ext=10.96.0.1,203.0.113.1 lb=203.0.113.1\nep 10.1.0.1:80";
    check(text, POD, "10.96.0.1", 80, "10.1.0.1:80");
    check(text, OUTSIDE, "203.0.113.1", 80, "10.1.0.1:80*");
}
