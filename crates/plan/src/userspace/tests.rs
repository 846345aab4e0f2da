//! Stand-ins are treated as what they stand for; doors on loopback by example.

use std::fmt::Write;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use switchyard_model::Family;

use super::*;
use crate::book::Book;
use crate::nft::planner::Ruleset;
use crate::nft::{Config, Planner};
use crate::route::routes;
use crate::testing::{World, address, all, arbitrary, node_addresses, plain_socket};
use crate::trace::{Answer, Packet};

fn at(family: Family, door: Door) -> Option<SocketAddr> {
    let port = match door {
        Door::Cluster => 40_001,
        Door::Local => 40_002,
        _ => return None,
    };
    Some(SocketAddr::new(address(family, "192.168.0.10"), port))
}

proptest! {
    #[test]
    fn rules_treat_a_stand_in_as_they_would_the_service_port(
        (family, settings, ports) in arbitrary::family().prop_flat_map(|family| {
            (Just(family), arbitrary::any_settings(family), arbitrary::service_ports(family))
        })
    ) {
        for port in ports.iter().filter(|port| is_relayed(port.name.protocol)) {
            let real = routes(&settings, port, |_| false);
            let listeners = behind_rules(&real);
            let opened = |door| listeners.iter().any(|l| l.door == door).then(|| at(family, door)).flatten();
            let fake = stand_in(&settings, &real, opened);
            let seen = routes(&settings, &fake, |_| false);
            prop_assert_eq!(&real.routes, &seen.routes);
            for (pool, door) in [(Pool::Cluster, Door::Cluster), (Pool::Local, Door::Local)] {
                let is_used = real.routes.iter().flat_map(|r| &r.branches).any(|b| b.verdict == Verdict::Pick(pool));
                if is_used {
                    let behind: Vec<_> = targets(&real, pool);
                    let found = listeners.iter().find(|l| l.door == door).map(|l| l.targets.clone());
                    prop_assert!(!behind.is_empty());
                    prop_assert_eq!(found, Some(behind));
                    prop_assert_eq!(targets(&seen, pool), vec![at(family, door).unwrap()]);
                }
            }
            prop_assert!(fake.affinity.is_none(), "the relay remembers clients itself");
        }
    }

    #[test]
    fn every_frontend_has_one_door_on_loopback(
        (settings, ports) in arbitrary::family().prop_flat_map(|family| {
            (arbitrary::any_settings(family), arbitrary::service_ports(family))
        })
    ) {
        for port in &ports {
            let real = routes(&settings, port, |_| false);
            let doors = on_loopback(&settings, &real);
            let frontends: BTreeSet<_> = real.routes.iter().map(|r| r.frontend).collect();
            let reached: BTreeSet<_> = doors.iter().filter_map(|l| l.frontend).collect();
            let names: BTreeSet<_> = doors.iter().map(|l| l.door).collect();
            prop_assert_eq!(names.len(), doors.len());
            if is_relayed(port.name.protocol) {
                prop_assert_eq!(frontends, reached);
            } else {
                prop_assert!(doors.is_empty());
            }
        }
    }
}

/// Rules that lead to listeners of service ports.
fn rules(world: &World, at: impl Fn(&ServicePortName, Door) -> Option<SocketAddr>) -> Ruleset {
    let mut book = Book::new(world.settings.clone());
    let stand_in = |port| {
        stand_in(&world.settings, &routes(&world.settings, port, |_| false), |door| at(&port.name, door))
    };
    let ports: Vec<ServicePort> = world.ports.iter().map(stand_in).collect();
    book.update(all(&ports));
    Planner::new(Config { relay: Some(PRIORITY), ..Config::default() }, book).ruleset()
}

#[test]
fn datagrams_get_to_listeners_only_by_way_of_a_service() {
    for family in Family::ALL {
        let world = World::new(
            family,
            "svc shop/dns udp 10.96.0.10:53 node=30053 etp=local
             ep 10.1.0.1:53 @here
             ep 10.1.1.1:53 @there",
        );
        let (rules, node) = (rules(&world, |_, door| at(family, door)), node_addresses(family));
        let listeners = [Door::Cluster, Door::Local].map(|door| at(family, door).unwrap());
        let ask = |source: &str, interface: Option<&str>, to: SocketAddr, protocol| {
            let (source, interface) = (address(family, source), interface.map(str::to_owned));
            rules.trace(&node, &Packet { source, interface, destination: to.ip(), protocol, port: to.port() })
        };
        let cluster_ip = SocketAddr::new(address(family, "10.96.0.10"), 53);
        let node_port = SocketAddr::new(address(family, "192.168.0.10"), 30053);
        for (source, interface) in [("10.1.0.9", Some("veth")), ("192.168.0.10", None)] {
            for listener in listeners {
                assert_eq!(
                    ask(source, interface, listener, Protocol::Udp),
                    Answer::Reject,
                    "{source} {listener}"
                );
                // Of these the listener itself knows.
                assert_eq!(ask(source, interface, listener, Protocol::Tcp), Answer::Untouched);
            }
            for frontend in [cluster_ip, node_port] {
                let answer = ask(source, interface, frontend, Protocol::Udp);
                assert!(
                    matches!(&answer, Answer::Endpoints(some) if some.len() == 1),
                    "{source} {frontend}: {answer:?}"
                );
            }
        }
        assert_eq!(
            ask("10.1.0.9", Some("veth"), SocketAddr::new(listeners[0].ip(), 5353), Protocol::Udp),
            Answer::Untouched
        );
    }
}

