//! What is explained is what a mode's tracer does with the packet, for any Services; and what is said to do it is there.

use proptest::prelude::*;

use super::*;
use crate::settings::{LoopbackNodePorts, Settings};
use crate::testing::packets::packets;
use crate::testing::{all, arbitrary};
use crate::{ipvs, nft};

/// Only endpoints of this node can be hairpins: takes those of other nodes out of an answer.
fn without_remote_hairpins(book: &Book, packet: &Packet, answer: Answer) -> Answer {
    let endpoints = || book.ports().values().flat_map(|port| &port.endpoints);
    let is_remote = |ip| endpoints().any(|e| e.address.ip() == ip && !e.is_on(&book.settings().node_name));
    match answer {
        Answer::Endpoints(mut some) => {
            some.retain(|at, _| at.ip() != packet.source || !is_remote(at.ip()));
            Answer::Endpoints(some)
        }
        other => other,
    }
}

/// Which of these lines the ruleset has not got.
fn missing(lines: &[String], ruleset: &nft::planner::Ruleset, family: Family) -> Vec<String> {
    let elements = ruleset.elements.iter().map(|(place, data)| place.to_text(data));
    let chains = ruleset.chains.keys().map(|name| format!("chain {name}"));
    let in_chain = |chain: &nft::base::Chain| {
        let line = |rule: &nft::rule::Rule| rule.to_line(family, &chain.name);
        chain.rules.iter().map(line).collect::<Vec<_>>()
    };
    let rules = ruleset.chains.values().flat_map(in_chain);
    let there: BTreeSet<String> = elements.chain(chains).chain(rules).collect();
    let is_named_there = |line: &&String| line.contains("virtual server ") || there.contains(*line);
    lines.iter().filter(|line| !is_named_there(line)).cloned().collect()
}

/// Who refuses names what does it, and who leaves a packet alone has nothing to name.
fn has_means(explanation: &Explanation<'_>, lines: &[String]) -> bool {
    match explanation.answer {
        Answer::Untouched => lines.is_empty(),
        _ => !lines.is_empty(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn in_nftables_mode(
        (settings, ports) in arbitrary::family()
            .prop_flat_map(|f| (arbitrary::any_settings(f), arbitrary::service_ports(f))),
        some in proptest::collection::vec(any::<prop::sample::Index>(), 100),
    ) {
        let family = settings.family;
        // This mode serves no node ports there, and settings of a running agent say so.
        let settings = Settings { loopback_node_ports: LoopbackNodePorts::Refused, ..settings };
        let config = nft::Config { service_cidrs: vec![range(family, "10.96.0.0/16")], ..Default::default() };
        let mut planner = nft::Planner::new(config, Book::new(settings));
        planner.partial(all(&ports));
        let (ruleset, node, packets) = (planner.ruleset(), node_addresses(family), packets(family));
        let manners = Manners::Strict { service_cidrs: &planner.config().service_cidrs };
        for packet in some.iter().map(|i| i.get(&packets)) {
            let book = planner.book();
            let explanation = explain(Place { book, node: &node, manners: &manners }, packet);
            let lines = planner.means(&explanation, packet);
            prop_assert!(has_means(&explanation, &lines), "{:?}", explanation);
            prop_assert_eq!(missing(&lines, &ruleset, family), Vec::<String>::new(), "{:?}", explanation);
            prop_assert_eq!(
                without_remote_hairpins(book, packet, ruleset.trace(&node, packet)),
                without_remote_hairpins(book, packet, explanation.answer.clone()),
                "{:?}\n{}", packet, ruleset.to_text(family)
            );
        }
    }

    #[test]
    fn in_ipvs_mode(
        (settings, ports) in arbitrary::family()
            .prop_flat_map(|f| (arbitrary::any_settings(f), arbitrary::service_ports(f))),
        some in proptest::collection::vec(any::<prop::sample::Index>(), 100),
    ) {
        let family = settings.family;
        let settings = Settings { loopback_node_ports: LoopbackNodePorts::Refused, ..settings };
        let mut book = Book::new(settings);
        book.update(all(&ports));
        let own = node_addresses(family).into_iter().filter(|ip| !ip.is_loopback()).collect();
        let planner = ipvs::Planner::new(ipvs::Config { own, ..Default::default() }, book);
        let (whole, mut node, packets) = (planner.whole(), node_addresses(family), packets(family));
        // As the agent sees it, they are the node's.
        node.extend(whole.virtual_ips());
        let ipvs::Config { scheduler, own, .. } = planner.config();
        let manners = Manners::Balanced { scheduler, own };
        for packet in some.iter().map(|i| i.get(&packets)) {
            let is_virtual = |ip| whole.virtual_ips().any(|virtual_ip| virtual_ip == ip);
            // The kernel drops what comes in from an address of its own, and a node does not talk to others from loopback addresses.
            if packet.interface.is_some() && is_virtual(packet.source) || packet.source.is_loopback() {
                continue;
            }
            let book = planner.book();
            let explanation = explain(Place { book, node: &node, manners: &manners }, packet);
            let lines = planner.means(&explanation, packet);
            prop_assert!(has_means(&explanation, &lines), "{:?}", explanation);
            prop_assert_eq!(missing(&lines, &whole.ruleset, family), Vec::<String>::new(), "{:?}", explanation);
            // What a node sends to a virtual address, which is its own, comes from that address.
            let is_to_itself = is_virtual(packet.destination) && packet.interface.is_none();
            let source = if is_to_itself { packet.destination } else { packet.source };
            let sent = Packet { source, ..packet.clone() };
            prop_assert_eq!(
                without_remote_hairpins(book, packet, whole.trace(&node, &sent)),
                without_remote_hairpins(book, packet, explanation.answer.clone()),
                "{:?}\n{}", packet, whole.ruleset.to_text(family)
            );
        }
    }
}
