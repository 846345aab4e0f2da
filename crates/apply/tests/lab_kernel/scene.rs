//! What both kinds of tests need: modes over a real kernel, and the scenarios.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use switchyard_apply::Mode;
use switchyard_apply::iptables::mode::IptablesMode;
use switchyard_apply::iptables::{Iptables, Variant};
use switchyard_apply::nft::mode::NftMode;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Objects, Scenario};
use switchyard_model::{Event, Family, Tracker};
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::Nft;
use switchyard_plan::book::{Book, PortChanges, of_family};
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_plan::{iptables, nft};

/// Those of node n1.
pub(crate) fn settings(family: Family) -> Settings {
    let range = match family {
        Family::V4 => "10.1.0.0/16",
        Family::V6 => "fd00:10:1::/48",
    };
    Settings {
        family,
        node_name: "n1".into(),
        zone: Some("a".into()),
        node_ip: Symbol::Node(1).ip(family).unwrap(),
        detector: LocalDetector::Cidr(range.parse().unwrap()),
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

pub(crate) fn nftables(settings: Settings) -> Box<dyn Mode> {
    let planner = nft::Planner::new(nft::Config::default(), Book::new(settings));
    Box::new(NftMode::new(Nft::open().unwrap(), planner))
}

pub(crate) fn with_programs(variant: Variant, settings: Settings) -> Box<dyn Mode> {
    let programs = Iptables::probe(settings.family, variant).unwrap();
    let planner = iptables::Planner::new(iptables::Config::default(), Book::new(settings));
    Box::new(IptablesMode::new(programs, planner))
}

pub(crate) fn take(tracker: &mut Tracker, objects: &Objects, family: Family) -> PortChanges {
    tracker.apply(Event::Services(objects.model_services(&Family::ALL)));
    tracker.apply(Event::Slices(objects.model_slices(&Family::ALL)));
    of_family(&tracker.take().unwrap().ports, family)
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    Scenario::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")).unwrap()
}

pub(crate) fn scenario(name: &str) -> Scenario {
    scenarios().into_iter().find(|scenario| scenario.name == name).unwrap()
}

/// Runs in a fresh network namespace, if we may make one.
pub(crate) fn in_a_namespace(test: impl FnOnce() + Send) {
    match Namespace::new() {
        Ok(namespace) => namespace.run(test).unwrap(),
        Err(error) => {
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {error}");
            // Not `eprintln!`: the harness hides what a passing test prints with it.
            let _ = std::io::stderr().write_all(b"SKIPPED: network namespaces need root\n");
        }
    }
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

pub(crate) fn sync(mode: &mut dyn Mode, changes: PortChanges) {
    let report = mode.sync(Instant::now(), changes, &mut |_| {});
    assert!(report.failure.is_none() && report.refused.is_empty(), "{report:?}");
}
