//! Which flows go and which stay.

use std::sync::Arc;

use proptest::prelude::*;
use switchyard_model::Family;

use super::*;
use crate::book::PortChanges;
use crate::testing::{World, address, all, arbitrary, node_addresses, socket};

/// What is said of flows `dialled -> answers` after a book with `before` got `after`; `!` marks the stale ones.
fn check(before: &str, after: &str, flows: &[(&str, &str, &str)]) {
    for family in Family::ALL {
        let (old, new) = (World::new(family, before), World::new(family, after));
        let mut book = old.book();
        let mut changes: PortChanges = old.ports.iter().map(|p| (p.name.clone(), None)).collect();
        changes.extend(all(&new.ports));
        let replaced = book.update(changes);
        let expectations = of_changes(&book, &replaced, node_addresses(family));
        judge(family, &expectations, flows);
    }
}

fn judge(family: Family, expectations: &Expectations, flows: &[(&str, &str, &str)]) {
    for (protocol, dialled, answers) in flows {
        let (protocol, is_stale) = protocol.strip_prefix('!').map_or((*protocol, false), |p| (p, true));
        let protocol = Protocol::from_api(&protocol.to_uppercase()).unwrap().number();
        let flow = Flow { protocol, dialled: socket(family, dialled), answers: socket(family, answers) };
        assert_eq!(expectations.is_stale(&flow), is_stale, "{family} {dialled} {answers}");
        if is_stale {
            assert!(is_asked_for(expectations, &flow), "{family} {dialled} {answers}");
        }
    }
}

fn is_asked_for(expectations: &Expectations, flow: &Flow) -> bool {
    expectations.questions().iter().any(|q| {
        q.protocol.number() == flow.protocol
            && q.address.is_none_or(|ip| ip == flow.dialled.ip())
            && q.port.is_none_or(|port| port == flow.dialled.port())
    })
}

const DNS: &str = "svc kube-system/dns:dns udp 10.96.0.10:53 node=30053 ext=203.0.113.1 lb=198.51.100.1\n";

#[test]
fn flows_to_an_endpoint_that_is_gone_are_stale_on_every_frontend() {
    check(
        &format!("{DNS} ep 10.1.0.1:53\n ep 10.1.0.2:53"),
        &format!("{DNS} ep 10.1.0.2:53"),
        &[
            ("!udp", "10.96.0.10:53", "10.1.0.1:53"),
            ("!udp", "203.0.113.1:53", "10.1.0.1:53"),
            ("!udp", "198.51.100.1:53", "10.1.0.1:53"),
            ("!udp", "192.168.0.10:30053", "10.1.0.1:53"),
            ("udp", "10.96.0.10:53", "10.1.0.2:53"),
            ("udp", "192.168.1.10:30053", "10.1.0.2:53"),
            ("tcp", "10.96.0.10:53", "10.1.0.1:53"),
            ("sctp", "10.96.0.10:53", "10.1.0.1:53"),
            ("udp", "10.96.0.10:54", "10.1.0.1:53"),
            ("udp", "10.96.0.11:53", "10.1.0.1:53"),
        ],
    );
}

#[test]
fn the_endpoints_port_counts() {
    check(
        &format!("{DNS} ep 10.1.0.1:53"),
        &format!("{DNS} ep 10.1.0.1:5353"),
        &[("!udp", "10.96.0.10:53", "10.1.0.1:53"), ("udp", "10.96.0.10:53", "10.1.0.1:5353")],
    );
}

#[test]
fn serving_endpoints_keep_their_flows_whatever_new_ones_do() {
    check(
        &format!("{DNS} ep 10.1.0.1:53"),
        &format!(
            "{DNS} ep 10.1.0.1:53 terminating
             ep 10.1.0.2:53 serving-not-ready
             ep 10.1.0.3:53 @there zones=b
             ep 10.1.0.4:53 ready-not-serving
             ep 10.1.0.5:53 dead
             ep 10.1.0.6:53 starting
             ep 10.1.0.7:53 zones=a"
        ),
        &[
            ("udp", "10.96.0.10:53", "10.1.0.1:53"),
            ("udp", "10.96.0.10:53", "10.1.0.2:53"),
            ("udp", "10.96.0.10:53", "10.1.0.3:53"),
            ("udp", "10.96.0.10:53", "10.1.0.4:53"),
            ("!udp", "10.96.0.10:53", "10.1.0.5:53"),
            ("!udp", "10.96.0.10:53", "10.1.0.6:53"),
        ],
    );
}

