//! From a write to the API until the kernel follows it: the only endpoint of a Service is replaced by another, again and again.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::cluster::{PODS, SWITCHED, at, pod};
use crate::e2e::bulk::Line;
use crate::figures::Changes;
use crate::stage::{Stage, Took};

/// As many as there is time for: enough for a p99 where changes are fast, and of slow ones no fewer than [`LEAST`], unless they take
/// longer than a step may.
const MOST: usize = 100;
const LEAST: usize = 10;
const TIME: Duration = Duration::from_secs(40);

/// Between one change seen and the next one made.
const PAUSE: Duration = Duration::from_millis(100);

/// Replaces endpoints one after the other; the next when the last is in the kernel.
pub(crate) fn measure(stage: &mut Stage<'_>, deadline: Duration) -> anyhow::Result<Changes> {
    let (begin, processor) = (Instant::now(), stage.processor()?);
    let mut changes = Changes::default();
    let mut line = stage.cluster.objects.special.line();
    // The first change finds caches cold, and is not counted.
    replace(stage, &mut line, deadline)?;
    while changes.seconds.len() < wanted(begin.elapsed(), deadline) {
        std::thread::sleep(PAUSE);
        let (api, seen) = replace(stage, &mut line, deadline)?;
        match seen {
            Took::Seconds(seconds) => {
                changes.seconds.push(seconds);
                changes.api_seconds.push(api);
            }
            Took::NotAfter(seconds) => changes.not_after = Some(seconds),
        }
        if changes.not_after.is_some() {
            break;
        }
    }
    changes.processor = stage.processor()? - processor;
    Ok(changes)
}

/// How many there should be after this time.
fn wanted(elapsed: Duration, deadline: Duration) -> usize {
    match elapsed {
        elapsed if elapsed <= TIME => MOST,
        elapsed if elapsed <= deadline => LEAST,
        _ => 0,
    }
}

/// Makes the other of two pods the endpoint: the time until the API server's answer, and until a connection goes there.
pub(crate) fn replace(
    stage: &mut Stage<'_>,
    line: &mut Line,
    deadline: Duration,
) -> anyhow::Result<(f64, Took)> {
    let objects = &stage.cluster.objects;
    let (which, to) = (objects.switch(), at(&objects.special, SWITCHED));
    let is_there = |stage: &Stage<'_>| stage.ask(to).as_deref() == Some(stage.pod_name(which));
    ensure!(
        !is_there(stage),
        "connections go to the new endpoint before it is written: this would measure nothing"
    );
    let endpoint = PODS.get(which).copied().map(pod).unwrap_or_default();
    let begin = Instant::now();
    objects.special.roll(line, SWITCHED, &[endpoint])?;
    let api = begin.elapsed().as_secs_f64();
    Ok((api, stage.wait(begin, deadline, is_there)?))
}
