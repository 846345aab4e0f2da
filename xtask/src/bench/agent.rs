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

use super::cluster::ENDPOINTS;
use super::manifests::Manifests;
use super::progress::Progress;
use super::report::Section;
use super::running::{self, Change, Memory, OPS, PLANNED, Running, SETTLE};
use super::{Goal, Measured, Sizes, duration, median};

/// What [`measure`] tells the progress.
pub(super) const STEPS: usize = 5;

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

pub(super) fn measure(sizes: Sizes, progress: &mut Progress) -> Result<Section> {
    progress.step("building the release binary of the agent");
    let program = running::build()?;
    let small = watch(&program, sizes.small, progress)?;
    let large = watch(&program, sizes.large, progress)?;
    let mut lines = memory(&large, sizes);
    lines.extend([&small, &large].into_iter().flat_map(one_change));
    let written =
        |seen: &Seen| seen.changes.iter().map(|c| format!("{}", c.ops)).collect::<Vec<_>>().join(" ");
    let all: Vec<f64> = small.changes.iter().chain(&large.changes).map(|c| c.ops).collect();
    let same = all.iter().all(|ops| Some(ops) == all.first());
    lines.push(Measured {
        what: format!(
            "agent, one endpoint changed: lines written at {} : at {}",
            small.services, large.services
        ),
        value: format!("{} : {}", written(&small), written(&large)),
        wanted: "equal",
        goal: Goal::met(same),
    });
    Ok(Section { title: "iptables mode: the agent", about: ABOUT, lines, pictures: Vec::new() })
}

fn memory(large: &Seen, sizes: Sizes) -> Vec<Measured> {
    let what = |text: &str| format!("agent, {} Services x {ENDPOINTS}: {text}", large.services);
    vec![
        Measured {
            what: what("resident memory after the first sync (peak)"),
            value: format!("{:.1} MB ({:.1})", large.memory.resident, large.memory.peak),
            wanted: "under 60 MB",
            goal: Goal::met(large.memory.resident < GOAL_MB).at(sizes),
        },
        Measured::info(what("resident memory after changes"), format!("{:.1} MB", large.after_changes)),
        Measured::info(
            what("first sync, legacy variant: service ports planned, lines"),
            format!("{}, {}", large.planned, large.ops),
        ),
        Measured::info(what("start to first sync done, legacy variant"), duration(large.first_sync)),
    ]
}

fn one_change(seen: &Seen) -> [Measured; 2] {
    let what =
        |text: &str| format!("agent, {} Services x {ENDPOINTS}: one endpoint changed, {text}", seen.services);
    let planned: Vec<String> = seen.changes.iter().map(|c| c.planned.to_string()).collect();
    [
        Measured {
            what: what("service ports planned"),
            value: planned.join(" "),
            wanted: "1",
            goal: Goal::met(seen.changes.iter().all(|c| c.planned == 1.0)),
        },
        Measured::info(
            what("rename to committed, legacy variant (median)"),
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
