//! Every scenario of `scenarios/` and a mixture, without a pause, so that what is compared is also what both make of a change. Scenarios
//! with the same options share pairs of proxies: one for each variant of iptables, whose rules must be the same, and one in nftables mode,
//! where packets must fare the same. Packets are tried on one of the variants of iptables too.

use std::time::{Duration, Instant};

use switchyard_lab::scenario::Scenario;

use crate::cases::{self, Case, Group, marked};
use crate::common::variant::Variant;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::programs::{KUBE_PROXY, find_or_skip};
use crate::peers::{Peers, Plan};
use crate::probes::{CLIENTS, Probe, of_flows, of_objects};
use crate::tally::Tally;

/// Of the cases in iptables mode, whose rules are the same anyway, packets are tried in one out of so many.
const SAMPLE: usize = 8;

/// The flows of one case take seconds; this is for a machine that hangs.
const LONGEST: Duration = Duration::from_secs(120);

#[test]
fn scenarios() {
    let Some(kube_proxy) = find_or_skip(KUBE_PROXY) else { return };
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let mut tallies = [Variant::Nft, Variant::Legacy, Variant::Nftables].map(Tally::new);
    for (flags, group) in cases::by_flags() {
        let scenario = with_clients(&group);
        let mut pairs: Vec<Peers> = Vec::new();
        for (number, case) in cases_with_numbers(&group) {
            load(&control_plane, case, number);
            if pairs.is_empty() {
                let plan = |variant| Plan {
                    kube_proxy: &kube_proxy,
                    control_plane: &control_plane,
                    variant,
                    flags: &flags,
                    scenario: &scenario,
                };
                pairs.extend(tallies.iter().map(|tally| Peers::start(&plan(tally.variant))));
            }
            let title = format!("{} with {}", case.title, flags.join(" "));
            std::thread::scope(|scope| {
                for (peers, tally) in pairs.iter_mut().zip(&mut tallies) {
                    let title = &title;
                    scope.spawn(move || tally.add(title, look(peers, case, number)));
                }
            });
        }
    }
    Tally::finish(&tallies);
}

fn cases_with_numbers(group: &Group) -> impl Iterator<Item = (u16, &Case)> {
    (1..).zip(&group.cases)
}

fn load(control_plane: &ControlPlane, case: &Case, number: u16) {
    if case.is_first {
        control_plane.api().clear().unwrap();
    }
    control_plane.api().put_all(&marked(&case.list, number)).unwrap();
}

/// What is compared in a case: how many rules and flows were the same, or what differs.
fn look(peers: &mut Peers, case: &Case, number: u16) -> Result<(usize, usize), String> {
    peers.await_mark(number)?;
    let is_sample = usize::from(number).is_multiple_of(SAMPLE);
    let (rules, flows) = match peers.variant {
        Variant::Nftables => (0, probes(case)),
        Variant::Nft if is_sample => (peers.compare_rules()?, probes(case)),
        _ => (peers.compare_rules()?, Vec::new()),
    };
    let report = peers.compare_packets(&flows, Instant::now() + LONGEST);
    if report.failures.is_empty() { Ok((rules, report.tried)) } else { Err(report.failures.concat()) }
}

fn probes(case: &Case) -> Vec<Probe> {
    let Some(flows) = &case.flows else { return Vec::new() };
    let mut probes = of_objects(&case.list);
    let others = of_flows(flows, &case.list).into_iter().filter(|probe| !probes.contains(probe));
    let others: Vec<Probe> = others.collect();
    probes.extend(others);
    probes
}

/// All scenarios of a group, and one more step that only names the clients.
fn with_clients(group: &Group) -> Scenario {
    let lines = CLIENTS.map(|client| format!("flow tcp {client} -> n1:1 : drop\n")).concat();
    let mut scenario = Scenario::parse("parity", &lines).unwrap();
    scenario.steps.extend(group.together.iter().flat_map(|together| together.steps.clone()));
    scenario
}
