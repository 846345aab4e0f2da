//! Syncs of nftables mode in private namespaces, beside the same commits without the mode.
//!
//! In: a number of Services. Out: the time from the last object received to the commit, and the kernel's own time, for
//! the first sync and for single changes. Both take turns, so what else the machine does falls on both.

use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use switchyard_apply::Mode;
use switchyard_apply::nft::mode::NftMode;
use switchyard_apply::report::Report;
use switchyard_model::Tracker;
use switchyard_netlink::netns::Namespace;
use switchyard_netlink::nftables::{Batch, Nft, delete_table};
use switchyard_plan::book::PortChanges;

use super::super::cluster;
use super::copy::{self, Copy, Difference};

/// First syncs, each beside the prepared batch; medians count.
const RUNS: usize = 3;

/// One size of cluster.
#[derive(Default)]
pub(super) struct Load {
    pub(super) services: u32,
    /// Last object received to committed.
    pub(super) first: Vec<Duration>,
    /// Of it, until the mode is called.
    pub(super) following: Vec<Duration>,
    /// The same elements as one prepared batch.
    pub(super) kernel: Vec<Duration>,
    /// Both in processor time of this thread, to which others on the machine add little.
    pub(super) first_busy: Vec<Duration>,
    pub(super) kernel_busy: Vec<Duration>,
    /// Elements in the kernel, and bytes of the prepared batch.
    pub(super) elements: usize,
    pub(super) bytes: usize,
}

/// What single changes cost.
pub(super) struct Changes {
    pub(super) services: u32,
    /// Changed endpoint received to committed.
    pub(super) times: Vec<Duration>,
    /// The same commits alone.
    pub(super) kernel: Vec<Duration>,
    /// Elements written by each.
    pub(super) ops: usize,
}

/// A start over rules that are right, and after they were deleted.
pub(super) struct Again {
    /// Last object received to done, with nothing to write.
    pub(super) restart: Duration,
    /// Distrusted to committed, after the table was deleted.
    pub(super) repair: Duration,
}

/// A namespace with the rules of the mode in it, and one with the copy.
pub(super) struct Pair {
    namespace: Namespace,
    mode: NftMode,
    tracker: Tracker,
    reader: Nft,
    copy: Copy,
    copied: Nft,
    _copy_namespace: Namespace,
}

impl Load {
    fn new(services: u32) -> Self {
        Self { services, ..Self::default() }
    }
}

/// First syncs; what the last one left is kept.
pub(super) fn first_syncs(services: u32) -> Result<(Load, Pair)> {
    let mut load = Load::new(services);
    let mut prepared: Option<(Copy, Batch)> = None;
    for run in 1..=RUNS {
        let (namespace, copy_namespace) = (private()?, private()?);
        let Started { mode, tracker, following, time, busy: first_busy } = start(&namespace, services)?;
        load.first.push(time);
        load.first_busy.push(first_busy);
        load.following.push(following);
        let mut reader = namespace.run(Nft::open)??;
        let (copy, batch) = match prepared.take() {
            Some(prepared) => prepared,
            None => {
                let copy = Copy::read(&mut reader)?;
                let batch = copy.batch();
                (copy, batch)
            }
        };
        let mut copied = copy_namespace.run(Nft::open)??;
        let before = busy()?;
        load.kernel.push(copy::commit(&mut copied, &batch)?);
        load.kernel_busy.push(busy()?.saturating_sub(before));
        (load.elements, load.bytes) = (copy.len(), batch.byte_length());
        if run == RUNS {
            let pair =
                Pair { namespace, mode, tracker, reader, copy, copied, _copy_namespace: copy_namespace };
            return Ok((load, pair));
        }
        prepared = Some((copy, batch));
    }
    bail!("no first sync was asked for")
}

impl Pair {
    /// Replaces one endpoint each of many Services, and puts them back one by one: that is timed.
    pub(super) fn changes(&mut self, services: u32, changes: u32) -> Result<Changes> {
        let indices: Vec<u32> = (0..changes).map(|n| cluster::remote(n * (services / changes))).collect();
        let mut ops = None;
        for index in &indices {
            cluster::replace_endpoint(&mut self.tracker, *index);
            let report = sync(&mut self.mode, cluster::taken(&mut self.tracker))?;
            ensure!(*ops.get_or_insert(report.lines) == report.lines, "changes differ in what they write");
        }
        let ops = ops.unwrap_or_default();
        let sets: Vec<_> = self.copy.elements.iter().map(copy::Elements::set).cloned().collect();
        let after = copy::read_elements(&mut self.reader, sets.iter())?;
        let differences = Difference::between(&self.copy.elements, &after);
        let undo = copy::undo(&differences, indices.len(), ops)?;
        copy::commit(&mut self.copied, &copy::redo(&differences))?;
        let mut measured = Changes { services, times: Vec::new(), kernel: Vec::new(), ops };
        for (index, batch) in indices.iter().zip(&undo) {
            let begin = Instant::now();
            cluster::restore_endpoint(&mut self.tracker, *index);
            let report = sync(&mut self.mode, cluster::taken(&mut self.tracker))?;
            measured.times.push(begin.elapsed());
            ensure!(report.lines == ops, "a change back wrote {} elements instead of {ops}", report.lines);
            measured.kernel.push(copy::commit(&mut self.copied, batch)?);
        }
        Ok(measured)
    }

    /// A second start over the same rules, then a repair.
    pub(super) fn again(mut self, services: u32) -> Result<Again> {
        drop(self.mode);
        let before = self.reader.generation()?;
        let Started { mut mode, time: restart, .. } = start(&self.namespace, services)?;
        ensure!(self.reader.generation()? == before, "a restart with nothing changed wrote to the kernel");
        let id = copy::table();
        self.namespace.run(|| delete_table(id.family, &id.name))??;
        let begin = Instant::now();
        mode.distrust();
        sync(&mut mode, PortChanges::default())?;
        Ok(Again { restart, repair: begin.elapsed() })
    }
}

fn private() -> Result<Namespace> {
    Namespace::new().context("cannot make a network namespace; run as root")
}

/// A mode that has just started.
struct Started {
    mode: NftMode,
    tracker: Tracker,
    following: Duration,
    time: Duration,
    busy: Duration,
}

/// Starts a mode: the time is that from the complete list of slices to the commit.
fn start(namespace: &Namespace, services: u32) -> Result<Started> {
    let (mut tracker, slices) = cluster::without_slices(services);
    let mut mode = NftMode::new(namespace.run(Nft::open)??, cluster::nft_planner());
    let before = busy()?;
    let begin = Instant::now();
    tracker.apply(slices);
    let changes = cluster::taken(&mut tracker);
    let following = begin.elapsed();
    sync(&mut mode, changes)?;
    let time = begin.elapsed();
    Ok(Started { mode, tracker, following, time, busy: busy()?.saturating_sub(before) })
}

/// The processor time of this thread so far, the kernel's work for it included.
fn busy() -> Result<Duration> {
    // The scheduler writes the time down when it is asked for another thread to run.
    thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_whitespace().next().context("an empty schedstat")?;
    Ok(Duration::from_nanos(nanoseconds.parse().context("not a number in schedstat")?))
}

fn sync(mode: &mut NftMode, changes: PortChanges) -> Result<Report> {
    let mut report = mode.sync(Instant::now(), changes, &mut |_| {});
    if let Some(refused) = report.refused.first() {
        bail!("{} was set aside: {}", refused.name, refused.cause);
    }
    match report.failure.take() {
        Some(failure) => Err(failure).context("a sync failed"),
        None => Ok(report),
    }
}
