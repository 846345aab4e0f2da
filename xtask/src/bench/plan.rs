//! What planning costs: one changed endpoint at two sizes of cluster, and everything.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use switchyard_plan::iptables::planner::Step;

use super::{Goal, Measured, cluster, duration};

const SMALL: u32 = 1_000;
const LARGE: u32 = 10_000;

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

pub(super) fn measure() -> Result<Vec<Measured>> {
    let costs = [cost(SMALL)?, cost(LARGE)?];
    let mut lines: Vec<Measured> = costs.iter().flat_map(at_one_size).collect();
    let [small, large] = costs;
    lines.push(Measured {
        what: "one endpoint replaced: lines written, large cluster to small".to_owned(),
        value: format!("{} : {}", large.one_lines, small.one_lines),
        wanted: "equal",
        goal: Goal::met(large.one_lines == small.one_lines),
    });
    Ok(lines)
}

fn at_one_size(cost: &Cost) -> Vec<Measured> {
    let what = |text: &str| format!("{} Services x {} endpoints: {text}", cost.services, cluster::ENDPOINTS);
    let ratio = cost.all.as_secs_f64() / cost.one.as_secs_f64().max(1e-9);
    vec![
        Measured {
            what: what("one endpoint replaced, service ports planned"),
            value: cost.one_planned.to_string(),
            wanted: "1",
            goal: Goal::met(cost.one_planned == 1),
        },
        Measured {
            what: what("the same, time (everything takes times as long)"),
            value: format!("{} (x{ratio:.0})", duration(cost.one)),
            wanted: "",
            goal: Goal::None,
        },
        Measured {
            what: what("everything planned, time (lines)"),
            value: format!("{} ({})", duration(cost.all), cost.all_lines),
            wanted: "all planned",
            goal: Goal::met(u32::try_from(cost.all_planned) == Ok(cost.services)),
        },
    ]
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
