//! What a sync did.

use switchyard_model::ServicePortName;
use switchyard_plan::book::Replaced;

use switchyard_netlink::NetlinkError;
use switchyard_netlink::nftables::CommitError;

use nix::errno::Errno;

use crate::NextStep;
use crate::iptables::{IptablesError, RestoreError};

/// How much was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything.
    Full,
    /// What changed.
    Partial,
}

/// How far a long sync is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Steps written.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
}

/// A service port that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which.
    pub name: ServicePortName,
    /// What the kernel or iptables said.
    pub cause: String,
}

/// Why the kernel does not hold what was planned.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A single command failed.
    #[error(transparent)]
    Command(#[from] IptablesError),
    /// A restore failed.
    #[error(transparent)]
    Restore(RestoreError),
    /// `iptables-save` did not print the nat table.
    #[error(
        "the nat table cannot be read; another program made it incompatible with iptables, see `nft list table ip nat`"
    )]
    Unreadable,
    /// The kernel did not answer, or not in a form that can be read.
    #[error("cannot read the rules back from the kernel")]
    Netlink(#[source] NetlinkError),
    /// A transaction of nf_tables failed.
    #[error(transparent)]
    Commit(CommitError),
    /// IPVS, or the link of its addresses, refused a step.
    #[error("the kernel refused to {step}")]
    Step {
        /// What was tried, as a verb phrase.
        step: String,
        /// The kernel's answer.
        #[source]
        errno: Errno,
    },
}

impl Failure {
    /// The only thing the loop may ask.
    pub fn next_step(&self) -> NextStep {
        match self {
            Self::Command(error) => error.next_step(),
            Self::Restore(error) => error.next_step(),
            Self::Unreadable | Self::Netlink(_) => NextStep::Backoff,
            Self::Commit(CommitError::Raced | CommitError::Unknown) => NextStep::Replan,
            Self::Commit(_) | Self::Step { .. } => NextStep::FullSync,
        }
    }

    /// The refused line of the input, counted from 1.
    pub(crate) fn line(&self) -> Option<usize> {
        match self {
            Self::Restore(error) => error.line(),
            _ => None,
        }
    }

    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Self::Restore(RestoreError::Timeout { .. }))
    }
}

/// Rules that the kernel took, by table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// In the filter table.
    pub filter: usize,
    /// In the nat table.
    pub nat: usize,
}

/// What a sync did.
#[derive(Debug)]
pub struct Report {
    /// How much was written.
    pub kind: Kind,
    /// Service ports that were planned.
    pub planned: usize,
    /// Lines of restore input that the kernel took.
    pub lines: usize,
    /// Rules among them.
    pub rules: Written,
    /// Restores that succeeded.
    pub restores: usize,
    /// Restores that failed.
    pub failed_restores: usize,
    /// Service ports that were set aside in this sync.
    pub refused: Vec<Refused>,
    /// Everything that changed since the last sync that succeeded; empty if this one did not.
    pub confirmed: Vec<Replaced>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl Report {
    /// True if it did nothing, and nothing was wrong.
    pub fn is_idle(&self) -> bool {
        let is_fine = self.refused.is_empty() && self.failure.is_none();
        self.kind == Kind::Partial && self.lines == 0 && is_fine
    }

    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            planned: 0,
            lines: 0,
            rules: Written::default(),
            restores: 0,
            failed_restores: 0,
            refused: Vec::new(),
            confirmed: Vec::new(),
            failure: None,
        }
    }
}
