//! The real agent, as a process on a node of the lab, with the manifests of a large cluster: its memory, and what one
//! changed endpoint costs it.
//!
//! It uses the legacy variant of iptables: 10,000 Services are in the kernel within seconds there, and what the agent
//! itself keeps is the same for both.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use switchyard_lab::{Lab, Node};

use super::manifests::Manifests;
use super::progress::Progress;
use super::report::Section;
use super::running::{Change, Memory, OPS, PLANNED, Running, SETTLE};
use super::{Goal, Measured, Sizes, duration, median};

/// What [`measure`] tells the progress.
pub(super) const STEPS: usize = 4;

const ABOUT: &str = "The real agent on a node of the lab, with the manifests of a large cluster. It uses the legacy \
variant, which takes 10,000 Services within seconds; what the agent itself keeps is the same for both.";
const GOAL_MB: f64 = 60.0;
/// Endpoints changed one after another.
const CHANGES: u32 = 3;

/// What was seen of one agent.
struct Seen {
    services: u32,
    memory: Memory,
    after_changes: f64,
    planned: f64,
    ops: f64,
    first_sync: Duration,
    changes: Vec<Change>,
}

pub(super) fn measure(sizes: Sizes, program: &Path, progress: &mut Progress) -> Result<Section> {
    let small = watch(program, sizes.small, progress)?;
    let large = watch(program, sizes.large, progress)?;
    let mut lines = memory(&large, sizes).to_vec();
    let all: Vec<f64> = small.changes.iter().chain(&large.changes).map(|c| c.ops).collect();
    let are_equal = all.iter().all(|ops| Some(ops) == all.first());
    lines.extend([&small, &large].into_iter().flat_map(|seen| one_change(seen, Goal::met(are_equal))));
    Ok(Section { title: "iptables mode: the agent", about: ABOUT, lines, pictures: Vec::new() })
}

fn memory(large: &Seen, sizes: Sizes) -> [Measured; 4] {
    let info = |what: &str, value: String| Measured::info(large.services, what, value);
    let Memory { resident, peak } = large.memory;
    [
        info("resident memory after the first sync (peak)", format!("{resident:.1} MB ({peak:.1})"))
            .wanting("under 60 MB", Goal::met(resident < GOAL_MB).at(sizes)),
        info("resident memory after changes", format!("{:.1} MB", large.after_changes)),
        info("first sync: service ports planned, lines", format!("{}, {}", large.planned, large.ops)),
        info("start to first sync done", duration(large.first_sync)),
    ]
}

fn one_change(seen: &Seen, written: Goal) -> [Measured; 3] {
    let info = |what: &str, value: String| Measured::info(seen.services, what, value);
    let each = |count: &dyn Fn(&Change) -> f64| {
        seen.changes.iter().map(|c| count(c).to_string()).collect::<Vec<_>>().join(" ")
    };
    [
        info("one endpoint changed, service ports planned", each(&|c| c.planned))
            .wanting("1", Goal::met(seen.changes.iter().all(|c| c.planned == 1.0))),
        info("one endpoint changed, lines written", each(&|c| c.ops)).wanting("equal", written),
        info(
            "one endpoint changed, rename to committed (median)",
            duration(median(seen.changes.iter().map(|c| c.time).collect())),
        ),
    ]
}

fn watch(program: &Path, services: u32, progress: &mut Progress) -> Result<Seen> {
    progress.step(&format!("agent with {services} Services: first sync"));
    let mut manifests = Manifests::write(services)?;
    let lab = Lab::new().context("cannot make the lab; run as root")?;
    let mut agent =
        Running::start(program, lab.node(Node::N1), &manifests, &["--iptables-backend", "legacy"])?;
    let first_sync = agent.wait_until_synced()?;
    let page = agent.settle()?;
    let memory = agent.memory()?;
    let (planned, ops) = (page.sample(PLANNED)?, page.sample(OPS)?);
    progress.step(&format!("agent with {services} Services: one endpoint changed, {CHANGES} times"));
    let mut changes = Vec::new();
    for change in 1..=CHANGES {
        changes.push(agent.change_one(&mut manifests, services / (CHANGES + 1) * change)?);
        thread::sleep(SETTLE);
    }
    let after_changes = agent.memory()?.resident;
    Ok(Seen { services, memory, after_changes, planned, ops, first_sync, changes })
}
