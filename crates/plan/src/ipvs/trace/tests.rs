//! The routes, and the table with its virtual servers, send every packet to the same place, but for what is in [`expected`].

use std::collections::BTreeMap;

use proptest::prelude::*;
use switchyard_model::{Family, TrafficPolicy};

use super::*;
use crate::book::Book;
use crate::ipvs::Config;
use crate::route::{Frontend, FrontendAddress, FrontendKind};
use crate::testing::clients::{LOCAL, NODE, OUTSIDE, POD, show};
use crate::testing::packets::{packet, packets};
use crate::testing::{World, all, arbitrary, node_addresses};
use crate::trace::{Seen, is_local_pod, is_own, through_routes};

fn config(family: Family) -> Config {
    Config {
        own: node_addresses(family).into_iter().filter(|ip| !ip.is_loopback()).collect(),
        ..Config::default()
    }
}

/// What must be answered where the routes answer `by_routes`.
fn expected(whole: &Whole, book: &Book, node: &NodeAddresses, packet: &Packet, by_routes: Answer) -> Answer {
    let at = |address| Frontend { address, protocol: packet.protocol, port: packet.port };
    let (named, family) = (at(FrontendAddress::Ip(packet.destination)), book.settings().family);
    if book.owner(&named).is_some_and(|port| !is_allowed(book, port, packet)) {
        return Answer::Drop; // Source ranges hold without endpoints.
    }
    if packet.destination.is_loopback() {
        return Answer::Untouched; // No node ports on loopback addresses.
    }
    let is_virtual = whole
        .ruleset
        .elements
        .contains_key(&Place { set: Set::VirtualIps, key: Key::Address(packet.destination) });
    if by_routes == Answer::Untouched && is_virtual {
        return Answer::Reject; // Unknown ports of virtual addresses.
    }
    // Local policy: local clients get the endpoints of this node as well, if there are any.
    let Answer::Endpoints(_) = by_routes else { return by_routes };
    let node_port = at(FrontendAddress::Node(family));
    let frontend = if book.owner(&named).is_some() { named } else { node_port };
    let Some(port) = book.owner(&frontend) else { return by_routes };
    let routes = book.routes(port);
    let is_external = routes
        .routes
        .iter()
        .find(|r| r.frontend == frontend)
        .is_some_and(|r| r.kind != FrontendKind::ClusterIp);
    if !is_external || port.external_policy == TrafficPolicy::Cluster || routes.choice.local.is_empty() {
        return by_routes;
    }
    let is_masqueraded = !is_local_pod(book.settings(), packet) && is_own(node, packet.source);
    let seen = |ip| {
        let stays_here = packet.interface.is_some() && is_own(node, ip);
        if (is_masqueraded || ip == packet.source) && !stays_here { Seen::Node } else { Seen::Client }
    };
    let local = routes.choice.local.iter().map(|e| (e.address, seen(e.address.ip())));
    Answer::Endpoints(local.collect::<BTreeMap<_, _>>())
}

fn is_allowed(book: &Book, port: &switchyard_model::ServicePort, packet: &Packet) -> bool {
    let is_restricted =
        port.load_balancer_ips.contains(&packet.destination) && !port.source_ranges.is_empty();
    let is_node_allowed = port.source_ranges.iter().any(|r| r.contains(&book.settings().node_ip));
    !is_restricted
        || port.source_ranges.iter().any(|r| r.contains(&packet.source))
        || is_node_allowed && port.load_balancer_ips.contains(&packet.source)
}

