//! Every ruleset that the scenarios lead to, in a real kernel: what was written is what is read back, a restart writes
//! nothing, and stock `nft` can list it all.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use switchyard_lab::scenario::{Objects, Scenario};
use switchyard_model::{Event, Family, Snapshot, Tracker};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::Nft;
use switchyard_plan::book::{Book, PortChanges, of_family};
use switchyard_plan::nft::element::{Data, Place};
use switchyard_plan::nft::names::Set;
use switchyard_plan::nft::{Config, Planner};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};

use super::mode::NftMode;
use crate::Mode;

mod large;

fn settings(family: Family) -> Settings {
    let range = match family {
        Family::V4 => "10.1.0.0/16",
        Family::V6 => "fd00:10:1::/48",
    };
    Settings {
        family,
        node_name: "n1".into(),
        zone: Some("a".into()),
        node_ip: switchyard_lab::scenario::address::Symbol::Node(1).ip(family).unwrap(),
        detector: LocalDetector::Cidr(range.parse().unwrap()),
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

pub(super) fn mode(family: Family) -> NftMode {
    NftMode::new(Nft::open().unwrap(), Planner::new(Config::default(), Book::new(settings(family))))
}

fn take(tracker: &mut Tracker, objects: &Objects, family: Family) -> PortChanges {
    tracker.apply(Event::Services(objects.model_services(&Family::ALL)));
    tracker.apply(Event::Slices(objects.model_slices(&Family::ALL)));
    of_family(&tracker.take().unwrap().ports, family)
}

fn everything(snapshot: &Snapshot, family: Family) -> PortChanges {
    let all = snapshot.ports.iter().map(|(key, port)| (key.clone(), Some(port.clone()))).collect();
    of_family(&all, family)
}

fn list(arguments: &[&str]) {
    let output = Command::new("nft").args(arguments).output().unwrap();
    assert!(output.status.success(), "nft {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Maps of slots are the same, listed or asked for one by one.
fn ask_for_slots(family: Family) {
    let (mut nft, id) = (Nft::open().unwrap(), super::observe::table(family));
    let mut listed = |set| super::observe::elements(&mut nft, &id, set, family).unwrap().unwrap();
    let frontends = listed(Set::Frontends).into_iter().chain(listed(Set::NodePorts)).collect();
    for set in [Set::Slots, Set::NodePortSlots] {
        let all: BTreeMap<Place, Data> = listed(set).into_iter().collect();
        let asked =
            |count| super::slots::ask(&mut Nft::open().unwrap(), family, set, &frontends, count).unwrap();
        assert_eq!(asked(all.len()).map(|found| found.into_iter().collect()), Some(all.clone()));
        // The kernel has more than was found.
        assert_eq!(asked(all.len() + 1), None);
    }
}

/// Plays one scenario; says how many rulesets were compared.
fn play(scenario: &Scenario, family: Family) -> usize {
    let (mut running, mut tracker) = (mode(family), Tracker::new());
    for step in &scenario.steps {
        running.allocate_from(&step.objects.service_cidrs);
        let report = running.sync(Instant::now(), take(&mut tracker, &step.objects, family), &mut |_| {});
        let name = &scenario.name;
        assert!(report.failure.is_none() && report.refused.is_empty(), "{name}, {family}: {report:?}");
        let changes = everything(&tracker.snapshot(), family);
        let mut restarted = mode(family);
        restarted.allocate_from(&step.objects.service_cidrs);
        let again = restarted.sync(Instant::now(), changes, &mut |_| {});
        restarted.allocate_from(&step.objects.service_cidrs.iter().copied().rev().collect::<Vec<_>>());
        assert!(!restarted.needs_full_sync(Instant::now()), "{name}, {family}: equal ranges are no change");
        assert_eq!(
            (again.lines, again.restores),
            (0, 0),
            "{name}, {family}: a restart wrote something: {again:?}"
        );
        ask_for_slots(family);
        list(&["list", "ruleset"]);
        list(&["--json", "list", "ruleset"]);
    }
    scenario.steps.len()
}

/// Runs in a fresh network namespace, if we may make one.
fn in_a_namespace<T: Send>(test: impl FnOnce() -> T + Send) -> Option<T> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace.run(test).unwrap()),
        Err(error) => {
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {error}");
            let _ =
                std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED: network namespaces need root\n");
            None
        }
    }
}

#[test]
fn what_is_written_is_read_back_and_listed() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenarios = Scenario::read_all(&scenarios).unwrap();
    let compared = in_a_namespace(|| {
        let all = scenarios.iter().flat_map(|s| Family::ALL.map(|family| (s, family)));
        all.map(|(scenario, family)| play(scenario, family)).sum::<usize>()
    });
    assert!(compared.is_none_or(|compared| compared > 100), "{compared:?}");
}
