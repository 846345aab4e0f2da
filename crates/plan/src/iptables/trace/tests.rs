//! The routes and the rules send every packet to the same place.

use std::net::IpAddr;

use proptest::prelude::*;
use proptest::sample::select;
use switchyard_model::{Family, Protocol};

use super::*;
use crate::book::Book;
use crate::iptables::{Config, Planner};
use crate::route::{Frontend, FrontendAddress, Verdict};
use crate::testing::clients::{FLOWS, LOCAL, NODE, OUTSIDE, show};
use crate::testing::packets::{packet, packets};
use crate::testing::{World, address, all, arbitrary, node_addresses};
use crate::trace::through_routes;

/// What the rules must answer where the routes answer `by_routes`. Two differences are kube-proxy's own.
fn expected(book: &Book, node: &NodeAddresses, packet: &Packet, by_routes: Answer) -> Answer {
    let is_here = is_own(node, packet.destination);
    let at = |address| Frontend { address, protocol: packet.protocol, port: packet.port };
    // KUBE-EXTERNAL-SERVICES is not hooked into OUTPUT: the node's own packets are not rejected on their way out.
    if packet.interface.is_none() && by_routes == Answer::Reject && !is_here {
        let owner = book.owner(&at(FrontendAddress::Ip(packet.destination)));
        let is_cluster_ip = owner.is_some_and(|port| port.cluster_ip == packet.destination);
        return if is_cluster_ip { Answer::Reject } else { Answer::Untouched };
    }
    // Refusals of node ports match every local address, also those that do not serve node ports.
    let is_silent = is_here && !book.settings().serves_node_ports_on(packet.destination);
    if by_routes == Answer::Untouched && is_silent {
        let owner = book.owner(&at(FrontendAddress::Node(Family::of(packet.destination))));
        return match owner.map(|port| book.routes(port).external_default()) {
            Some(Verdict::Reject) => Answer::Reject,
            Some(Verdict::Drop) => Answer::Drop,
            _ => Answer::Untouched,
        };
    }
    by_routes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn routes_and_rules_agree(
        (settings, ports) in arbitrary::family()
            .prop_flat_map(|f| (arbitrary::any_settings(f), arbitrary::service_ports(f))),
        some in proptest::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let family = settings.family;
        let mut book = Book::new(settings);
        book.update(all(&ports));
        let ruleset = Planner::new(Config::default(), book.clone()).ruleset();
        let node = node_addresses(family);
        let packets = packets(family);
        for packet in some.iter().map(|i| i.get(&packets)) {
            let by_routes = through_routes(&book, &node, packet);
            let wanted = expected(&book, &node, packet, by_routes);
            prop_assert_eq!(ruleset.trace(&node, packet), wanted, "{:?}\n{}", packet, ruleset.to_text());
        }
    }

    /// Counters, marks and comments never change where a packet goes.
    #[test]
    fn configuration_does_not_matter(
        ports in arbitrary::service_ports(Family::V4),
        mark in select(vec![1_u32, 1 << 14, 1 << 31]),
        i in any::<prop::sample::Index>(),
    ) {
        let world = World::new(Family::V4, "node loopback=served\niptables counters liberal plain-ports");
        let mut book = world.book();
        book.update(all(&ports));
        let node = node_addresses(Family::V4);
        let packets = packets(Family::V4);
        let packet = i.get(&packets);
        let plain = Planner::new(Config::default(), book.clone()).ruleset();
        let special = Planner::new(Config { mark, ..world.config }, book).ruleset();
        prop_assert_eq!(plain.trace(&node, packet), special.trace(&node, packet));
    }
}

/// Where both tracers say a packet goes: `endpoint` (source kept), `endpoint*` (masqueraded), reject, drop, untouched.
fn check(text: &str, from: (&str, &str), to: &str, port: u16, wanted: &str) {
    for family in Family::ALL {
        let world = World::new(family, text);
        let planner = world.planner();
        let node = node_addresses(family);
        let packet = packet(family, from, to, Protocol::Tcp, port);
        let shown = show(planner.ruleset().trace(&node, &packet));
        assert_eq!(shown, wanted, "{family} rules");
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
fn rejected_packets_of_the_node_itself() {
    let text = "svc shop/web tcp 10.96.0.1:80 node=30080 ext=203.0.113.1";
    check(text, NODE, "10.96.0.1", 80, "reject");
    check(text, NODE, "203.0.113.1", 80, "untouched");
    check(text, NODE, "192.168.1.10", 30080, "reject");
    check(text, OUTSIDE, "203.0.113.1", 80, "reject");
}

/// An endpoint in the network of this node sees the client, because such packets are never masqueraded.
#[test]
fn endpoints_of_the_node_itself_see_their_clients() {
    let text = "svc shop/web tcp 10.96.0.1:80 node=30080\nep 192.168.0.10:8080 @here\nep 10.1.0.1:8080 @here";
    check(text, OUTSIDE, "192.168.0.10", 30080, "10.1.0.1:8080* 192.168.0.10:8080");
    check(text, NODE, "10.96.0.1", 80, "10.1.0.1:8080 192.168.0.10:8080*");
}

#[test]
fn node_ports_on_loopback() {
    let text = "svc shop/web tcp 10.96.0.1:80 node=30080\nep 10.1.0.1:8080";
    check(text, ("127.0.0.1", "-"), "127.0.0.1", 30080, "untouched");
    // Every loopback address counts, in IPv4 and where they are served.
    let world = World::new(Family::V4, &format!("node loopback=served\n{text}"));
    let packet = Packet {
        destination: IpAddr::from([127, 9, 9, 9]),
        ..packet(Family::V4, ("127.0.0.1", "-"), "127.0.0.1", Protocol::Tcp, 30080)
    };
    let node = node_addresses(Family::V4);
    assert_eq!(show(world.planner().ruleset().trace(&node, &packet)), "10.1.0.1:8080*");
    assert_eq!(show(through_routes(&world.book(), &node, &packet)), "10.1.0.1:8080*");
    // IPv6 never serves them.
    let world = World::new(Family::V6, &format!("node loopback=served nodeports=127.0.0.1\n{text}"));
    assert!(!world.settings.serves_node_ports_on(address(Family::V6, "127.0.0.1")));
}

/// A node's address as external IP, with a port that is also another Service's node port: where the external IP has no
/// endpoint for outsiders, kube-proxy's rules go on to node ports. Routes say what the other modes do.
#[test]
fn rules_go_on_to_node_ports_where_an_external_ip_has_no_local_endpoint() {
    let text = "svc a/silent tcp 10.96.0.1:30080 ext=192.168.0.10 etp=local\n ep 10.1.1.1:80 @there
        svc b/loud tcp 10.96.0.2:80 node=30080\n ep 10.1.1.2:80 @there";
    for family in Family::ALL {
        let world = World::new(family, text);
        let (planner, node) = (world.planner(), node_addresses(family));
        let packet = packet(family, OUTSIDE, "192.168.0.10", Protocol::Tcp, 30080);
        assert_eq!(show(planner.ruleset().trace(&node, &packet)), "10.1.1.2:80*");
        assert_eq!(show(through_routes(planner.book(), &node, &packet)), "drop");
    }
}
