//! The first sync through iptables-nft: in bounded batches as the proxy does it, and in one transaction as kube-proxy
//! does. Both write the same rules, each into a network namespace of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use switchyard_apply::iptables::mode::{IptablesMode, NFT_BATCH};
use switchyard_apply::iptables::{Iptables, Limits, Table, Variant};
use switchyard_model::Family;
use switchyard_netlink::netns::Namespace;

use super::{Goal, Measured, cluster, duration};

const GOAL: f64 = 5.0;
/// Long enough for a quadratic program.
const PATIENCE: Duration = Duration::from_secs(1200);

/// One way of writing the rules.
struct Run {
    time: Duration,
    restores: usize,
    /// Lines that the kernel printed afterwards, to compare the runs.
    saved: usize,
}

pub(super) fn measure(services: usize) -> Result<Vec<Measured>> {
    let what = |text: &str| format!("first sync of {services} Services through iptables-nft, {text}");
    let batched = run(services, NFT_BATCH)?;
    println!("{} ({} restores) {}", what("in batches"), batched.restores, duration(batched.time));
    println!("the same in one transaction; this takes a while");
    let single = run(services, usize::MAX)?;
    if batched.saved != single.saved {
        bail!("the rules differ: {} lines in batches, {} in one transaction", batched.saved, single.saved);
    }
    let ratio = single.time.as_secs_f64() / batched.time.as_secs_f64().max(1e-9);
    Ok(vec![
        Measured { what: what("batches"), value: duration(batched.time), wanted: "", goal: Goal::None },
        Measured {
            what: what("one transaction"),
            value: duration(single.time),
            wanted: "",
            goal: Goal::None,
        },
        Measured {
            what: what("times faster in batches"),
            value: format!("{ratio:.1}"),
            wanted: "at least 5",
            // Smaller clusters show less: the gap grows with the square of the size.
            goal: if services < super::FIRST_SYNC_SERVICES { Goal::None } else { Goal::met(ratio >= GOAL) },
        },
    ])
}

fn run(services: usize, batch: usize) -> Result<Run> {
    let services = u32::try_from(services).context("too many Services")?;
    let namespace = Namespace::new().context("cannot make a network namespace; run as root")?;
    namespace.run(|| {
        let limits = Limits { command: PATIENCE, restore: PATIENCE, ..Limits::default() };
        let programs = Iptables::probe(Family::V4, Variant::Nft)?.with_limits(limits);
        let changes = cluster::taken(&mut cluster::tracker(services));
        let mut mode = IptablesMode::new(programs, cluster::planner()).with_batch(batch);
        let begin = Instant::now();
        let report = mode.sync(begin, changes, &mut |_| {});
        let time = begin.elapsed();
        if let Some(failure) = report.failure {
            return Err(failure).context("the first sync failed");
        }
        let saved = mode.programs().save(Table::Nat)?.lines().filter(|line| !line.starts_with('#')).count();
        Ok(Run { time, restores: report.restores, saved })
    })?
}
