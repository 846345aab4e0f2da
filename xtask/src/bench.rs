//! Benchmarks with goals: counts, ratios measured side by side in one run, and memory. Most plain times are shown, but
//! are no goals: they move from machine to machine.
//!
//! In: which parts to run and how large. Out: progress lines, a table, files in `docs/benchmarks`, and an error if a
//! goal was missed or a part could not run. Everything happens in private network namespaces.

mod agent;
mod cluster;
mod first_sync;
mod grid;
pub(crate) mod ipvs;
mod machine;
mod manifests;
mod nftables;
mod plan;
mod plot;
mod progress;
mod relay;
mod report;
mod running;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use machine::Machine;
use progress::Progress;
use report::{Report, Section};

pub(crate) use running::build as build_agent;

/// How `bench` is called, after its name.
pub(crate) const USAGE: &str =
    "bench [plan] [agent] [sync] [nftables] [relay] [--quick] [--agent PROGRAM] [--out DIR]";

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// What planning costs.
    Plan,
    /// The real agent on a node of the lab: memory, and one changed endpoint. Needs root.
    Agent,
    /// The first sync through iptables-nft, in batches and in one transaction. Needs root.
    Sync,
    /// nftables mode beside the kernel's own limit, and its agent. Needs root.
    Nftables,
    /// Userspace mode beside other relays, which must be installed: only if it is asked for. Needs root.
    Relay,
}

/// How large everything is.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Two clusters to compare.
    small: u32,
    large: u32,
    /// Clusters for the first sync; the last one counts.
    sync: [u32; 4],
    nftables: nftables::Scale,
    /// Small runs show less than the goals ask for: they only show that everything works.
    has_goals: bool,
}

const FULL: Sizes = Sizes {
    small: 1_000,
    large: 10_000,
    sync: [500, 1_000, 2_000, 4_000],
    nftables: nftables::FULL,
    has_goals: true,
};
const QUICK: Sizes = Sizes {
    small: 100,
    large: 1_000,
    sync: [50, 100, 200, 400],
    nftables: nftables::QUICK,
    has_goals: false,
};

/// Whether a measured value is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Goal {
    Met,
    Missed,
    None,
}

impl Goal {
    fn met(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }

    /// A goal that only the full sizes can reach.
    fn at(self, sizes: Sizes) -> Self {
        if sizes.has_goals { self } else { Self::None }
    }
}

/// One value.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    /// The size of the cluster, if it is about one.
    services: Option<u32>,
    what: String,
    value: String,
    wanted: &'static str,
    goal: Goal,
    /// The seconds behind a median, in the order in which they were measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runs: Vec<f64>,
}

impl Measured {
    /// A value without a goal.
    fn info(services: u32, what: impl Into<String>, value: impl Into<String>) -> Self {
        let (what, value) = (what.into(), value.into());
        Self { services: Some(services), what, value, wanted: "", goal: Goal::None, runs: Vec::new() }
    }

    /// The median of times, without a goal.
    fn times(services: u32, what: &str, times: &[Duration]) -> Self {
        let runs = times.iter().map(Duration::as_secs_f64).collect();
        Self { runs, ..Self::info(services, format!("{what} (median)"), duration(median(times.to_vec()))) }
    }

    /// The same value with a goal.
    fn wanting(self, wanted: &'static str, goal: Goal) -> Self {
        Self { wanted, goal, ..self }
    }
}

/// What the arguments ask for.
struct Wish {
    parts: Vec<Part>,
    sizes: Sizes,
    /// A built agent; else the release binary is built.
    agent: Option<PathBuf>,
    /// Where results go: by default only those of a complete run are kept.
    out: Option<PathBuf>,
}

/// Runs what the arguments ask for.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let Wish { parts, sizes, agent, out } = Wish::read(arguments)?;
    let machine = Machine::here();
    let mut progress = Progress::new(1 + parts.iter().map(|part| steps(*part, sizes)).sum::<usize>());
    let mut report = Report::new(machine, arguments);
    progress.step("building the release binary of the agent, if it is needed");
    let agent = match agent {
        None if parts.iter().any(|part| part.has_agent()) => running::build()?,
        given => given.unwrap_or_default(),
    };
    for part in parts {
        report.sections.push(measure(part, sizes, &agent, &mut progress)?);
    }
    report.finish();
    println!("\n{}", report.table());
    if let Some(directory) = out {
        report.write(&directory).context("cannot write the results")?;
        println!("written to {}", directory.display());
    }
    match report.missed() {
        0 => Ok(()),
        1 => bail!("a goal was missed"),
        missed => bail!("{missed} goals were missed"),
    }
}

