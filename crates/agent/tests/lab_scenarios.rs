//! Every scenario of `scenarios/` with real packets: the agent runs on node n1 of a lab, once per mode and iptables variant.
//!
//! Besides the flows, each scenario shows that `switchyard explain` says of every flow what its packets did, that the agent does not take its own writes for somebody else's, that rules outlive it,
//! that `--cleanup` leaves nothing, and in nftables mode that `nft` can list what it wrote.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use switchyard_lab::Lab;
use switchyard_lab::scenario::{Mode, Scenario, to_manifests};
use switchyard_model::Family;

use common::explained;
use common::proxy::{Agent, Bench, scenarios};
use common::relayed::{page, through_a_relay};
use common::stage::Stage;
use common::variant::{Variant, say};

/// Scenarios at one time: they mostly wait.
const AT_ONCE: usize = 3;

/// How long a change may take to be seen in traffic.
const TAKES_EFFECT: Duration = Duration::from_secs(15);

/// What was tried, and what went wrong.
#[derive(Default)]
struct Report {
    flows: usize,
    failures: Vec<String>,
}

/// How the agent learns what to do.
#[derive(Clone, Copy, Debug)]
enum Configured {
    /// Flags only.
    ByFlags,
    /// The file that kubeadm writes, and no flag but the node's name.
    ByFile,
}

impl std::fmt::Display for Configured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ByFlags => "flags",
            Self::ByFile => "kubeadm's file",
        })
    }
}

#[test]
fn iptables_nft() {
    run_all(Variant::Nft, Configured::ByFlags);
}

#[test]
fn iptables_nft_with_the_file_of_kubeadm() {
    run_all(Variant::Nft, Configured::ByFile);
}

#[test]
fn iptables_legacy() {
    run_all(Variant::Legacy, Configured::ByFlags);
}

#[test]
fn nftables() {
    run_all(Variant::Nftables, Configured::ByFlags);
}

#[test]
fn nftables_with_the_file_of_kubeadm() {
    run_all(Variant::Nftables, Configured::ByFile);
}

#[test]
fn ipvs() {
    run_all(Variant::Ipvs, Configured::ByFlags);
}

#[test]
fn userspace() {
    run_all(Variant::Userspace, Configured::ByFlags);
}

/// The page about modes says how many flows, each counted in every family, have an expectation of their own in a mode.
#[test]
fn the_page_counts_what_differs() {
    let all = Scenario::read_all(&scenarios()).unwrap();
    let page = page().unwrap();
    for (mode, name) in [(Mode::Nftables, "nftables"), (Mode::Ipvs, "ipvs")] {
        let of = |scenario: &Scenario| -> usize {
            let flows = scenario.steps.iter().flat_map(|step| &step.flows);
            flows
                .filter(|flow| flow.expected_in(mode) != &flow.expected)
                .map(|flow| flow.families().len())
                .sum()
        };
        let counts: Vec<usize> = all.iter().map(of).filter(|count| *count > 0).collect();
        let counted = format!("| {}, in {} scenarios: ", counts.iter().sum::<usize>(), counts.len());
        let row =
            page.lines().find(|line| line.starts_with(&format!("| {name} | {} of ", all.len()))).unwrap();
        assert!(row.contains(&counted), "docs/modes.md lacks {counted:?} in: {row}");
    }
}

/// `SCENARIO=name` in the environment picks those whose names contain the text.
fn run_all(variant: Variant, configured: Configured) {
    let Some(lab) = Lab::new_or_skip() else { return };
    if !variant.is_usable(&lab) {
        return;
    }
    let started = Instant::now();
    let mut all = Scenario::read_all(&scenarios()).unwrap();
    let picked = std::env::var("SCENARIO").unwrap_or_default();
    all.retain(|scenario| scenario.name.contains(&picked));
    if variant == Variant::Userspace {
        all = all.into_iter().map(|scenario| through_a_relay(scenario, variant.mode())).collect();
    }
    let (next, report) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(scenario) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(scenario, variant, configured, &report);
                }
            });
        }
    });
    let Report { flows, failures } = report.into_inner().unwrap_or_default();
    let (count, failed) = (all.len(), failures.len());
    let seconds = started.elapsed().as_secs_f32();
    say(&format!(
        "lab {variant}, {configured}: {count} scenarios, {flows} flows, {failed} failed ({seconds:.0} s)"
    ));
    assert!(flows > 0 && failures.is_empty(), "\n{}", failures.join("\n"));
}

fn run(scenario: &Scenario, variant: Variant, configured: Configured, report: &Mutex<Report>) {
    let mut mine = Report::default();
    if let Err(error) = play(scenario, variant, configured, &mut mine) {
        mine.failures.push(format!("{}: {error:#}", scenario.name));
    }
    let Ok(mut report) = report.lock() else { return };
    report.flows += mine.flows;
    report.failures.extend(mine.failures);
}

fn play(
    scenario: &Scenario,
    variant: Variant,
    configured: Configured,
    report: &mut Report,
) -> anyhow::Result<()> {
    let lab = Lab::new()?;
    let bench = Bench::new(&lab, variant)?;
    let stage = Stage::new(lab, scenario)?;
    let mut agent: Option<Agent> = None;
    for step in &scenario.steps {
        bench.write_objects(&to_manifests(&step.objects, &Family::ALL))?;
        let patience = if agent.is_some() { TAKES_EFFECT } else { Duration::ZERO };
        if agent.is_none() {
            let mut started = match configured {
                Configured::ByFlags => bench.start(&scenario.flags())?,
                Configured::ByFile => bench.start_from_file(scenario)?,
            };
            started.wait_until_synced()?;
            agent = Some(started);
        }
        report.flows += step.flows.iter().map(|flow| flow.families().len()).sum::<usize>();
        report.failures.extend(stage.failures(scenario, step, variant.mode(), patience));
        if let Some(agent) = &agent {
            let ask = |arguments: &[&str]| agent.ask(arguments);
            report.failures.extend(explained::failures(&ask, scenario, step, variant, patience));
        }
    }
    if let Some(agent) = agent {
        part(&bench, agent)?;
    }
    Ok(())
}

/// The end of an agent's life.
fn part(bench: &Bench, agent: Agent) -> anyhow::Result<()> {
    let repaired = agent.total("switchyard_rules_repaired_total")?;
    ensure!(repaired == 0.0, "took {repaired} own writes for harm; log:\n{}", agent.log_end());
    bench.check_listable()?;
    agent.terminate()?;
    ensure!(!bench.chains()?.is_empty(), "the rules did not outlive the agent");
    bench.clean_up()?;
    let left = bench.chains()?;
    ensure!(left.is_empty(), "--cleanup left {}", left.join(", "));
    Ok(())
}
