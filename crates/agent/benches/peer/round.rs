//! One proxy of one kind at one size, from its start to its end.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::figures::Round;
use crate::kind::Pause;
use crate::options::{Cell, Part};
use crate::progress::Progress;
use crate::stage::{Stage, Took};
use crate::{changes, churn, connect, machine};

const FULL_SYNC: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds";
const SYNC: &str = "kubeproxy_sync_proxy_rules_duration_seconds";

/// Measures everything that can be reached before the deadlines, of which every step has one of its own.
pub(crate) fn run(
    cluster: &Cluster,
    cell: &Cell,
    deadline: Duration,
    progress: &Progress,
) -> anyhow::Result<Round> {
    let mut stage = Stage::new(cluster, cell.kind)?;
    let mut round = Round {
        extent: cell.extent,
        build: machine::build()?,
        measured: machine::moment(),
        command: machine::command(),
        machine: machine::facts(),
        busy: machine::wait_until_idle(),
        ..Round::default()
    };
    progress.tell("first sync");
    if first_sync(&mut stage, cell, deadline, &mut round)? {
        others(&mut stage, cell, deadline, &mut round, progress)?;
    }
    tell_results(&round, progress);
    Ok(round)
}

/// What follows the first sync, as far as it is wanted.
fn others(
    stage: &mut Stage<'_>,
    cell: &Cell,
    deadline: Duration,
    round: &mut Round,
    progress: &Progress,
) -> anyhow::Result<()> {
    if cell.extent.has(Part::Changes) {
        progress.tell("one endpoint replaced, again and again");
        let changes = round.changes.insert(changes::measure(stage, deadline)?);
        let is_behind = changes.not_after.is_some();
        round.memory_after_changes = Some(stage.memory()?);
        if is_behind {
            return Ok(());
        }
    }
    if cell.extent.has(Part::Churn) {
        progress.tell("many slices changed");
        round.churn = Some(churn::measure(stage, cell.services, deadline)?);
        round.memory_after_churn = Some(stage.memory()?);
    }
    if cell.extent.has(Part::Connect) {
        progress.tell("connecting");
        round.connect = Some(connect::measure(stage, cell, deadline)?);
    }
    if cell.extent.has(Part::Restart) {
        restart(stage, deadline, round, progress)?;
    }
    Ok(())
}

/// True if it was done in time.
fn first_sync(
    stage: &mut Stage<'_>,
    cell: &Cell,
    deadline: Duration,
    round: &mut Round,
) -> anyhow::Result<bool> {
    let mut left = stage.cluster.objects.answering(cell.services);
    left.reverse();
    stage.start(Pause::Default)?;
    let took = stage.wait(stage.begin(), deadline, |stage| {
        while let Some(to) = left.last() {
            if stage.ask(*to).is_none() {
                return false;
            }
            left.pop();
        }
        true
    })?;
    round.first_sync = Some(took);
    let Took::Seconds(_) = took else { return Ok(false) };
    // What follows the rules, such as counting, belongs to the sync too.
    stage.wait_until_written(deadline)?;
    round.first_sync_metric = metric(stage);
    round.first_sync_processor = Some(stage.processor()?);
    round.memory = Some(stage.memory()?);
    Ok(true)
}

/// The mean of the first syncs, of which there is mostly one.
fn metric(stage: &Stage<'_>) -> Option<f64> {
    let mean = |name: &str| {
        let count = stage.metric(&format!("{name}_count")).filter(|count| *count > 0.0)?;
        Some(stage.metric(&format!("{name}_sum"))? / count)
    };
    mean(FULL_SYNC).or_else(|| mean(SYNC))
}

/// Where a proxy pauses by default, it does not any more after the restart.
fn restart(
    stage: &mut Stage<'_>,
    deadline: Duration,
    round: &mut Round,
    progress: &Progress,
) -> anyhow::Result<()> {
    progress.tell("killed, and started again over its own rules");
    stage.start(Pause::None)?;
    let took = stage.wait_until_written(deadline)?;
    round.restart = Some(took);
    if let Took::Seconds(_) = took {
        round.restart_processor = Some(stage.processor()?);
        progress.tell("one endpoint replaced, without pauses");
        round.changes_without_pause = Some(changes::measure(stage, deadline)?);
    }
    Ok(())
}

fn tell_results(round: &Round, progress: &Progress) {
    let quantiles = |changes: &Option<crate::figures::Changes>| {
        changes.as_ref().map(|changes| crate::figures::Quantiles::of(&changes.seconds))
    };
    progress.tell(&format!(
        "first sync {:?} (metric {:?}), changes {:?}, without pause {:?}, connecting {:?}, restart {:?}, memory {:?}",
        round.first_sync,
        round.first_sync_metric,
        quantiles(&round.changes),
        quantiles(&round.changes_without_pause),
        round.connect,
        round.restart,
        round.memory
    ));
}
