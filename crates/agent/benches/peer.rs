//! Switchyard beside upstream's kube-proxy: same API server, same machine, same objects, in turn. `make bench-peer` runs this.
//!
//! In: sizes and kinds of proxies, see [`options`]. Out: a file of figures for each size and kind in `target/bench-peer`, and of all of them
//! together a table, pictures and JSON in `docs/benchmarks`. What is in `target/bench-peer` already, of the same build of Switchyard, is not
//! measured again.
//!
//! For every size, each kind runs once per round, alone, on the node of a lab of its own; so all kinds share what the machine does to one
//! round. Real connections say what is in the kernel: the same way to look for every kind.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark ends at the first surprise, and tells"
)]

#[macro_use]
#[path = "../tests/common/all.rs"]
mod common;
#[path = "../tests/e2e/all.rs"]
mod e2e;

#[path = "peer/changes.rs"]
mod changes;
#[path = "peer/check.rs"]
mod check;
#[path = "peer/churn.rs"]
mod churn;
#[path = "peer/cluster.rs"]
mod cluster;
#[path = "peer/connect.rs"]
mod connect;
#[path = "peer/figures.rs"]
mod figures;
#[path = "peer/goals.rs"]
mod goals;
#[path = "peer/judge.rs"]
mod judge;
#[path = "peer/kind.rs"]
mod kind;
#[path = "peer/machine.rs"]
mod machine;
#[path = "peer/measure.rs"]
mod measure;
#[path = "peer/options.rs"]
mod options;
#[path = "peer/plot.rs"]
mod plot;
#[path = "peer/progress.rs"]
mod progress;
#[path = "peer/report.rs"]
mod report;
#[path = "peer/round.rs"]
mod round;
#[path = "peer/seed.rs"]
mod seed;
#[path = "peer/stage.rs"]
mod stage;
#[path = "peer/store.rs"]
mod store;
#[path = "peer/text.rs"]
mod text;

use clap::Parser;

use cluster::Cluster;
use figures::Round;
use options::{Cell, Extent, Options, Part};
use progress::Progress;
use report::Figures;
use stage::Took;
use store::Store;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    check::run()?;
    let out = options.out();
    let store = Store::open(&out.join("peer.json"))?;
    let todo = options.plan(&store)?;
    let mut failed = Vec::new();
    if !todo.is_empty() {
        let Some(failures) = measure_all(&options, &store, &todo)? else { return Ok(()) };
        failed = failures;
    }
    if !options.keeps_nothing() {
        let figures = Figures::read(&store)?;
        anyhow::ensure!(
            !figures.is_empty(),
            "nothing is measured yet with this build; {} stays as it is",
            out.display()
        );
        figures.write(&out)?;
        if let Some(outcome) = goals::outcome(&figures) {
            println!("{outcome}");
        }
        println!("figures in {}, report in {}", store.directory().display(), out.join("peer.md").display());
    }
    anyhow::ensure!(failed.is_empty(), "not measured:\n{}", failed.join("\n"));
    Ok(())
}

/// True if a first sync alone is to be measured that has once taken longer than it may: the bound would only be found again.
fn is_hopeless(before: &[Round], extent: Extent) -> bool {
    let is_late = |round: &Round| matches!(round.first_sync, Some(Took::NotAfter(_)));
    extent == Extent::Only(Part::FirstSync) && before.iter().any(is_late)
}

/// What failed, which stops nothing else; none if there can be no API server.
fn measure_all(options: &Options, store: &Store, todo: &[Cell]) -> anyhow::Result<Option<Vec<String>>> {
    let mut progress = Progress::new(todo);
    progress.tell("starting the API server");
    let Some(mut cluster) = Cluster::start(&options.sizes()) else { return Ok(None) };
    let mut failed = Vec::new();
    for cell in todo {
        progress.begin(cell);
        if is_hopeless(&store.rounds(cell.services, cell.kind)?, cell.extent) {
            progress.tell("left out: the first sync was not done in time before");
            progress.end(cell);
            continue;
        }
        cluster.grow(cell.services, &progress)?;
        match round::run(&cluster, cell, options.deadline(), &progress) {
            Ok(_) if options.keeps_nothing() => {}
            Ok(round) => store.add(cell, &round)?,
            Err(error) => {
                progress.tell(&format!("FAILED: {error:#}"));
                failed.push(format!("{} Services, {}: {error:#}", cell.services, cell.kind.name));
            }
        }
        progress.end(cell);
    }
    Ok(Some(failed))
}