#[test]
fn a_door_is_where_it_was_unless_others_are_led_there_too() {
    for family in Family::ALL {
        let world = World::new(
            family,
            "svc shop/a tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 etp=local
             ep 10.1.0.1:80 @here
             ep 10.1.1.1:80 @there
             svc shop/b tcp 10.96.0.2:80
             ep 10.1.0.1:80",
        );
        let node = address(family, "192.168.0.10");
        let ports = |name: &ServicePortName, door: Door| {
            let first = if &*name.service.name == "a" { 40_001 } else { 40_011 };
            Some(SocketAddr::new(node, first + u16::from(door == Door::Local)))
        };
        let heritage = Heritage::at(node, &rules(&world, ports));
        let wishes = |port: &ServicePort| behind_rules(&routes(&world.settings, port, |_| false));
        for port in &world.ports {
            for wish in wishes(port) {
                let was = ports(&port.name, wish.door).unwrap();
                assert_eq!(heritage.of(&wish), Some(was), "{} {:?}", port.name, wish.door);
                let others = (40_001..40_013).map(|port| SocketAddr::new(node, port)).filter(|at| *at != was);
                let free: Vec<SocketAddr> =
                    others.filter(|at| heritage.is_free(&wish, Protocol::Tcp, *at)).collect();
                assert_eq!(free.len(), 9, "three are others': {free:?}");
                assert!(heritage.is_free(&wish, Protocol::Udp, was), "of this protocol nobody is led there");
            }
        }
        // The external IP is another's now.
        let smaller = ServicePort { external_ips: Vec::new(), ..world.ports[0].clone() };
        assert!(wishes(&smaller).iter().all(|wish| heritage.of(wish).is_none()));
        let elsewhere = Heritage::at(address(family, "192.168.0.11"), &rules(&world, ports));
        assert_eq!(elsewhere, Heritage::default());
    }
}

fn check(text: &str, expected: &Expect) {
    for family in Family::ALL {
        let world = World::new(family, text);
        let mut out = String::new();
        for port in &world.ports {
            let routes = routes(&world.settings, port, |_| false);
            for l in on_loopback(&world.settings, &routes) {
                let targets: Vec<String> = l.targets.iter().map(|t| plain_socket(*t).to_string()).collect();
                let (door, at) = match (l.door, l.port) {
                    (Door::NodePort(_), at) => ("node port", format!("{at:?}")),
                    (Door::ClusterIp, at) => ("cluster IP", format!("{at:?}")),
                    (Door::ExternalIp(_), _) => ("external IP", "somewhere".to_owned()),
                    (_, _) => ("load-balancer IP", "somewhere".to_owned()),
                };
                let targets = if targets.is_empty() { "nobody".to_owned() } else { targets.join(" ") };
                writeln!(out, "{} {door}: {at} -> {targets}", port.name).unwrap();
            }
        }
        expected.assert_eq(&out);
    }
}

#[test]
fn doors_on_loopback() {
    check(
        "svc shop/web tcp 10.96.0.1:80 node=30080 lb=198.51.100.1 from=10.0.0.0/8 itp=local\n\
         ep 10.1.0.1:8080 @here\n\
         ep 10.1.1.1:8080 @there\n\
         svc shop/empty udp 10.96.0.2:53 ext=203.0.113.1",
        &expect![[r#"
            shop/web cluster IP: From(23109) -> 10.1.0.1:8080
            shop/web load-balancer IP: somewhere -> nobody
            shop/web node port: Only(30080) -> 10.1.0.1:8080 10.1.1.1:8080
            shop/empty cluster IP: From(23958) -> nobody
            shop/empty external IP: somewhere -> nobody
        "#]],
    );
}

#[test]
fn the_port_of_a_door_depends_on_its_service_port_alone() {
    let world = World::new(Family::V4, "svc shop/web tcp 10.96.0.1:80\nsvc shop/other tcp 10.96.0.2:80");
    let liked = |port: &ServicePort| {
        let all = on_loopback(&world.settings, &routes(&world.settings, port, |_| false));
        all.first().map(|l| l.port)
    };
    let (web, other) = (&world.ports[0], &world.ports[1]);
    assert_ne!(liked(web), liked(other));
    let moved = ServicePort { cluster_ip: address(Family::V4, "10.96.0.77"), port: 81, ..web.clone() };
    assert_eq!(liked(web), liked(&moved));
}
