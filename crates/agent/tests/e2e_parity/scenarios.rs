//! Every scenario of `scenarios/` and a mixture, without a pause, so that what is compared is also what both make of a change. Scenarios
//! with the same options share pairs of proxies: one for each variant of iptables, whose rules must be the same, one in nftables mode, where
//! packets must fare the same, and one of userspace mode, whose packets fare as in kube-proxy's nftables mode but for what [`relay`] says.
//! Packets are tried on both variants of iptables too.
//!
//! [`relay`]: crate::relay

use std::time::Duration;

use switchyard_lab::scenario::Scenario;

use crate::cases::{self, Case, Group, marked};
use crate::common::variant::Variant;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::programs::{KUBE_PROXY, find_or_skip};
use crate::packets::Effort;
use crate::peers::{Peers, Plan};
use crate::probes::{CLIENTS, Probe, of_flows, of_objects};
use crate::relay::is_comparable;
use crate::tally::{Compared, Tally};

const VARIANTS: [Variant; 4] = [Variant::Nft, Variant::Legacy, Variant::Nftables, Variant::Userspace];

#[test]
fn scenarios() {
    let Some(kube_proxy) = find_or_skip(KUBE_PROXY) else { return };
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let mut tallies = VARIANTS.map(Tally::new);
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
                for peers in &mut pairs {
                    let told = peers.await_mark(number).and_then(|()| peers.tell_zone(&control_plane.api()));
                    told.unwrap_or_else(|late| panic!("{}: {late}", peers.variant));
                }
            }
            let title = format!("{} with {}", case.title, flags.join(" "));
            std::thread::scope(|scope| {
                for (peers, tally) in pairs.iter_mut().zip(&mut tallies) {
                    let (title, flags) = (&title, &flags);
                    scope.spawn(move || {
                        if let Some(result) = look(peers, case, number, flags) {
                            tally.add(title, result);
                        }
                    });
                }
            });
        }
    }
    Tally::finish("scenarios", &tallies);
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

/// What is compared in a case; nothing if it is left out in this mode.
fn look(peers: &mut Peers, case: &Case, number: u16, flags: &[String]) -> Option<Result<Compared, String>> {
    let is_tried = is_tried(peers.variant, case, number);
    let has_rules = peers.variant.backend().is_some();
    (has_rules || is_tried).then(|| {
        peers.await_mark(number)?;
        let probes = if is_tried { probes(peers.variant, case, flags) } else { Vec::new() };
        let rules = if has_rules { peers.compare_rules()? } else { 0 };
        let all = Effort { least: probes.len(), time: Duration::ZERO };
        peers.compare_packets(&probes, all).result(rules, probes.len())
    })
}

/// Whether packets are tried: in nftables mode always; in iptables mode, where the rules are the same anyway, and in userspace mode, whose
/// rules are those of nftables mode, in some cases, and in the first one with each set of options. The mixture has Services that userspace
/// mode sets aside: SCTP.
fn is_tried(variant: Variant, case: &Case, number: u16) -> bool {
    let (every, turn) = match variant {
        Variant::Nft => (8, 0),
        Variant::Legacy => (8, 4),
        Variant::Userspace if case.flows.is_empty() => return false,
        Variant::Userspace => (3, 0),
        Variant::Nftables | Variant::Ipvs => (1, 0),
    };
    number == 1 || number % every == turn
}

fn probes(variant: Variant, case: &Case, flags: &[String]) -> Vec<Probe> {
    let mut probes = of_objects(&case.list);
    let others = of_flows(&case.flows, &case.list).into_iter().filter(|probe| !probes.contains(probe));
    let others: Vec<Probe> = others.collect();
    probes.extend(others);
    probes.retain(|probe| variant != Variant::Userspace || is_comparable(probe, flags));
    probes
}

/// All endpoints of a group, and one more step that only names the clients.
fn with_clients(group: &Group) -> Scenario {
    let lines = CLIENTS.map(|client| format!("flow tcp {client} -> n1:1 : drop\n")).concat();
    let mut scenario = Scenario::parse("parity", &lines).unwrap();
    scenario.steps.extend(group.together.iter().cloned());
    scenario
}
