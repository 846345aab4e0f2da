//! A full sync that starts over: because another program wrote to nf_tables meanwhile, or because a culprit was set aside.

use switchyard_netlink::nftables::CommitError;

use super::writer::Failed;
use crate::report::{Failure, Report};

/// How often a sync starts over.
const MAX_TRIES: usize = 64;

/// How many of these tries are spoiled by other programs before their writes are not waited out any more: one that writes
/// to its own tables all the time must not keep us from writing ours.
const MAX_RACES: usize = 4;

/// Whether a transaction holds if another program wrote since the kernel was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Race {
    /// It does not, whatever the other program wrote.
    Avoided,
    /// It does. If our table was written to, the changes do not fit, or the listener tells.
    Accepted,
}

/// What a try that was not refused is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The kernel holds what was planned.
    Written,
    /// Another program may have changed something unheard.
    Doubtful,
}

impl Outcome {
    /// By what the writer says of itself.
    pub(crate) fn of(is_doubtful: bool) -> Self {
        if is_doubtful { Self::Doubtful } else { Self::Written }
    }
}

/// Reads, compares and writes by `once`, as often as it takes. What cannot be mended by another try is in the report.
pub(crate) fn try_until_written(
    report: &mut Report,
    mut once: impl FnMut(Race, &mut Report) -> Result<Outcome, Failed>,
) {
    let mut races = 0;
    for _ in 0..MAX_TRIES {
        let race = if races < MAX_RACES { Race::Avoided } else { Race::Accepted };
        match once(race, report) {
            Ok(Outcome::Written) => return,
            Ok(Outcome::Doubtful) => {}
            Err(Failed { cause: Failure::Commit(CommitError::Raced), .. }) => races += 1,
            Err(Failed { culprit: Some(_), .. }) => {}
            Err(Failed { cause, culprit: None }) => {
                report.failure = Some(cause);
                return;
            }
        }
    }
    report.failure = Some(Failure::Commit(CommitError::Raced));
}
