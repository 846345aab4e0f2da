//! The iptables half: runs `iptables`, `iptables-save` and `iptables-restore` of either variant.
//!
//! In: chain names, [`Jump`]s and restore text from a planner. Out: a changed kernel, or an error with a
//! [`NextStep`](crate::NextStep). What the programs print is hostile text: bounded, escaped, and classified here so
//! that nobody else reads it.
//!
//! Invariants
//! - Every run ends in bounded time with bounded memory, see [`Limits`].
//! - Every program that takes the xtables lock is told to wait for it at most [`Limits::lock_wait`] seconds.
//! - "Does not exist" is only reported when the kernel definitely said so; a lock, a timeout or an unknown text is
//!   an error. (iptables-nft 1.8.9 says "incompatible" for a chain that is absent *and* for one that `nft` made
//!   unreadable; a look at the saved table tells them apart.)
//!
//! Which versions? 1.6.2 (January 2018) and newer. Older ones lack `-w SECONDS` in `iptables-restore`, so that their
//! lock would have to be taken on their behalf; they get a refusal that says so. `-C`, `-w 5` and `--random-fully`
//! can therefore be relied on.

pub mod canary;
pub mod leftovers;
pub mod mode;
pub mod restore;
pub mod save;

mod binaries;
mod canonical;
mod chain;
mod children;
mod cleanup;
mod diff;
mod error;
mod exec;
mod family;
mod lock;
mod tool;
mod variant;
mod version;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

pub use binaries::default_dirs;
pub use chain::{Ensured, Jump, Position, Removed, Table, is_chain_name};
pub use children::Children;
pub use cleanup::{CleanupCause, CleanupError, CleanupOutcome, CleanupPlan, Found, cleanup, find};
pub use error::IptablesError;
pub use family::family_usable;
pub use lock::{DEFAULT_LOCK_FILE, Holder, Holders};
pub use restore::{RestoreError, RestoreOptions};
pub use tool::{Iptables, Limits};
pub use variant::{Variant, VariantChoice};
pub use version::Version;
