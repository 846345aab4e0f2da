//! Why a run of `iptables` or `iptables-save` did not do what was asked.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exec::{Finished, NotFinished};
use super::{Holders, Version};
use crate::NextStep;
use crate::printable::printable;

/// A failed command. The text names the command, what is wrong and what to do.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// No such program in any of the directories.
    #[error("{name} not found in {searched}; install the iptables package or choose another proxy mode")]
    BinaryMissing {
        /// The program.
        name: String,
        /// Directories, separated by colons.
        searched: String,
    },
    /// `--version` printed something else.
    #[error("{program} --version printed {text:?}, which names no version; reinstall the iptables package")]
    VersionUnreadable {
        /// The program.
        program: String,
        /// What it printed.
        text: String,
    },
    /// The program is older than [`Version::OLDEST`].
    #[error(
        "{program} is version {version}, at least {} is needed; upgrade the iptables package",
        Version::OLDEST
    )]
    TooOld {
        /// The program.
        program: String,
        /// Its version.
        version: Version,
    },
    /// The process lacks the capability.
    #[error("no permission to run \"{command}\": {stderr}; run as root with CAP_NET_ADMIN and CAP_NET_RAW")]
    Permission {
        /// The command.
        command: String,
        /// What it said.
        stderr: String,
    },
    /// The kernel lacks the table.
    #[error(
        "this kernel has no support for \"{command}\": {stderr}; load its module or use the other variant"
    )]
    KernelSupport {
        /// The command.
        command: String,
        /// What it said.
        stderr: String,
    },
    /// Another program held the xtables lock for the whole wait.
    #[error("\"{command}\" did not get the xtables lock, held by {holders}; it will be tried again")]
    Locked {
        /// The command.
        command: String,
        /// Who holds it.
        holders: Holders,
    },
    /// The program was killed because it took too long.
    #[error("\"{command}\" was killed after {after:?}; look for a stuck kernel or a very large rule set")]
    Timeout {
        /// The command.
        command: String,
        /// The limit.
        after: Duration,
    },
    /// The program printed more than is accepted.
    #[error("\"{command}\" printed more than {limit} bytes; the rule set is too large to be read")]
    TooMuchOutput {
        /// The command.
        command: String,
        /// The limit.
        limit: usize,
    },
    /// A chain name or argument that cannot be passed on safely.
    #[error("{name:?} is not a chain name; the plan is wrong, please report it")]
    BadName {
        /// The name, escaped.
        name: String,
    },
    /// Any other failure.
    #[error("\"{command}\" failed{}: {stderr}", how_it_ended(*.status))]
    Refused {
        /// The command.
        command: String,
        /// Exit status; `None` if a signal ended it.
        status: Option<i32>,
        /// What it said.
        stderr: String,
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
}

impl IptablesError {
    /// The only thing the loop may ask.
    pub fn next_step(&self) -> NextStep {
        match self {
            Self::BinaryMissing { .. }
            | Self::VersionUnreadable { .. }
            | Self::TooOld { .. }
            | Self::Permission { .. }
            | Self::KernelSupport { .. } => NextStep::Stop,
            Self::Locked { .. } | Self::Timeout { .. } | Self::Exec { .. } | Self::BadName { .. } => {
                NextStep::Backoff
            }
            Self::Refused { .. } | Self::TooMuchOutput { .. } => NextStep::FullSync,
        }
    }

    pub(super) fn not_finished(command: String, reason: NotFinished) -> Self {
        match reason {
            NotFinished::Exec { program, source } => Self::Exec { program, source },
            NotFinished::Timeout { after } => Self::Timeout { command, after },
            NotFinished::TooMuchOutput { limit } => Self::TooMuchOutput { command, limit },
        }
    }

    /// Reads the text of a program that ended with a failure.
    pub(super) fn failed(command: String, finished: &Finished, lock_file: &Path) -> Self {
        let text = String::from_utf8_lossy(&finished.stderr);
        let stderr = printable(without_noise(&text).as_bytes());
        let status = finished.status.code();
        if is_locked(status, &text) {
            Self::Locked { command, holders: Holders::of(lock_file) }
        } else if is_permission(status, &text) {
            Self::Permission { command, stderr }
        } else if is_kernel_support(status, &text) {
            Self::KernelSupport { command, stderr }
        } else {
            Self::Refused { command, status, stderr }
        }
    }
}

pub(super) fn how_it_ended(status: Option<i32>) -> String {
    match status {
        Some(code) => format!(" with exit status {code}"),
        None => " by a signal".to_owned(),
    }
}

/// Drops hints that repeat with every failure and say nothing about it.
pub(super) fn without_noise(text: &str) -> String {
    let noise = |line: &&str| !line.starts_with("Try `") && !line.starts_with("# Warning:");
    text.lines().filter(noise).collect::<Vec<_>>().join("\n")
}

/// Exit status 4 alone is not enough: iptables-nft also uses it for every refusal by the kernel.
pub(super) fn is_locked(status: Option<i32>, text: &str) -> bool {
    status == Some(4)
        && text.lines().any(|line| line.starts_with("Another app is currently holding the xtables lock"))
}

/// The exit status keeps quoted pieces of our own input (status 2) from passing for a lack of permission.
pub(super) fn is_permission(status: Option<i32>, text: &str) -> bool {
    matches!(status, Some(1 | 3 | 4 | 111))
        && text.lines().any(|line| {
            line.contains("(you must be root)")
                || (line.contains("can't open lock file") && line.contains("Permission denied"))
                || line.trim_end().ends_with("Operation not permitted")
        })
}

fn is_kernel_support(status: Option<i32>, text: &str) -> bool {
    matches!(status, Some(1 | 3 | 4))
        && [
            "Table does not exist",
            "can't initialize ip",
            "Could not fetch rule set generation id",
            "Failed to initialize nft",
        ]
        .iter()
        .any(|known| text.contains(known))
}

/// The kernel definitely said that the chain, or the rule in it, is absent.
pub(super) fn says_absent(finished: &Finished) -> bool {
    let text = String::from_utf8_lossy(&finished.stderr);
    finished.status.code() == Some(1)
        && text.lines().any(|line| {
            line.ends_with(": No chain/target/match by that name.")
                || line.ends_with(": Bad rule (does a matching rule exist in that chain?).")
        })
}