#[test]
fn no_endpoints_and_no_service_expect_no_flow() {
    let flows = [
        ("!udp", "10.96.0.10:53", "10.1.0.1:53"),
        ("!udp", "203.0.113.1:53", "10.1.0.1:53"),
        ("!udp", "192.168.0.10:30053", "10.1.0.1:53"),
        ("udp", "192.168.0.77:30053", "10.1.0.1:53"),
    ];
    check(&format!("{DNS} ep 10.1.0.1:53"), DNS, &flows);
    check(&format!("{DNS} ep 10.1.0.1:53"), "", &flows);
}

#[test]
fn a_frontend_that_a_service_gives_up_expects_no_flow() {
    check(
        &format!("{DNS} ep 10.1.0.1:53"),
        "svc kube-system/dns:dns udp 10.96.0.10:53\n ep 10.1.0.1:53",
        &[
            ("udp", "10.96.0.10:53", "10.1.0.1:53"),
            ("!udp", "203.0.113.1:53", "10.1.0.1:53"),
            ("!udp", "192.168.0.10:30053", "10.1.0.1:53"),
        ],
    );
}

#[test]
fn flows_from_before_the_service_existed_are_stale() {
    check(
        "",
        &format!("{DNS} ep 10.1.0.1:53"),
        &[
            ("!udp", "10.96.0.10:53", "10.96.0.10:53"),
            ("!udp", "192.168.0.10:30053", "192.168.0.10:30053"),
            ("udp", "10.96.0.10:54", "10.96.0.10:54"),
        ],
    );
}

#[test]
fn node_ports_are_only_on_node_addresses() {
    check(
        &format!("{DNS} ep 10.1.0.1:53"),
        &format!("{DNS} ep 10.1.0.2:53"),
        &[
            ("!udp", "192.168.1.10:30053", "10.1.0.1:53"),
            ("!udp", "127.0.0.1:30053", "10.1.0.1:53"),
            ("udp", "8.8.8.8:30053", "8.8.8.8:30053"),
            ("udp", "10.1.0.9:30053", "10.1.0.1:53"),
        ],
    );
}

#[test]
fn sctp_is_judged_and_tcp_is_not() {
    let service = |protocol| format!("svc a/b {protocol} 10.96.0.1:80\n ep 10.1.0.1:80");
    check(&service("sctp"), "", &[("!sctp", "10.96.0.1:80", "10.1.0.1:80")]);
    for family in Family::ALL {
        let mut book = World::new(family, "").book();
        let replaced = book.update(all(&World::new(family, &service("tcp")).ports));
        let expectations = of_changes(&book, &replaced, node_addresses(family));
        assert!(expectations.is_empty() && expectations.questions().is_empty());
    }
}

#[test]
fn who_inherits_a_frontend_decides() {
    let young = "svc a/young udp 10.96.0.2:53 ext=203.0.113.1 created=9\n ep 10.1.0.2:53\n";
    check(
        &format!("{young} svc z/old udp 10.96.0.1:53 ext=203.0.113.1 created=1\n ep 10.1.0.1:53"),
        young,
        &[("!udp", "203.0.113.1:53", "10.1.0.1:53"), ("udp", "203.0.113.1:53", "10.1.0.2:53")],
    );
    check(
        young,
        &format!("{young} svc z/old udp 10.96.0.1:53 ext=203.0.113.1 created=1\n ep 10.1.0.1:53"),
        &[("udp", "203.0.113.1:53", "10.1.0.1:53"), ("!udp", "203.0.113.1:53", "10.1.0.2:53")],
    );
}

