//! nftables mode beside the kernel's own limit: the first sync, single changes, restarts and repairs, and the real agent.
//!
//! In: sizes. Out: a section of the report. Two ways of measuring: [`load`] drives the mode in this process, in a private
//! namespace, beside the same commits without it; [`node`] looks at the real agent from outside.

mod copy;
mod load;
mod node;
mod told;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::plot::{Line, Picture};
use super::progress::Progress;
use super::report::Section;
use super::{Goal, Measured, Sizes, duration, median, quantile, thousands};
use load::{Again, Changes, Load};
use node::Seen;

/// How large this part is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Clusters to load and change, the first to be compared with the last.
    clusters: [u32; 4],
    /// The cluster for which the first sync has a goal.
    judged: u32,
    /// Clusters for the real agent.
    agents: &'static [Agent],
    /// A cluster that only has to load.
    most: u32,
    /// Endpoints changed one by one.
    changes: u32,
    /// How long nothing happens.
    idle: Duration,
}

/// The real agent at one size.
#[derive(Clone, Copy, Debug)]
struct Agent {
    services: u32,
    /// The megabytes that it may use, and how that is said.
    memory: Option<(f64, &'static str)>,
    /// How much processor time it may use while idle.
    idle: Option<Duration>,
    /// How soon a restart must be done.
    restart: Option<Duration>,
    /// How soon a deleted table must be back.
    repair: Option<Duration>,
}

impl Agent {
    const fn new(services: u32) -> Self {
        Self { services, memory: None, idle: None, restart: None, repair: None }
    }
}

pub(super) const FULL: Scale = Scale {
    clusters: [1_000, 10_000, 25_000, 50_000],
    judged: 10_000,
    agents: &[
        // A larger table takes the kernel alone longer than that.
        Agent { repair: Some(Duration::from_millis(100)), ..Agent::new(1_000) },
        Agent {
            memory: Some((60.0, "under 60 MB")),
            idle: Some(TICK),
            restart: Some(Duration::from_secs(1)),
            ..Agent::new(10_000)
        },
        Agent { memory: Some((250.0, "under 250 MB")), idle: Some(TICK), ..Agent::new(50_000) },
    ],
    most: 60_000,
    changes: 500,
    idle: Duration::from_secs(12),
};

pub(super) const QUICK: Scale = Scale {
    clusters: [100, 200, 400, 800],
    judged: 400,
    agents: &[Agent::new(400)],
    most: 1_000,
    changes: 50,
    idle: Duration::from_secs(2),
};

const ABOUT: &str = "The mode in a private network namespace, from the last object received to the commit, takes turns \
with the kernel alone: the table is read back and the very same objects are sent as one prepared batch in another \
namespace, so the second time is the limit. Then the real agent on a node of the lab.";
const FIRST_SYNC_GOAL: f64 = 2.5;
const CHANGE_GOAL: Duration = Duration::from_micros(500);
const FLAT_GOAL: f64 = 1.5;
/// The least that the kernel counts for a process.
const TICK: Duration = Duration::from_millis(10);
const OPS_GOAL: usize = 6;

/// Everything at one size.
struct AtSize {
    load: Load,
    changes: Changes,
    again: Again,
}

/// How many steps [`measure`] tells the progress.
pub(super) fn steps(sizes: Sizes) -> usize {
    1 + 2 * sizes.nftables.clusters.len() + node::STEPS * sizes.nftables.agents.len()
}

pub(super) fn measure(sizes: Sizes, program: &Path, progress: &mut Progress) -> Result<Section> {
    let scale = sizes.nftables;
    let mut measured = Vec::new();
    for services in scale.clusters {
        progress.step(&format!("nftables, {services} Services: first syncs beside prepared batches"));
        let (load, mut pair) = load::first_syncs(services)?;
        progress.step(&format!("nftables, {services} Services: {} changes, restart, repair", scale.changes));
        let changes = pair.changes(services, scale.changes)?;
        measured.push(AtSize { load, changes, again: pair.again(services)? });
    }
    progress.step(&format!("nftables, {} Services: do they load?", scale.most));
    let (most, _) = load::first_syncs(scale.most)?;
    let mut agents = Vec::new();
    for agent in scale.agents {
        agents.push((node::watch(program, agent.services, scale.idle, progress)?, agent));
    }
    let mut lines: Vec<Measured> = measured.iter().flat_map(|m| first_sync(&m.load, sizes)).collect();
    lines.extend(first_sync(&most, sizes));
    lines.extend(measured.iter().flat_map(|m| one_change(&m.changes, sizes)));
    lines.extend(flatness(&measured, sizes));
    lines.extend(measured.iter().flat_map(again));
    for (seen, agent) in &agents {
        lines.extend(told::of_agent(seen, agent));
        lines.extend(beside_kernel(seen, &measured));
    }
    Ok(Section { title: "nftables mode", about: ABOUT, lines, pictures: pictures(&measured) })
}

fn ratio(ours: Duration, kernels: Duration) -> f64 {
    ours.as_secs_f64() / kernels.as_secs_f64().max(1e-9)
}

fn first_ratio(load: &Load) -> f64 {
    ratio(median(load.first.clone()), median(load.kernel.clone()))
}

fn first_sync(load: &Load, sizes: Sizes) -> [Measured; 6] {
    let info = |what: &str, value: String| Measured::info(load.services, what, value);
    let timed = |what: &str, times: &[Duration]| Measured::times(load.services, what, times);
    let value = first_ratio(load);
    let times = info("first sync, times the kernel's own (medians)", format!("{value:.2}"));
    let is_judged = load.services == sizes.nftables.judged;
    let busy = ratio(median(load.first_busy.clone()), median(load.kernel_busy.clone()));
    [
        timed("first sync, last object received to committed", &load.first),
        timed("of it, following objects until the mode is called", &load.following),
        timed("the kernel alone, one prepared batch", &load.kernel),
        info("elements, bytes of that batch", format!("{}, {}", load.elements, load.bytes)),
        if is_judged {
            times.wanting("at most 2.5", Goal::met(value <= FIRST_SYNC_GOAL).at(sizes))
        } else {
            times
        },
        info("the same in processor time", format!("{busy:.2}")),
    ]
}

fn one_change(changes: &Changes, sizes: Sizes) -> [Measured; 4] {
    let info = |what: &str, value: String| {
        Measured::info(changes.services, format!("one endpoint replaced, {what}"), value)
    };
    let (ours, kernels) = (median(changes.times.clone()), median(changes.kernel.clone()));
    let both = |p50: Duration, times: &[Duration]| {
        format!("{}, {}", duration(p50), duration(quantile(times.to_vec(), 0.99)))
    };
    [
        info("received to committed, p50 and p99", both(ours, &changes.times))
            .wanting("p50 under 0.5 ms", Goal::met(ours < CHANGE_GOAL).at(sizes)),
        info("the same commits by the kernel alone, p50 and p99", both(kernels, &changes.kernel)),
        info("times the kernel's own (p50)", format!("{:.2}", ratio(ours, kernels))),
        info("elements written", changes.ops.to_string())
            .wanting("at most 6", Goal::met(changes.ops <= OPS_GOAL)),
    ]
}

/// The largest cluster beside the smallest.
fn flatness(measured: &[AtSize], sizes: Sizes) -> Option<Measured> {
    let (small, large) = (&measured.first()?.changes, &measured.last()?.changes);
    let p50 = |changes: &Changes| median(changes.times.clone());
    let value = ratio(p50(large), p50(small));
    let (at_large, at_small) = (thousands(large.services), thousands(small.services));
    Some(Measured {
        services: None,
        what: format!("one endpoint replaced, p50 at {at_large} Services, times that at {at_small}"),
        value: format!("{value:.2}"),
        wanted: "under 1.5",
        goal: Goal::met(value < FLAT_GOAL).at(sizes),
        runs: Vec::new(),
    })
}

/// The agent's first sync, on a heap of its own, beside the kernel at the same size.
fn beside_kernel(seen: &Seen, measured: &[AtSize]) -> Option<Measured> {
    let load = measured.iter().map(|m| &m.load).find(|load| load.services == seen.services)?;
    let value = ratio(seen.first_sync, median(load.kernel.clone()));
    let what = "agent, first sync by its own metric, times the kernel's own";
    Some(Measured::info(seen.services, what, format!("{value:.2}")))
}

/// No goals here: the real agent has them.
fn again(measured: &AtSize) -> [Measured; 2] {
    let info = |what: &str, value| Measured::info(measured.load.services, what, duration(value));
    [
        info("restart, nothing written, last object received to done", measured.again.restart),
        info("table deleted: all rules written again", measured.again.repair),
    ]
}

fn pictures(measured: &[AtSize]) -> Vec<Picture> {
    let over = |value: &dyn Fn(&AtSize) -> f64| -> Vec<(u32, f64)> {
        measured.iter().map(|m| (m.load.services, value(m))).collect()
    };
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    vec![
        Picture {
            file: "nftables-first-sync.svg",
            title: "nftables mode, first sync: times the kernel's own, by number of Services".to_owned(),
            unit: "",
            lines: vec![Line { name: "Switchyard".to_owned(), points: over(&|m| first_ratio(&m.load)) }],
            goal: Some(FIRST_SYNC_GOAL),
        },
        Picture {
            file: "nftables-change.svg",
            title: "nftables mode, one endpoint replaced: microseconds by number of Services".to_owned(),
            unit: " µs",
            lines: vec![
                Line { name: "p50".to_owned(), points: over(&|m| micros(median(m.changes.times.clone()))) },
                Line {
                    name: "p99".to_owned(),
                    points: over(&|m| micros(quantile(m.changes.times.clone(), 0.99))),
                },
                Line {
                    name: "kernel alone, p50".to_owned(),
                    points: over(&|m| micros(median(m.changes.kernel.clone()))),
                },
            ],
            goal: None,
        },
    ]
}
