//! Benchmarks with goals: counts, ratios measured side by side in one run, and memory. Plain times are printed, but are
//! no goals: they move from machine to machine.
//!
//! In: which parts to run. Out: a table, and an error if a goal was missed or a part could not run.

mod cluster;
mod first_sync;
pub(crate) mod memory;
mod plan;

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};

/// How many Services the first sync is measured with.
pub(crate) const FIRST_SYNC_SERVICES: usize = 4_000;

/// One thing to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The cost of one change, and of everything.
    Plan,
    /// Resident memory.
    Memory,
    /// The first sync through iptables-nft, in batches and in one transaction. Needs root.
    FirstSync {
        /// Services, with five endpoints each.
        services: usize,
    },
}

impl Part {
    /// All of them.
    pub(crate) const ALL: [Self; 3] =
        [Self::Plan, Self::Memory, Self::FirstSync { services: FIRST_SYNC_SERVICES }];
}

/// Whether a measured value is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Met,
    Missed,
    None,
}

impl Goal {
    fn met(is_met: bool) -> Self {
        if is_met { Self::Met } else { Self::Missed }
    }
}

/// One line of the table.
#[derive(Debug)]
struct Measured {
    what: String,
    value: String,
    wanted: &'static str,
    goal: Goal,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = match self.goal {
            Goal::Met => "ok",
            Goal::Missed => "MISSED",
            Goal::None => "",
        };
        write!(f, "{:<72} {:>26}  {:<12} {goal}", self.what, self.value, self.wanted)
    }
}

/// Runs the parts and prints as it goes.
pub(crate) fn run(parts: &[Part]) -> Result<()> {
    let mut missed = 0;
    for part in parts {
        let lines = match part {
            Part::Plan => plan::measure()?,
            Part::Memory => memory::measure()?,
            Part::FirstSync { services } => first_sync::measure(*services)?,
        };
        for line in lines {
            println!("{line}");
            missed += usize::from(line.goal == Goal::Missed);
        }
    }
    if missed > 0 {
        bail!("{missed} goals missed");
    }
    Ok(())
}

/// Milliseconds below ten seconds, seconds above.
fn duration(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
