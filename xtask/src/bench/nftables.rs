//! nftables mode beside the kernel's own limit: the first sync, single changes, restarts and repairs, and the real agent.
//!
//! In: sizes. Out: a section of the report. Two ways of measuring: [`load`] drives the mode in this process, in a private
//! namespace, beside the same commits without it; [`node`] looks at the real agent from outside.

mod copy;
mod load;
mod node;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;

use super::cluster::ENDPOINTS;
use super::plot::{Line, Picture};
use super::progress::Progress;
use super::report::Section;
use super::{Goal, Measured, Sizes, duration, median, quantile, running};
use load::{Again, Changes, Load};
use node::Seen;

/// How large this part is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Clusters to load and change, the first to be compared with the last.
    clusters: [u32; 4],
    /// The cluster for which the first sync has a goal.
    judged: u32,
    /// Clusters for the real agent, and megabytes that it may use.
    agents: [(u32, f64); 2],
    /// A cluster that only has to load.
    most: u32,
    /// Endpoints changed one by one.
    changes: u32,
    /// How long nothing happens.
    idle: Duration,
}

pub(super) const FULL: Scale = Scale {
    clusters: [1_000, 10_000, 25_000, 50_000],
    judged: 10_000,
    agents: [(10_000, 60.0), (50_000, 250.0)],
    most: 60_000,
    changes: 500,
    idle: Duration::from_secs(12),
};