fn measure(part: Part, sizes: Sizes, agent: &Path, progress: &mut Progress) -> Result<Section> {
    match part {
        Part::Plan => plan::measure(sizes, progress),
        Part::Agent => agent::measure(sizes, agent, progress),
        Part::Sync => first_sync::measure(sizes, progress),
        Part::Nftables => nftables::measure(sizes, agent, progress),
        Part::Relay => relay::measure(sizes, agent, progress),
    }
}

impl Wish {
    fn read(arguments: &[&str]) -> Result<Self> {
        let mut wish = Self { parts: Vec::new(), sizes: FULL, agent: None, out: None };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match *argument {
                "plan" => wish.parts.push(Part::Plan),
                "agent" => wish.parts.push(Part::Agent),
                "sync" => wish.parts.push(Part::Sync),
                "nftables" => wish.parts.push(Part::Nftables),
                "relay" => wish.parts.push(Part::Relay),
                "--quick" => wish.sizes = QUICK,
                "--agent" => wish.agent = Some(PathBuf::from(rest.next().context(USAGE)?)),
                "--out" => wish.out = Some(PathBuf::from(rest.next().context(USAGE)?)),
                _ => bail!("usage: {USAGE}"),
            }
        }
        if wish.parts.is_empty() {
            wish.parts.extend([Part::Nftables, Part::Plan, Part::Agent, Part::Sync]);
            if wish.sizes.has_goals && wish.agent.is_none() && wish.out.is_none() {
                wish.out = Some(crate::repository::root()?.join("docs/benchmarks"));
            }
        }
        Ok(wish)
    }
}

impl Part {
    /// Whether the real agent runs.
    fn has_agent(self) -> bool {
        matches!(self, Self::Agent | Self::Nftables | Self::Relay)
    }
}

fn steps(part: Part, sizes: Sizes) -> usize {
    match part {
        Part::Plan => 2,
        Part::Agent => agent::STEPS,
        Part::Sync => first_sync::steps(sizes),
        Part::Nftables => nftables::steps(sizes),
        Part::Relay => relay::STEPS,
    }
}

/// In the unit that suits it.
fn duration(time: Duration) -> String {
    if time < Duration::from_millis(1) {
        format!("{:.1} µs", time.as_secs_f64() * 1e6)
    } else if time < Duration::from_secs(1) {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    } else {
        format!("{:.2} s", time.as_secs_f64())
    }
}

/// With commas: 10,000.
fn thousands(number: u32) -> String {
    match number.checked_div(1_000) {
        Some(front @ 1..) => format!("{},{:03}", thousands(front), number % 1_000),
        _ => number.to_string(),
    }
}

/// The middle one; of an even number, the lower of the two.
fn median(times: Vec<Duration>) -> Duration {
    quantile(times, 0.5)
}

/// The time that this share of all does not pass; the lower of two.
fn quantile(mut times: Vec<Duration>, share: f64) -> Duration {
    times.sort_unstable();
    let most = u32::try_from(times.len()).unwrap_or(u32::MAX);
    let passed = (1..most).filter(|n| f64::from(*n) < f64::from(most) * share).count();
    times.get(passed).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        assert_eq!(
            [7, 999, 1_000, 50_000, 1_000_001].map(thousands).join(" "),
            "7 999 1,000 50,000 1,000,001"
        );
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let times = |most: u64| (1..=most).rev().map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(median(times(4)), Duration::from_millis(2));
        assert_eq!(median(times(5)), Duration::from_millis(3));
        assert_eq!(quantile(times(100), 0.99), Duration::from_millis(99));
        assert_eq!(quantile(times(1), 0.99), Duration::from_millis(1));
        assert_eq!(median(Vec::new()), Duration::ZERO);
    }
}
