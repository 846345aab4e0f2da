//! What `iptables-restore` said when it refused.
//!
//! In: exit status, error text and the input. Out: [`RestoreError`], which names a line of the input wherever the
//! program did. The forms below were seen from 1.8.9 of both variants; unknown ones become [`RestoreError::Other`].
//!
//! Why look at the input again? iptables-nft checks the targets of jumps at COMMIT and reports the line of COMMIT.
//! The line that is to blame is then the first one that jumps to the chain it names.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{how_it_ended, is_locked, is_permission, without_noise};
use super::exec::{Finished, NotFinished};
use super::{Holders, Table};
use crate::NextStep;
use crate::printable::{bounded, printable};

/// How to restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Read only this table of the input (`-T`).
    pub table: Option<Table>,
}

/// Why the input is not in the kernel. A table's part of the input is all-or-nothing; earlier tables of the same
/// input may have been written.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// One line is refused.
    #[error("iptables-restore refused line {number} ({text}): {message}")]
    Line {
        /// Counted from 1.
        number: usize,
        /// The line of the input, cut and escaped; empty if the number is beyond the input.
        text: String,
        /// What the program said.
        message: String,
    },
    /// A table of the input cannot be opened.
    #[error(
        "iptables-restore cannot open the table of line {number}: {message}; check permissions and kernel modules"
    )]
    TableUnavailable {
        /// Line of the table, counted from 1.
        number: usize,
        /// What the program said.
        message: String,
    },
    /// Another program held the xtables lock for the whole wait.
    #[error("iptables-restore did not get the xtables lock, held by {holders}; it will be tried again")]
    Locked {
        /// Who holds it.
        holders: Holders,
    },
    /// The process lacks the capability.
    #[error("iptables-restore has no permission: {stderr}; run as root with CAP_NET_ADMIN and CAP_NET_RAW")]
    Permission {
        /// What the program said.
        stderr: String,
    },
    /// The program was killed because it took too long. What it had committed stays.
    #[error("iptables-restore was killed after {after:?}; look for a stuck kernel or a very large rule set")]
    Timeout {
        /// The limit.
        after: Duration,
    },
    /// The program could not be started.
    #[error("cannot run {}; check that it is executable", program.display())]
    Exec {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Any other failure.
    #[error("iptables-restore failed{}: {stderr}", how_it_ended(*.status))]
    Other {
        /// Exit status; `None` if a signal ended it.
        status: Option<i32>,
        /// What the program said.
        stderr: String,
    },
}

impl RestoreError {
    /// The only thing the loop may ask. A jump to a chain that is absent asks for a full sync first, because in a
    /// partial sync that chain was believed to be there; if the full sync fails at the same [`line`](Self::line),
    /// that line is to be quarantined.
    pub fn next_step(&self) -> NextStep {
        match self {
            Self::Line { number, text, message } => {
                if is_absent_target(message) || !text.starts_with(['-', ':']) {
                    NextStep::FullSync
                } else {
                    NextStep::Quarantine { line: *number }
                }
            }
            Self::Permission { .. } => NextStep::Stop,
            Self::Locked { .. } | Self::TableUnavailable { .. } | Self::Exec { .. } => NextStep::Backoff,
            Self::Timeout { .. } | Self::Other { .. } => NextStep::FullSync,
        }
    }

    /// The line of the input that is to blame, counted from 1.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Line { number, .. } => Some(*number),
            _ => None,
        }
    }

    pub(super) fn not_finished(reason: NotFinished) -> Self {
        match reason {
            NotFinished::Exec { program, source } => Self::Exec { program, source },
            NotFinished::Timeout { after } => Self::Timeout { after },
            NotFinished::TooMuchOutput { limit } => {
                Self::Other { status: None, stderr: format!("more than {limit} bytes of output") }
            }
        }
    }

    pub(super) fn failed(finished: &Finished, input: &str, lock_file: &Path) -> Self {
        let text = String::from_utf8_lossy(&finished.stderr);
        let status = finished.status.code();
        if is_locked(status, &text) {
            return Self::Locked { holders: Holders::of(lock_file) };
        }
        let stderr = printable(without_noise(&text).as_bytes());
        if is_permission(status, &text) {
            return Self::Permission { stderr };
        }
        match text.lines().find_map(line_number) {
            Some(number) => Self::at_line(number, input, stderr),
            None => Self::Other { status, stderr },
        }
    }

    fn at_line(reported: usize, input: &str, message: String) -> Self {
        let number = blame(reported, input, &message);
        let text = input.lines().nth(number.saturating_sub(1)).unwrap_or_default();
        if text.starts_with('*') {
            return Self::TableUnavailable { number, message };
        }
        Self::Line { number, text: bounded(text.as_bytes(), 300), message }
    }
}

/// The number in `line 3 failed`, `line 3: CHAIN_DEL failed (...)`, `Error occurred at line: 3` or
/// `COMMIT expected at line 3`.
fn line_number(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix("Error occurred at line: ") {
        return leading_number(rest).map(|(number, _)| number);
    }
    if let Some((_, rest)) = text.split_once("COMMIT expected at line ") {
        return leading_number(rest).map(|(number, _)| number);
    }
    // Either at the beginning or after the name of the program; never inside quoted input.
    let (before, rest) = text.split_once("line ")?;
    let before = before.trim_end();
    let is_program = before.ends_with(':') && before.contains("tables");
    if !before.is_empty() && !is_program {
        return None;
    }
    let (number, rest) = leading_number(rest)?;
    (rest.starts_with(" failed") || rest.starts_with(": ")).then_some(number)
}

fn leading_number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}

/// The line to blame when the program reports COMMIT instead of the jump.
fn blame(reported: usize, input: &str, message: &str) -> usize {
    let is_commit = input.lines().nth(reported.saturating_sub(1)).is_some_and(|line| line.trim() == "COMMIT");
    let absent = message.split_once("Chain '").and_then(|(_, rest)| rest.split_once("' does not exist"));
    let (true, Some((chain, _))) = (is_commit, absent) else { return reported };
    let jumps_there = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|word| !matches!(*word, "-j" | "-g"));
        words.nth(1) == Some(chain)
    };
    let first = input.lines().take(reported).position(jumps_there);
    first.map_or(reported, |index| index + 1)
}

fn is_absent_target(message: &str) -> bool {
    ["' does not exist", "No chain/target/match by that name", "Couldn't load target"]
        .iter()
        .any(|known| message.contains(known))
}

#[cfg(test)]
mod tests;