pub(super) const QUICK: Scale = Scale {
    clusters: [100, 200, 400, 800],
    judged: 400,
    agents: [(100, 60.0), (400, 250.0)],
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
const OPS_GOAL: usize = 6;
const RESTART_GOAL: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);
const SOCKET_CALLS: [&str; 7] =
    ["sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "socket"];
const REPAIR_GOAL: Duration = Duration::from_millis(100);

/// Everything at one size.
struct AtSize {
    load: Load,
    changes: Changes,
    again: Again,
}

/// How many steps [`measure`] tells the progress.
pub(super) fn steps(sizes: Sizes) -> usize {
    2 + 2 * sizes.nftables.clusters.len() + node::STEPS * sizes.nftables.agents.len()
}

pub(super) fn measure(sizes: Sizes, progress: &mut Progress) -> Result<Section> {
    let scale = sizes.nftables;
    progress.step("building the release binary of the agent");
    let program = running::build()?;
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
    for (services, megabytes) in scale.agents {
        agents.push((node::watch(&program, services, scale.idle, progress)?, megabytes));
    }
    let mut lines: Vec<Measured> = measured.iter().flat_map(|m| first_sync(&m.load, sizes)).collect();
    lines.extend(first_sync(&most, sizes));
    lines.extend(measured.iter().flat_map(|m| one_change(&m.changes, sizes)));
    lines.extend(flatness(&measured, sizes));
    lines.extend(measured.iter().flat_map(again));
    lines.extend(agents.iter().flat_map(|(seen, megabytes)| of_agent(seen, *megabytes, sizes)));
    Ok(Section { title: "nftables mode", about: ABOUT, lines, pictures: pictures(&measured) })
}

fn named(services: u32, text: &str) -> String {
    format!("nftables, {services} Services x {ENDPOINTS}: {text}")
}

fn ratio(ours: Duration, kernels: Duration) -> f64 {
    ours.as_secs_f64() / kernels.as_secs_f64().max(1e-9)
}

fn list(times: &[Duration]) -> String {
    times.iter().map(|time| duration(*time)).collect::<Vec<_>>().join(", ")
}

fn first_ratio(load: &Load) -> f64 {
    ratio(median(load.first.clone()), median(load.kernel.clone()))
}

fn first_sync(load: &Load, sizes: Sizes) -> [Measured; 3] {
    let what = |text: &str| named(load.services, text);
    let ratio = first_ratio(load);
    let is_judged = load.services == sizes.nftables.judged;
    let text = format!("kernel alone, {} elements, {} bytes", load.elements, load.bytes);
    [
        Measured::info(what("first sync, last object received to committed"), list(&load.first)),
        Measured::info(what(&text), list(&load.kernel)),
        Measured {
            what: what("first sync, times the kernel's own (medians)"),
            value: format!("{ratio:.2}"),
            wanted: if is_judged { "at most 2.5" } else { "" },
            goal: if is_judged { Goal::met(ratio <= FIRST_SYNC_GOAL).at(sizes) } else { Goal::None },
        },
    ]
}

fn one_change(changes: &Changes, sizes: Sizes) -> [Measured; 4] {
    let what = |text: &str| named(changes.services, &format!("one endpoint replaced, {text}"));
    let p50 = median(changes.times.clone());
    let both = |times: &[Duration]| {
        format!("{}, {}", duration(median(times.to_vec())), duration(quantile(times.to_vec(), 0.99)))
    };
    [
        Measured {
            what: what("received to committed, p50 and p99"),
            value: both(&changes.times),
            wanted: "p50 under 0.5 ms",
            goal: Goal::met(p50 < CHANGE_GOAL).at(sizes),
        },
        Measured::info(what("the same commits by the kernel alone, p50 and p99"), both(&changes.kernel)),
        Measured::info(
            what("times the kernel's own (p50)"),
            format!("{:.2}", ratio(p50, median(changes.kernel.clone()))),
        ),
        Measured {
            what: what("elements written"),
            value: changes.ops.to_string(),
            wanted: "at most 6",
            goal: Goal::met(changes.ops <= OPS_GOAL),
        },
    ]
}

/// The largest cluster beside the smallest.
fn flatness(measured: &[AtSize], sizes: Sizes) -> Option<Measured> {
    let (small, large) = (&measured.first()?.changes, &measured.last()?.changes);
    let p50 = |changes: &Changes| median(changes.times.clone());
    let value = ratio(p50(large), p50(small));
    Some(Measured {
        what: format!(
            "nftables, one endpoint replaced: p50 at {} Services, times that at {}",
            large.services, small.services
        ),
        value: format!("{value:.2}"),
        wanted: "under 1.5",
        goal: Goal::met(value < FLAT_GOAL).at(sizes),
    })
}

/// No goals here: the real agent has them.
fn again(measured: &AtSize) -> [Measured; 2] {
    let what = |text: &str| named(measured.load.services, text);
    [
        Measured::info(
            what("restart over the same rules, last object received to done; nothing written"),
            duration(measured.again.restart),
        ),
        Measured::info(
            what("all rules written again after the table was deleted"),
            duration(measured.again.repair),
        ),
    ]
}

fn of_agent(seen: &Seen, megabytes: f64, sizes: Sizes) -> Vec<Measured> {
    let mut lines = agent_memory(seen, megabytes, sizes);
    lines.extend(agent_idle(seen));
    lines.extend(agent_restart(seen, sizes));
    lines
}

fn agent_memory(seen: &Seen, megabytes: f64, sizes: Sizes) -> Vec<Measured> {
    let what = |text: &str| named(seen.services, &format!("agent, {text}"));
    vec![
        Measured::info(what("start to first sync done"), duration(seen.start)),
        Measured::info(what("first sync by its own metric"), duration(seen.first_sync)),
        Measured {
            what: what("resident memory after the first sync (peak)"),
            value: format!("{:.1} MB ({:.1})", seen.memory.resident, seen.memory.peak),
            wanted: if megabytes > 100.0 { "under 250 MB" } else { "under 60 MB" },
            goal: Goal::met(seen.memory.resident < megabytes).at(sizes),
        },
        Measured::info(
            what("resident memory after changes (peak)"),
            format!("{:.1} MB ({:.1})", seen.after_changes.resident, seen.after_changes.peak),
        ),
    ]
}

fn agent_idle(seen: &Seen) -> Vec<Measured> {
    let idle = &seen.idle;
    let what = |text: &str| {
        named(seen.services, &format!("agent, {} s without any event: {text}", idle.time.as_secs()))
    };
    let mut lines = vec![
        Measured {
            what: what("processor time"),
            value: duration(idle.busy),
            wanted: "less than a clock tick, 10 ms",
            goal: Goal::met(idle.busy < TICK),
        },
        Measured::info(what("context switches"), idle.switches.to_string()),
    ];
    if let Some(calls) = &idle.calls {
        let on_sockets: usize = SOCKET_CALLS.iter().filter_map(|name| calls.get(*name)).sum();
        lines.push(Measured::info(what("system calls; it looks at its files"), told(calls)));
        lines.push(Measured {
            what: what("of them on sockets, as those to the kernel's rules are"),
            value: on_sockets.to_string(),
            wanted: "0",
            goal: Goal::met(on_sockets == 0),
        });
    }
    lines
}

/// How many, and which the most.
fn told(calls: &BTreeMap<String, usize>) -> String {
    let mut by_count: Vec<(&String, &usize)> = calls.iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let most: Vec<String> = by_count.iter().take(4).map(|(name, count)| format!("{name} {count}")).collect();
    let all: usize = calls.values().sum();
    if most.is_empty() { "none".to_owned() } else { format!("{all}: {}", most.join(", ")) }
}

fn agent_restart(seen: &Seen, sizes: Sizes) -> Vec<Measured> {
    let what = |text: &str| named(seen.services, &format!("agent, {text}"));
    let restart = &seen.restart;
    let is_judged = seen.services == sizes.nftables.judged;
    let repair = median(seen.repairs.clone());
    vec![
        Measured {
            what: what("restart with nothing changed, writes to nf_tables"),
            value: if restart.is_untouched { "none" } else { "some" }.to_owned()
                + &format!(", {} operations", restart.ops),
            wanted: "none",
            goal: Goal::met(restart.is_untouched && restart.ops == 0.0),
        },
        Measured {
            what: what("restart with nothing changed, sync by its own metric"),
            value: duration(restart.sync),
            wanted: if is_judged { "under 1 s" } else { "" },
            goal: if is_judged { Goal::met(restart.sync < RESTART_GOAL).at(sizes) } else { Goal::None },
        },
        Measured::info(what("restart with nothing changed, start to done"), duration(restart.start)),
        Measured {
            what: what("table deleted to table back, each time"),
            value: list(&seen.repairs),
            wanted: if is_judged { "median under 100 ms" } else { "" },
            goal: if is_judged { Goal::met(repair < REPAIR_GOAL).at(sizes) } else { Goal::None },
        },
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
