//! nftables mode beyond the scenarios: harm by other programs, restarts, and taking over from iptables mode.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

use std::time::{Duration, Instant};

use switchyard_lab::scenario::{Mode, Scenario, to_manifests};
use switchyard_lab::{Lab, Node};
use switchyard_model::Family;

use common::proxy::Bench;
use common::stage::Stage;
use common::variant::Variant;

const SERVICE: &str = "service-cidrs 10.96.0.0/16,fd00:10:96::/112\n\
                       service web cluster.1:80/tcp nodeport=30080\n\
                       endpoint web n1.1:8080\n\
                       endpoint web n2.1:8080\n\
                       flow tcp n1.9 -> cluster.1:80 : n1.1@client n2.1@client\n\
                       flow tcp client -> n1:30080 : n1.1@node n2.1@node";

/// How long a repair may take on a busy machine; on a quiet one it is some tens of milliseconds.
const REPAIR: Duration = Duration::from_secs(2);

struct World {
    bench: Bench,
    stage: Stage,
    scenario: Scenario,
    node: switchyard_lab::Host,
}

impl World {
    fn new(variant: Variant) -> Option<Self> {
        let lab = Lab::new_or_skip()?;
        if !variant.is_usable(&lab) {
            return None;
        }
        let scenario = Scenario::parse("nftables", SERVICE).unwrap();
        let bench = Bench::new(&lab, variant).unwrap();
        let node = lab.node(Node::N1).clone();
        let stage = Stage::new(lab, &scenario).unwrap();
        bench.write_objects(&to_manifests(&scenario.steps[0].objects, &Family::ALL)).unwrap();
        Some(Self { bench, stage, scenario, node })
    }

    /// The ruleset as `nft` prints it.
    fn ruleset(&self) -> String {
        self.node.exec_ok("nft", &["list", "ruleset"]).unwrap()
    }

    fn check_flows(&self) {
        for flow in &self.scenario.steps[0].flows {
            for family in Family::ALL {
                self.stage.check(flow, Mode::Nftables, family).unwrap();
            }
        }
    }
}

#[test]
fn harm_by_another_program_is_repaired() {
    let Some(world) = World::new(Variant::Nftables) else { return };
    let mut agent = world.bench.start(&world.scenario.flags()).unwrap();
    agent.wait_until_synced().unwrap();
    world.check_flows();
    let good = world.ruleset();
    let harms: [&[&str]; 4] = [
        &["flush", "ruleset"],
        &["delete", "table", "ip6", "switchyard"],
        &["flush", "chain", "ip", "switchyard", "services"],
        &["flush", "map", "ip", "switchyard", "frontends"],
    ];
    for harm in harms {
        world.node.exec_ok("nft", harm).unwrap();
        let end = Instant::now() + REPAIR;
        while sorted(&world.ruleset()) != sorted(&good) {
            assert!(Instant::now() < end, "{harm:?} was not repaired; log:\n{}", agent.log_end());
        }
        world.check_flows();
    }
    assert!(agent.total("switchyard_rules_repaired_total").unwrap() >= 4.0);
}

#[test]
fn a_restart_writes_nothing() {
    let Some(world) = World::new(Variant::Nftables) else { return };
    for expected in [true, false] {
        let mut agent = world.bench.start(&world.scenario.flags()).unwrap();
        agent.wait_until_synced().unwrap();
        let written = agent.total("switchyard_kernel_ops_total").unwrap();
        assert_eq!(written > 0.0, expected, "{written} operations");
        world.check_flows();
        agent.terminate().unwrap();
    }
}

#[test]
fn taking_over_from_iptables_mode_leaves_nothing_of_it() {
    let Some(world) = World::new(Variant::Nft) else { return };
    let mut agent = world.bench.start(&world.scenario.flags()).unwrap();
    agent.wait_until_synced().unwrap();
    agent.terminate().unwrap();
    assert!(!world.bench.chains().unwrap().is_empty());
    let mut flags = world.scenario.flags();
    flags.push("--proxy-mode=nftables".to_owned());
    let mut agent = world.bench.start(&flags).unwrap();
    agent.wait_until_synced().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while !world.bench.chains().unwrap().is_empty() {
        assert!(Instant::now() < end, "iptables chains are left; log:\n{}", agent.log_end());
    }
    world.check_flows();
}

/// Elements of a map come in no order.
fn sorted(text: &str) -> Vec<String> {
    let word = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}');
    let mut words: Vec<String> = text.split(word).filter(|w| !w.is_empty()).map(String::from).collect();
    words.sort();
    words
}
