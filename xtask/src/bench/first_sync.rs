//! The first sync through iptables-nft: in bounded batches as the proxy does it, and in one transaction as kube-proxy
//! does. All write the same rules, each into a network namespace of its own.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use switchyard_apply::Mode;
use switchyard_apply::iptables::mode::{IptablesMode, NFT_BATCH};
use switchyard_apply::iptables::{Iptables, Limits, Table, Variant};
use switchyard_model::Family;
use switchyard_netlink::netns::Namespace;

use super::plot::{Line, Picture};
use super::progress::Progress;
use super::report::Section;
use super::{Goal, Measured, Sizes, cluster, duration};

const ABOUT: &str = "The same rules through iptables-nft, in bounded batches as Switchyard writes them, and in one \
transaction.";
const GOAL: f64 = 5.0;
/// Long enough for a quadratic program.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Service ports per transaction that are tried, besides the one in use.
const BATCHES: [usize; 6] = [25, 50, 100, 200, 400, 800];

/// One size of cluster.
struct Point {
    services: u32,
    /// Mean of two runs, before and after the single transaction.
    in_batches_seconds: f64,
    one_transaction_seconds: f64,
    restores: usize,
}

/// One way of writing the rules.
struct Run {
    time: Duration,
    restores: usize,
    /// Lines that the kernel printed afterwards, to compare the runs.
    saved: usize,
}

/// How many steps [`measure`] tells the progress.
pub(super) fn steps(sizes: Sizes) -> usize {
    3 * sizes.sync.len() + BATCHES.len()
}

pub(super) fn measure(sizes: Sizes, progress: &mut Progress) -> Result<Section> {
    let mut points = Vec::new();
    for services in sizes.sync {
        points.push(point(services, progress)?);
    }
    let largest = sizes.sync.into_iter().max().unwrap_or_default();
    let mut batches = Vec::new();
    for batch in BATCHES {
        progress.step(&format!("first sync of {largest} Services, batches of {batch}"));
        batches.push((batch, run(largest, batch)?.time.as_secs_f64()));
    }
    let mut lines: Vec<Measured> = points.iter().flat_map(|point| at_one_size(point, sizes)).collect();
    let tried = |(batch, time): &(usize, f64)| {
        Measured::info(largest, format!("in batches of {batch}, once"), seconds(*time))
    };
    lines.extend(batches.iter().map(tried));
    Ok(Section {
        title: "iptables mode: the first sync",
        about: ABOUT,
        lines,
        pictures: vec![picture(&points)],
    })
}

fn picture(points: &[Point]) -> Picture {
    let line = |name: String, seconds: &dyn Fn(&Point) -> f64| Line {
        name,
        points: points.iter().map(|point| (point.services, seconds(point))).collect(),
    };
    Picture {
        file: "first-sync.svg",
        title: "First sync through iptables-nft: seconds by number of Services".to_owned(),
        unit: " s",
        lines: vec![
            line(format!("batches of {NFT_BATCH}"), &|point| point.in_batches_seconds),
            line("one transaction".to_owned(), &|point| point.one_transaction_seconds),
        ],
        goal: None,
    }
}

fn at_one_size(point: &Point, sizes: Sizes) -> [Measured; 3] {
    let info = |what: String, value: String| Measured::info(point.services, what, value);
    let ratio = point.one_transaction_seconds / point.in_batches_seconds.max(1e-9);
    let faster = info("times faster in batches".to_owned(), format!("{ratio:.1}"));
    // Smaller clusters show less: the gap grows with the square of the size.
    let is_judged = sizes.has_goals && sizes.sync.iter().all(|size| *size <= point.services);
    [
        info(
            format!("batches of {NFT_BATCH} (number of restores)"),
            format!("{} ({})", seconds(point.in_batches_seconds), point.restores),
        ),
        info("one transaction".to_owned(), seconds(point.one_transaction_seconds)),
        if is_judged { faster.wanting("at least 5", Goal::met(ratio >= GOAL)) } else { faster },
    ]
}

fn seconds(time: f64) -> String {
    duration(Duration::from_secs_f64(time))
}

/// Batches, one transaction, batches: what else the machine does falls on both.
fn point(services: u32, progress: &mut Progress) -> Result<Point> {
    let mut timed = |batch: usize, text: &str| {
        progress.step(&format!("first sync of {services} Services, {text}"));
        run(services, batch)
    };
    let before = timed(NFT_BATCH, "in batches")?;
    let single = timed(usize::MAX, "one transaction")?;
    let after = timed(NFT_BATCH, "in batches again")?;
    if before.saved != single.saved || after.saved != single.saved {
        bail!("the rules differ: {} lines in batches, {} in one transaction", before.saved, single.saved);
    }
    let both = [before.time.as_secs_f64(), after.time.as_secs_f64()];
    Ok(Point {
        services,
        in_batches_seconds: (both.iter().sum::<f64>()) / 2.0,
        one_transaction_seconds: single.time.as_secs_f64(),
        restores: before.restores,
    })
}

fn run(services: u32, batch: usize) -> Result<Run> {
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
