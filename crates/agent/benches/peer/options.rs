//! What to measure: the command line, and the cells that follow from it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::kind::{KINDS, Kind};
use crate::store::Store;

/// Numbers of Services, unless others are asked for.
const SIZES: [u32; 5] = [100, 1_000, 5_000, 10_000, 50_000];

/// Switchyard beside upstream's kube-proxy.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Only this number of Services (may be repeated)
    #[arg(long = "size")]
    picked_sizes: Vec<u32>,
    /// Only this kind of proxy (may be repeated), such as ours-nftables
    #[arg(long = "kind", value_parser = kind)]
    picked_kinds: Vec<&'static Kind>,
    /// Measures again what is measured already
    #[arg(long)]
    fresh: bool,
    /// Only writes the report of what is measured
    #[arg(long)]
    report: bool,
    /// Seconds that one step may take
    #[arg(long, default_value_t = 300)]
    deadline: u64,
    /// Complete rounds at every size; by default three of the first sync, of which one or two go on with everything else
    #[arg(long)]
    rounds: Option<usize>,
    /// Measures only this after a first sync, tells, and keeps nothing
    #[arg(long)]
    only: Option<Part>,
    /// Directory for the report; by default docs/benchmarks
    #[arg(long)]
    out: Option<PathBuf>,
    /// Cargo says so to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Part {
    /// From the start of the process until everything answers
    FirstSync,
    /// One endpoint replaced, again and again
    Changes,
    /// Many slices changed while clients connect
    Churn,
    /// How long connecting takes
    Connect,
    /// Killed, and started again over its own rules
    Restart,
}

/// What is measured in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Extent {
    /// Everything.
    #[default]
    All,
    /// One part after the first sync.
    Only(Part),
}

impl Extent {
    pub(crate) fn has(self, part: Part) -> bool {
        self == Self::All || self == Self::Only(part)
    }
}

/// One proxy of one kind at one size, once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) services: u32,
    pub(crate) kind: &'static Kind,
    /// From 0.
    pub(crate) round: usize,
    pub(crate) extent: Extent,
}

impl Options {
    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline)
    }

    /// All sizes, the smallest first.
    pub(crate) fn sizes(&self) -> Vec<u32> {
        let mut sizes = if self.picked_sizes.is_empty() { SIZES.to_vec() } else { self.picked_sizes.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// What is left to measure, in order: kinds take turns in every round, each time another one first. Kinds without a program are told,
    /// and left out.
    pub(crate) fn plan(&self, store: &Store) -> anyhow::Result<Vec<Cell>> {
        if self.report {
            return Ok(Vec::new());
        }
        let is_picked = |kind: &&Kind| self.picked_kinds.is_empty() || self.picked_kinds.contains(kind);
        let kinds: Vec<&'static Kind> =
            KINDS.iter().filter(is_picked).filter(|kind| kind.program_or_skip().is_some()).collect();
        let mut cells = Vec::new();
        for services in self.sizes() {
            for (round, extent) in self.extents(services).into_iter().enumerate() {
                let (first, others) = kinds.split_at(round % kinds.len().max(1));
                let kinds = others.iter().chain(first);
                cells.extend(kinds.map(|kind| Cell { services, kind, round, extent }));
            }
        }
        if self.keeps_nothing() {
            return Ok(cells);
        }
        if self.fresh {
            cells.iter().try_for_each(|cell| store.forget(cell.services, cell.kind))?;
        }
        let mut done = Vec::new();
        for cell in &cells {
            if !done.iter().any(|(services, kind, _)| (*services, *kind) == (cell.services, cell.kind)) {
                let extents = store.rounds(cell.services, cell.kind)?.into_iter().map(|round| round.extent);
                done.push((cell.services, cell.kind, extents.collect::<Vec<Extent>>()));
            }
        }
        cells.retain(|cell| {
            let of_cell =
                done.iter_mut().find(|(services, kind, _)| (*services, *kind) == (cell.services, cell.kind));
            let Some((_, _, extents)) = of_cell else { return true };
            // A round that is there stands for one cell of its extent.
            extents.iter().position(|extent| *extent == cell.extent).map(|at| extents.remove(at)).is_none()
        });
        Ok(cells)
    }

    /// True if what is measured is told, and nothing else.
    pub(crate) fn keeps_nothing(&self) -> bool {
        self.only.is_some()
    }

    /// What is measured in each round.
    fn extents(&self, services: u32) -> Vec<Extent> {
        let (complete, short) = self.rounds.map_or_else(|| rounds(services), |rounds| (rounds, 0));
        let mut extents = vec![Extent::All; complete];
        extents.resize(complete + short, Extent::Only(Part::FirstSync));
        if let Some(part) = self.only {
            extents.fill(Extent::Only(part));
        }
        extents
    }

    /// Where the report goes.
    pub(crate) fn out(&self) -> PathBuf {
        let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks");
        self.out.clone().unwrap_or_else(usual)
    }
}

/// Complete rounds, and rounds of the first sync alone: a single one tells as much about the machine as about the proxy. Changes are many in
/// every round.
fn rounds(services: u32) -> (usize, usize) {
    match services {
        0..=100 => (2, 1),
        _ => (1, 2),
    }
}

fn kind(name: &str) -> Result<&'static Kind, String> {
    let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    Kind::named(name).ok_or_else(|| format!("one of {}", names.join(", ")))
}
