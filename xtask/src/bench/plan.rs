//! What planning costs: one changed endpoint at two sizes of cluster, and everything.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use switchyard_plan::iptables::planner::Step;

use super::progress::Progress;
use super::report::Section;
use super::{Goal, Measured, Sizes, cluster, duration, median};

const ABOUT: &str = "What the planner does, without any kernel: one changed endpoint at two sizes of cluster, and everything.";
/// Times are medians of this many runs.
const RUNS: usize = 3;

/// Costs at one size.
struct Cost {
    services: u32,
    all: Duration,
    all_planned: usize,
    all_lines: usize,
    one: Duration,
    one_planned: usize,
    one_lines: usize,
}

pub(super) fn measure(sizes: Sizes, progress: &mut Progress) -> Result<Section> {
    let mut costs = Vec::new();
    for services in [sizes.small, sizes.large] {
        progress.step(&format!("planning {services} Services, {RUNS} times"));
        costs.push(repeated(services)?);
    }
    let are_equal = costs.iter().all(|cost| Some(cost.one_lines) == costs.first().map(|c| c.one_lines));
    let lines = costs.iter().flat_map(|cost| at_one_size(cost, Goal::met(are_equal))).collect();
    Ok(Section { title: "iptables mode: planning", about: ABOUT, lines, pictures: Vec::new() })
}

fn at_one_size(cost: &Cost, lines: Goal) -> [Measured; 5] {
    let info = |what: &str, value: String| Measured::info(cost.services, what, value);
    let ratio = cost.all.as_secs_f64() / cost.one.as_secs_f64().max(1e-9);
    [
        info("one endpoint replaced, service ports planned", cost.one_planned.to_string())
            .wanting("1", Goal::met(cost.one_planned == 1)),
        info("one endpoint replaced, lines", cost.one_lines.to_string()).wanting("equal", lines),
        info("one endpoint replaced, time (median)", duration(cost.one)),
        info(
            "everything planned, time (median), lines",
            format!("{}, {}", duration(cost.all), cost.all_lines),
        )
        .wanting("all planned", Goal::met(u32::try_from(cost.all_planned) == Ok(cost.services))),
        info("everything takes times as long as one", format!("{ratio:.0}")),
    ]
}

fn repeated(services: u32) -> Result<Cost> {
    let (mut all, mut one) = (Vec::new(), Vec::new());
    let mut last = cost(services)?;
    for _ in 1..RUNS {
        all.push(last.all);
        one.push(last.one);
        last = cost(services)?;
    }
    all.push(last.all);
    one.push(last.one);
    Ok(Cost { all: median(all), one: median(one), ..last })
}

fn cost(services: u32) -> Result<Cost> {
    let mut tracker = cluster::tracker(services);
    let mut planner = cluster::planner();
    planner.book_mut().update(cluster::taken(&mut tracker));

    let begin = Instant::now();
    let steps = planner.full(&BTreeSet::new(), usize::MAX);
    let step = steps.first().filter(|step| matches!(step, Step::Everything { .. }));
    let everything = planner.render(step.context("a full sync without a limit is not one step")?);
    let all = begin.elapsed();

    let begin = Instant::now();
    cluster::replace_endpoint(&mut tracker, services / 2);
    let changed = planner.partial(cluster::taken(&mut tracker));
    let one = begin.elapsed();
    Ok(Cost {
        services,
        all,
        all_planned: everything.planned,
        all_lines: everything.restore.lines(),
        one,
        one_planned: changed.batch.planned,
        one_lines: changed.batch.restore.lines(),
    })
}