/// Only endpoints of this node can be hairpins: takes those of other nodes out of an answer.
fn without_remote_hairpins(book: &Book, packet: &Packet, answer: Answer) -> Answer {
    let all = || book.ports().values().flat_map(|port| &port.endpoints);
    let is_remote = |ip| all().any(|e| e.address.ip() == ip && !e.is_on(&book.settings().node_name));
    match answer {
        Answer::Endpoints(mut some) => {
            some.retain(|at, _| at.ip() != packet.source || !is_remote(at.ip()));
            Answer::Endpoints(some)
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn routes_and_virtual_servers_agree(
        (settings, ports) in arbitrary::family()
            .prop_flat_map(|f| (arbitrary::any_settings(f), arbitrary::service_ports(f))),
        some in proptest::collection::vec(any::<prop::sample::Index>(), 200),
    ) {
        let family = settings.family;
        let mut book = Book::new(settings);
        book.update(all(&ports));
        let whole = Planner::new(config(family), book.clone()).whole();
        let (node, packets) = (node_addresses(family), packets(family));
        for packet in some.iter().map(|i| i.get(&packets)) {
            // The kernel drops what comes in from an address of its own.
            let virtual_ip = Place { set: Set::VirtualIps, key: Key::Address(packet.source) };
            if packet.interface.is_some() && whole.ruleset.elements.contains_key(&virtual_ip) {
                continue;
            }
            let by_routes = through_routes(&book, &node, packet);
            let wanted = expected(&whole, &book, &node, packet, by_routes);
            prop_assert_eq!(
                without_remote_hairpins(&book, packet, whole.trace(&node, packet)),
                without_remote_hairpins(&book, packet, wanted),
                "{:?}\n{}", packet, whole.ruleset.to_text(family)
            );
        }
    }
}

fn check(text: &str, from: (&str, &str), to: &str, port: u16, wanted: &str) {
    for family in Family::ALL {
        let planner = Planner::new(config(family), World::new(family, text).book());
        let packet = packet(family, from, to, switchyard_model::Protocol::Tcp, port);
        assert_eq!(
            show(planner.whole().trace(&node_addresses(family), &packet)),
            wanted,
            "{family} {packet:?}"
        );
    }
}

#[test]
fn local_policy_by_client() {
    check(LOCAL, OUTSIDE, "203.0.113.1", 80, "10.1.0.1:8080");
    check(LOCAL, POD, "203.0.113.1", 80, "10.1.0.1:8080");
    check(LOCAL, NODE, "192.168.0.10", 30080, "10.1.0.1:8080*");
    check(LOCAL, OUTSIDE, "10.96.0.1", 80, "10.1.0.1:8080* 10.1.1.1:8080*");
    check(LOCAL, POD, "198.51.100.1", 80, "drop");
    let none_here = LOCAL.replace("ep 10.1.0.1:8080 @here", "");
    check(&none_here, OUTSIDE, "203.0.113.1", 80, "drop");
    check(&none_here, OUTSIDE, "192.168.0.10", 30080, "drop");
    check(&none_here, POD, "203.0.113.1", 80, "10.1.1.1:8080");
    check(&none_here, NODE, "192.168.0.10", 30080, "10.1.1.1:8080*");
    let inside = "svc a/x tcp 10.96.0.1:80 itp=local\n ep 10.1.1.1:80 @there";
    check(inside, POD, "10.96.0.1", 80, "drop");
}

#[test]
fn what_the_node_sends_to_a_virtual_address_is_masqueraded_also_if_pods_cannot_be_told() {
    let text = "svc a/x tcp 10.96.0.1:80\n ep 10.1.1.1:80 @there";
    check(text, ("10.96.0.1", "-"), "10.96.0.1", 80, "10.1.1.1:80*");
    check(text, POD, "10.96.0.1", 80, "10.1.1.1:80");
}

#[test]
fn other_ports_of_virtual_addresses_are_closed_but_for_health_checks() {
    let text = "svc a/x tcp 10.96.0.1:80 lb=198.51.100.1 etp=local health=32000\n ep 10.1.0.1:80 @here";
    for from in [NODE, POD, OUTSIDE] {
        check(text, from, "10.96.0.1", 22, "reject");
        check(text, from, "198.51.100.1", 22, "reject");
        check(text, from, "198.51.100.1", 32000, "untouched");
        check(text, from, "192.168.0.10", 22, "untouched");
    }
}
