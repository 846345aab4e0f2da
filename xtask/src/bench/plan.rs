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
    let mut lines: Vec<Measured> = costs.iter().flat_map(at_one_size).collect();
    if let [small, large] = costs.as_slice() {
        lines.push(Measured {
            what: format!("plan, one endpoint replaced: lines at {} : at {}", small.services, large.services),
            value: format!("{} : {}", small.one_lines, large.one_lines),
            wanted: "equal",
            goal: Goal::met(large.one_lines == small.one_lines),
        });
    }
    Ok(Section { title: "iptables mode: planning", about: ABOUT, lines, pictures: Vec::new() })
}

fn at_one_size(cost: &Cost) -> Vec<Measured> {
    let what = |text: &str| format!("plan, {} Services x {}: {text}", cost.services, cluster::ENDPOINTS);
    let ratio = cost.all.as_secs_f64() / cost.one.as_secs_f64().max(1e-9);
    vec![
        Measured {
            what: what("one endpoint replaced, service ports planned"),
            value: cost.one_planned.to_string(),
            wanted: "1",
            goal: Goal::met(cost.one_planned == 1),
        },
        Measured::info(what("the same, time (median)"), duration(cost.one)),
        Measured::info(what("everything takes times as long"), format!("{ratio:.0}")),
        Measured {
            what: what("everything planned, time (median), lines"),
            value: format!("{}, {}", duration(cost.all), cost.all_lines),
            wanted: "all planned",
            goal: Goal::met(u32::try_from(cost.all_planned) == Ok(cost.services)),
        },
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