#[test]
fn at_start_every_known_frontend_is_judged_and_nothing_else() {
    for family in Family::ALL {
        let world = World::new(family, &format!("{DNS} ep 10.1.0.1:53"));
        let expectations = of_everything(&world.book(), node_addresses(family));
        judge(
            family,
            &expectations,
            &[
                ("udp", "10.96.0.10:53", "10.1.0.1:53"),
                ("!udp", "10.96.0.10:53", "10.1.0.9:53"),
                ("!udp", "10.96.0.10:53", "10.96.0.10:53"),
                // Another proxy on this node may serve it.
                ("udp", "10.96.7.7:53", "10.1.0.9:53"),
                ("udp", "10.96.7.7:53", "10.96.7.7:53"),
                ("!udp", "192.168.0.10:30053", "10.1.0.9:53"),
                ("udp", "192.168.0.10:53", "192.168.0.10:53"),
                ("tcp", "10.96.7.7:53", "10.1.0.9:53"),
            ],
        );
        assert!(of_everything(&World::new(family, "").book(), node_addresses(family)).is_empty());
    }
}

#[test]
fn few_frontends_get_a_question_each_and_many_get_one_for_all() {
    let ask = |text: &str| {
        let mut book = World::new(Family::V4, "").book();
        let replaced = book.update(all(&World::new(Family::V4, text).ports));
        of_changes(&book, &replaced, node_addresses(Family::V4)).questions()
    };
    let udp = Protocol::Udp;
    let one = |ip| Question { protocol: udp, address: Some(address(Family::V4, ip)), port: Some(53) };
    let node_port = Question { protocol: udp, address: None, port: Some(30053) };
    let expected = [one("10.96.0.10"), one("203.0.113.1"), one("198.51.100.1"), node_port];
    assert_eq!(ask(DNS), expected.into());
    let many: String = (0..17).map(|i| format!("svc a/s{i} udp 10.96.1.{i}:53\n")).collect();
    let everything = |protocol| Question { protocol, address: None, port: None };
    assert_eq!(ask(&many), [everything(udp), everything(Protocol::Sctp)].into());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Every flow that is stale is in the answer to some question, and no flow to a serving endpoint of the frontend's
    /// owner is stale.
    #[test]
    fn questions_cover_every_stale_flow(
        (family, before, after) in arbitrary::family().prop_flat_map(|f| {
            let changes = || proptest::collection::vec(arbitrary::change(f), 0..6);
            (Just(f), changes(), changes())
        }),
        is_start in any::<bool>(),
    ) {
        let arced = |list: Vec<_>| -> PortChanges {
            list.into_iter().map(|(name, port): (_, Option<ServicePort>)| (name, port.map(Arc::new))).collect()
        };
        let mut book = World::new(family, "").book();
        book.update(arced(before));
        let replaced = book.update(arced(after));
        let nodes = node_addresses(family);
        let expectations = if is_start {
            of_everything(&book, nodes)
        } else {
            of_changes(&book, &replaced, nodes)
        };
        for flow in flows(family) {
            let is_stale = expectations.is_stale(&flow);
            prop_assert!(!is_stale || is_asked_for(&expectations, &flow), "{flow:?}");
            let protocol = if flow.protocol == 17 { Protocol::Udp } else { Protocol::Sctp };
            let (address, port) = (FrontendAddress::Ip(flow.dialled.ip()), flow.dialled.port());
            if let Some(owner) = book.owner(&Frontend { address, protocol, port }) {
                let at = |e: &&switchyard_model::Endpoint| e.address == flow.answers;
                let is_serving = owner.endpoints.iter().find(at).is_some_and(|e| e.conditions.serving);
                prop_assert!(!(is_stale && is_serving), "{flow:?}");
            }
        }
    }
}

/// Flows from every frontend of the universe to every endpoint.
fn flows(family: Family) -> Vec<Flow> {
    let ips = (1..=7).map(|i| format!("10.96.0.{i}"));
    let ips = ips.chain(arbitrary::EXTERNAL.iter().chain(&arbitrary::LOAD_BALANCERS).map(|s| s.to_string()));
    let mut flows = Vec::new();
    for ip in ips.chain(["192.168.1.10".into(), "127.0.0.1".into(), "8.8.8.8".into()]) {
        for port in [80, 30001, 30002] {
            for answers in arbitrary::ENDPOINTS {
                for protocol in [6, 17, 132] {
                    let dialled = SocketAddr::new(address(family, &ip), port);
                    flows.push(Flow { protocol, dialled, answers: socket(family, answers) });
                    flows.push(Flow { protocol, dialled, answers: dialled });
                }
            }
        }
    }
    flows
}
