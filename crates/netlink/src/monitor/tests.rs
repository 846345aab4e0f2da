//! Changes by other programs are noticed in time, lost notifications are told, and any bytes are survived.

use proptest::prelude::*;

use super::*;
use crate::testing::{exec, namespace_or_skip};

/// Everything until a transaction is complete, at most one second.
fn transaction(monitor: &mut Monitor) -> Vec<Change> {
    let end = Instant::now() + Duration::from_secs(1);
    let mut changes = Vec::new();
    while changes.last().is_none_or(|change: &Change| change.kind != ChangeKind::NewGeneration) {
        let left = end.saturating_duration_since(Instant::now());
        assert_eq!(monitor.wait(left).unwrap(), Wake::Ready, "no notification within a second: {changes:?}");
        changes.extend(monitor.read().unwrap());
    }
    changes
}

fn has(changes: &[Change], kind: ChangeKind, family: u8, table: &str, chain: Option<&str>) -> bool {
    changes.iter().any(|change| {
        change.kind == kind
            && change.family == family
            && change.table.as_deref() == Some(table)
            && change.chain.as_deref() == chain
    })
}

#[test]
fn foreign_changes_of_iptables_and_nft_are_seen_within_a_second() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut monitor = Monitor::open().unwrap();
            assert_eq!(monitor.wait(Duration::from_millis(20)).unwrap(), Wake::TimedOut);
            assert_eq!(monitor.read().unwrap(), []);

            exec("ip6tables-nft", &["-t", "nat", "-N", "KUBE-SERVICES"]);
            let made = transaction(&mut monitor);
            assert!(has(&made, ChangeKind::NewChain, 10, "nat", Some("KUBE-SERVICES")), "{made:?}");
            assert!(made.last().unwrap().pid.is_some());
            assert!(made.last().unwrap().program.is_some());

            exec("ip6tables-nft", &["-t", "nat", "-A", "KUBE-SERVICES", "-j", "ACCEPT"]);
            let ruled = transaction(&mut monitor);
            assert!(has(&ruled, ChangeKind::NewRule, 10, "nat", Some("KUBE-SERVICES")), "{ruled:?}");

            exec("nft", &["flush", "ruleset"]);
            let gone = transaction(&mut monitor);
            assert!(has(&gone, ChangeKind::DeleteTable, 10, "nat", None), "{gone:?}");
            assert!(has(&gone, ChangeKind::DeleteChain, 10, "nat", Some("KUBE-SERVICES")), "{gone:?}");
            assert!(has(&gone, ChangeKind::DeleteRule, 10, "nat", Some("KUBE-SERVICES")), "{gone:?}");
        })
        .unwrap();
}

#[test]
fn a_full_buffer_is_an_overrun() {
    let Some(namespace) = namespace_or_skip() else { return };
    namespace
        .run(|| {
            let mut monitor = Monitor::open().unwrap();
            monitor.socket.enlarge(4096);
            exec("nft", &["add", "table", "ip", "t"]);
            for _ in 0..20 {
                exec("nft", &["add chain ip t a; add chain ip t b; add chain ip t c; flush table ip t"]);
            }
            let mut changes = Vec::new();
            while monitor.wait(Duration::ZERO).unwrap() == Wake::Ready {
                changes.extend(monitor.read().unwrap());
            }
            assert!(changes.iter().any(|change| change.kind == ChangeKind::Overrun), "{changes:?}");
        })
        .unwrap();
}

proptest! {
    #[test]
    fn random_notifications_never_panic_and_never_pass_silently(body in proptest::collection::vec(any::<u8>(), 0..120), operation in 0u8..30) {
        let bytes = crate::message::Message::new(u16::from_be_bytes([SUBSYSTEM, operation]), 0, &body).finish(1, 0).unwrap();
        let mut changes = Vec::new();
        read_datagram(&bytes, &mut changes);
        prop_assert_eq!(changes.is_empty(), kind_of(operation).is_none());
    }
}
