//! One proxy of one kind at one size, from its start to its end.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::figures::Round;
use crate::kind::Pause;
use crate::options::Cell;
use crate::progress::Progress;
use crate::stage::{Stage, Took};
use crate::{changes, churn, connect, machine};

const FULL_SYNC: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds";
const SYNC: &str = "kubeproxy_sync_proxy_rules_duration_seconds";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    All,
    FirstSync,
}

/// Measures everything that can be reached before the deadlines, of which every step has one of its own.
pub(crate) fn run(
    cluster: &Cluster,
    cell: &Cell,
    deadline: Duration,
    progress: &Progress,
) -> anyhow::Result<Round> {
    let mut stage = Stage::new(cluster, cell.kind)?;
    let mut round = Round {
        measured: machine::moment(),
        load: load(),
        never_pauses: !cell.kind.pauses(),
        ..Round::default()
    };
    progress.tell("first sync");
    if first_sync(&mut stage, cell, deadline, &mut round)? && cell.extent == Extent::All {
        progress.tell("one endpoint replaced, again and again");
        let changes = round.changes.insert(changes::measure(&mut stage, deadline)?);
        let is_behind = changes.not_after.is_some();
        round.memory_after_changes = Some(stage.memory()?);
        if is_behind {
            return Ok(round);
        }
        progress.tell("many slices changed");
        round.churn = Some(churn::measure(&mut stage, cell.services, deadline)?);
        round.memory_after_churn = Some(stage.memory()?);
        progress.tell("connecting");
        round.connect = Some(connect::measure(&mut stage, cell, deadline)?);
        restart(&mut stage, cell, deadline, &mut round, progress)?;
    }
    tell_results(&round, progress);
    Ok(round)
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
    cell: &Cell,
    deadline: Duration,
    round: &mut Round,
    progress: &Progress,
) -> anyhow::Result<()> {
    progress.tell("killed, and started again over its own rules");
    stage.start(if cell.kind.pauses() { Pause::None } else { Pause::Default })?;
    let took = stage.wait_until_written(deadline)?;
    round.restart = Some(took);
    if let Took::Seconds(_) = took {
        round.restart_processor = Some(stage.processor()?);
        if cell.kind.pauses() {
            progress.tell("one endpoint replaced, without pauses");
            round.changes_without_pause = Some(changes::measure(stage, deadline)?);
        }
    }
    Ok(())
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn tell_results(round: &Round, progress: &Progress) {
    let changes = round.changes.as_ref().map(|changes| crate::figures::Quantiles::of(&changes.seconds));
    progress.tell(&format!(
        "first sync {:?} (metric {:?}), changes {changes:?}, restart {:?}, memory {:?}",
        round.first_sync, round.first_sync_metric, round.restart, round.memory
    ));
}
