//! Many Services at once: in one transaction or in several, and without a word to those who listen.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use switchyard_model::{Conditions, Endpoint, ServiceName, ServicePort, ServicePortName, TrafficPolicy};
use switchyard_netlink::monitor::{ChangeKind, Monitor, Wake};

use crate::report::Kind;

use super::*;

const SERVICES: u32 = 400;

fn port(number: u32) -> ServicePort {
    let endpoint = |n: u32| Endpoint {
        address: SocketAddr::new(Ipv4Addr::from(0x0a01_0000 + number * 4 + n).into(), 8080),
        conditions: Conditions::default(),
        node: None,
        hints: None,
    };
    ServicePort {
        name: ServicePortName {
            service: ServiceName::new("ns", &format!("web-{number}")),
            port: "http".into(),
            protocol: switchyard_model::Protocol::Tcp,
        },
        family: Family::V4,
        created: 0,
        cluster_ip: Ipv4Addr::from(0x0a60_0001 + number).into(),
        port: 80,
        node_port: None,
        external_ips: vec![],
        load_balancer_ips: vec![],
        source_ranges: vec![],
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: (0..3).map(endpoint).collect(),
    }
}

fn ports(numbers: std::ops::Range<u32>) -> PortChanges {
    numbers.map(port).map(|port| (port.name.clone(), Some(Arc::new(port)))).collect()
}

fn sync(mode: &mut NftMode, changes: PortChanges) -> crate::report::Report {
    let report = mode.sync(Instant::now(), changes, &mut |_| {});
    assert!(report.failure.is_none() && report.refused.is_empty(), "{report:?}");
    report
}

#[test]
fn a_load_that_is_too_large_is_written_in_pieces() {
    in_a_namespace(|| {
        let whole = sync(&mut mode(Family::V4).limited_to(1 << 20), ports(0..SERVICES));
        assert_eq!(whole.restores, 1);
        // A change that deletes and adds, and a repair of everything.
        let mut pieces = mode(Family::V4).limited_to(20_000);
        assert_eq!(sync(&mut pieces, ports(0..SERVICES)).lines, 0);
        list(&["flush", "map", "ip", "switchyard", "slots"]);
        pieces.distrust();
        let repaired = sync(&mut pieces, PortChanges::new());
        assert!(repaired.restores > 2, "{repaired:?}");
        // And the first load.
        list(&["delete", "table", "ip", "switchyard"]);
        pieces.distrust();
        let loaded = sync(&mut pieces, PortChanges::new());
        assert!(loaded.restores > 4, "{loaded:?}");
        assert_eq!(loaded.lines, whole.lines);
        assert_eq!(sync(&mut mode(Family::V4), ports(0..SERVICES)).lines, 0);
    });
}

/// The size of each of our sets that has one.
fn sizes() -> BTreeMap<String, u32> {
    let sets = Nft::open().unwrap().sets(&crate::nft::observe::table(Family::V4)).unwrap();
    sets.into_iter().filter_map(|set| Some((set.name.to_string(), set.size?))).collect()
}

#[test]
fn sets_that_are_outgrown_are_replaced() {
    let size = |n| ["cluster-ips", "frontends", "slots"].map(|set| (set.to_owned(), n)).into_iter().collect();
    for limit in [usize::MAX, 20_000] {
        in_a_namespace(|| {
            let mut running = mode(Family::V4).limited_to(limit);
            assert_eq!(sync(&mut running, ports(0..SERVICES)).kind, Kind::Full);
            assert_eq!(sizes(), size(4096));
            assert_eq!(sync(&mut running, ports(SERVICES..SERVICES + 50)).kind, Kind::Partial);
            // Three slots each: too many for those that there are, and frontends for another size.
            let grown = sync(&mut running, ports(SERVICES + 50..5000));
            assert_eq!((grown.kind, grown.restores == 1), (Kind::Full, limit == usize::MAX), "{grown:?}");
            assert_eq!(sizes().get("slots"), Some(&32_768));
            assert_eq!(sizes().get("frontends"), Some(&16_384));
            assert_eq!(sync(&mut running, ports(5000..5010)).kind, Kind::Partial);
            assert_eq!(frontends_held(&running), 5010);
            // A restart finds them as they are.
            assert_eq!(sync(&mut mode(Family::V4), ports(0..5010)).lines, 0);
            // Also if the cluster has shrunk meanwhile.
            sync(&mut running, ports(100..5010).into_keys().map(|name| (name, None)).collect());
            assert_eq!(sync(&mut mode(Family::V4), ports(0..100)).lines, 0);
            list(&["list", "ruleset"]);
            list(&["--json", "list", "ruleset"]);
        });
    }
}

