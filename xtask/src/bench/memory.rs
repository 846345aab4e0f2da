//! Resident memory of what a proxy keeps for 10,000 Services with five endpoints each: tracker, book and planner, after
//! a full sync in batches and a round of changes. Measured in a process of its own, so that nothing else counts.

use std::collections::BTreeSet;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use switchyard_apply::iptables::mode::NFT_BATCH;

use super::{Goal, Measured, cluster};

/// The argument that makes this program the measured process.
pub(crate) const CHILD: &str = "bench-memory-child";

const SERVICES: u32 = 10_000;
const CHANGES: u32 = 1_000;
const GOAL_MB: f64 = 60.0;

pub(super) fn measure() -> Result<Vec<Measured>> {
    let program = env::current_exe().context("cannot find this program to start it again")?;
    let output = Command::new(program).arg(CHILD).output().context("cannot start the measured process")?;
    if !output.status.success() {
        bail!("the measured process failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let (Some(Ok(now)), Some(Ok(peak))) = (numbers.next(), numbers.next()) else {
        bail!("the measured process said {text:?}");
    };
    Ok(vec![Measured {
        what: format!(
            "{SERVICES} Services x {} endpoints: resident memory of model and plan (peak)",
            cluster::ENDPOINTS
        ),
        value: format!("{now:.1} MB ({peak:.1})"),
        wanted: "under 60 MB",
        goal: Goal::met(now < GOAL_MB),
    }])
}

/// The measured process: prints resident memory and its peak in megabytes.
pub(crate) fn child() -> Result<()> {
    let mut tracker = cluster::tracker(SERVICES);
    let mut planner = cluster::planner();
    planner.book_mut().update(cluster::taken(&mut tracker));
    let mut lines = 0;
    for step in planner.full(&BTreeSet::new(), NFT_BATCH) {
        lines += planner.render(&step).restore.text().len();
    }
    for index in 0..CHANGES {
        cluster::replace_endpoint(&mut tracker, index);
        lines += planner.partial(cluster::taken(&mut tracker)).batch.restore.text().len();
    }
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let megabytes = |field: &str| -> Result<f64> {
        let line = status.lines().find(|line| line.starts_with(field));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).context("no such field")?;
        Ok(kilobytes.parse::<f64>()? / 1024.0)
    };
    println!("{} {}", megabytes("VmRSS:")?, megabytes("VmHWM:")?);
    // What was measured must still be there.
    if lines == 0 || tracker.has_changes() || planner.book().ports().is_empty() {
        bail!("nothing was planned");
    }
    Ok(())
}
