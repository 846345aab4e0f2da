//! The routes and the ruleset send every packet to the same place, but for what is listed in [`expected`].

use proptest::prelude::*;
use switchyard_model::{Family, ServicePort};

use super::*;
use crate::book::Book;
use crate::nft::{Config, Planner};
use crate::route::{Frontend, FrontendAddress};
use crate::testing::packets::{packet, packets};
use crate::testing::{World, all, arbitrary, node_addresses, range};
use crate::trace::through_routes;

mod check;

/// The Service ranges of these tests: 10.96.0.99 is in them, and nobody has it.
fn config(family: Family) -> Config {
    Config { service_cidrs: vec![range(family, "10.96.0.0/16")], ..Config::default() }
}

/// What the ruleset must answer where the routes answer `by_routes`. The differences are those of kube-proxy's nftables
/// mode to its iptables mode.
fn expected(book: &Book, node: &NodeAddresses, packet: &Packet, by_routes: Answer) -> Answer {
    let at = Frontend {
        address: FrontendAddress::Ip(packet.destination),
        protocol: packet.protocol,
        port: packet.port,
    };
    let owner = book.owner(&at);
    // Source ranges hold without endpoints, and for a load-balancer IP that is an external IP as well.
    if owner.is_some_and(|port| !is_allowed(book, port, packet)) {
        return Answer::Drop;
    }
    // No node ports on loopback addresses.
    if packet.destination.is_loopback() {
        return Answer::Untouched;
    }
    let is_here = is_own(node, packet.destination);
    if by_routes == Answer::Untouched && !is_here {
        // Unknown ports of a cluster IP are rejected.
        if book.ports().values().any(|port| port.cluster_ip == packet.destination) {
            return Answer::Reject;
        }
        // Cluster IPs that nobody has are dropped.
        if range(book.settings().family, "10.96.0.0/16").contains(&packet.destination) {
            return Answer::Drop;
        }
    }
    by_routes
}

fn is_allowed(book: &Book, port: &ServicePort, packet: &Packet) -> bool {
    let is_restricted =
        port.load_balancer_ips.contains(&packet.destination) && !port.source_ranges.is_empty();
    let is_node_allowed = port.source_ranges.iter().any(|r| r.contains(&book.settings().node_ip));
    !is_restricted
        || port.source_ranges.iter().any(|r| r.contains(&packet.source))
        || is_node_allowed && port.load_balancer_ips.contains(&packet.source)
}

/// The last difference: only endpoints of this node can be hairpins. Takes those of other nodes out of an answer.
fn without_remote_hairpins(book: &Book, packet: &Packet, answer: Answer) -> Answer {
    let at = |address| Frontend { address, protocol: packet.protocol, port: packet.port };
    let node_port = at(FrontendAddress::Node(book.settings().family));
    let owner = book.owner(&at(FrontendAddress::Ip(packet.destination))).or_else(|| book.owner(&node_port));
    let is_local = |at: &SocketAddr| {
        let mut all = owner.iter().flat_map(|port| &port.endpoints);
        all.any(|e| e.address == *at && e.is_on(&book.settings().node_name))
    };
    match answer {
        Answer::Endpoints(mut some) => {
            some.retain(|at, _| at.ip() != packet.source || is_local(at));
            Answer::Endpoints(some)
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn routes_and_ruleset_agree(
        (settings, ports) in arbitrary::family()
            .prop_flat_map(|f| (arbitrary::any_settings(f), arbitrary::service_ports(f))),
        some in proptest::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let family = settings.family;
        let mut book = Book::new(settings);
        book.update(all(&ports));
        let ruleset = Planner::new(config(family), book.clone()).ruleset();
        let node = node_addresses(family);
        let packets = packets(family);
        for packet in some.iter().map(|i| i.get(&packets)) {
            let by_routes = through_routes(&book, &node, packet);
            let wanted = expected(&book, &node, packet, by_routes);
            let got = ruleset.trace(&node, packet);
            prop_assert_eq!(
                without_remote_hairpins(&book, packet, got),
                without_remote_hairpins(&book, packet, wanted),
                "{:?}\n{}", packet, ruleset.to_text(family)
            );
        }
    }

    /// The mark never changes where a packet goes.
    #[test]
    fn the_mark_does_not_matter(
        ports in arbitrary::service_ports(Family::V4),
        mark in proptest::sample::select(vec![1_u32, 1 << 31]),
        i in any::<prop::sample::Index>(),
    ) {
        let mut book = World::new(Family::V4, "").book();
        book.update(all(&ports));
        let node = node_addresses(Family::V4);
        let packets = packets(Family::V4);
        let packet = i.get(&packets);
        let plain = Planner::new(Config::default(), book.clone()).ruleset();
        let special = Planner::new(Config { mark, ..Config::default() }, book).ruleset();
        prop_assert_eq!(plain.trace(&node, packet), special.trace(&node, packet));
    }
}