/// What was heard until now.
fn heard(monitor: &mut Monitor) -> usize {
    let mut heard = 0;
    while monitor.wait(Duration::ZERO).unwrap() == Wake::Ready {
        let changes = monitor.read().unwrap();
        assert!(!changes.iter().any(|change| change.kind == ChangeKind::Overrun));
        heard += changes.len();
    }
    heard
}

#[test]
fn large_writes_are_not_heard_and_small_ones_are() {
    in_a_namespace(|| {
        let mut monitor = Monitor::open().unwrap();
        let mut running = mode(Family::V4).heard_by(monitor.membership());
        sync(&mut running, ports(0..SERVICES));
        assert_eq!(heard(&mut monitor), 0);
        assert_eq!(sync(&mut running, ports(SERVICES..SERVICES + 1)).restores, 1);
        assert_ne!(heard(&mut monitor), 0);
        sync(&mut running, ports(SERVICES + 1..2 * SERVICES));
        assert_eq!(heard(&mut monitor), 0);
        list(&["add", "table", "ip", "somebody"]);
        assert_ne!(heard(&mut monitor), 0);
    });
}

#[test]
fn an_element_that_the_kernel_refuses_is_set_aside_alone() {
    in_a_namespace(|| {
        // An address of the wrong family: no source lets it through, and no kernel takes it.
        let mut bad = port(4);
        bad.cluster_ip = "fd00::1".parse().unwrap();
        let put = |port: ServicePort| (port.name.clone(), Some(Arc::new(port)));
        for starts_with in [ports(0..3), PortChanges::new()] {
            let mut running = mode(Family::V4);
            sync(&mut running, starts_with);
            let mut changes = ports(3..6);
            changes.extend([put(bad.clone())]);
            let report = running.sync(Instant::now(), changes, &mut |_| {});
            assert!(report.failure.is_none(), "{report:?}");
            let refused: Vec<String> = report.refused.iter().map(|r| r.name.to_string()).collect();
            assert_eq!(refused, ["ns/web-4:http"]);
            let (_, entry) = running.book().quarantined().iter().next().unwrap();
            assert!(entry.cause.contains("add elements to set"), "{}", entry.cause);
            // The others are there, and when it changes it is tried again.
            assert_eq!(running.book().ports().len(), frontends_held(&running));
            assert!(sync(&mut running, [put(port(4))].into()).lines > 0);
            assert!(running.book().quarantined().is_empty());
            list(&["delete", "table", "ip", "switchyard"]);
        }
    });
}

/// Frontends that the kernel holds.
fn frontends_held(running: &NftMode) -> usize {
    let table = crate::nft::observe::table(running.book().settings().family);
    let mut count = 0;
    Nft::open().unwrap().elements(&table, "frontends", &mut |_| count += 1).unwrap();
    count
}

#[test]
fn nobody_is_blamed_for_what_another_program_left() {
    in_a_namespace(|| {
        let mut running = mode(Family::V4);
        sync(&mut running, ports(0..3));
        // Somebody puts an element with another value where a Service will be, and nobody tells us.
        list(&["add", "element", "ip", "switchyard", "slots", "{ 10.96.0.5 . tcp . 80 . 1 : 10.9.9.9 . 9 }"]);
        assert_eq!(sync(&mut running, ports(3..6)).failed_restores, 1);
        assert_eq!(sync(&mut mode(Family::V4), ports(0..6)).lines, 0);
    });
}
