//! Chains whose only purpose is to notice that somebody flushed our tables.
//!
//! In: a probed [`Iptables`]. Out: whether a canary is definitely gone. A loop elsewhere polls: first the mangle
//! table, which is small; when its canary is gone, the other two until they are gone as well, because a firewall
//! that reloads flushes its tables one after the other.
//!
//! Invariant: a lock, a timeout or any other failure to look is an error, never "gone".

use super::{Iptables, IptablesError, Table};

pub use switchyard_plan::iptables::names::CANARY as CHAIN;

/// The tables with a canary, the one to poll first.
pub const TABLES: [Table; 3] = [Table::Mangle, Table::Nat, Table::Filter];

/// Puts a canary into every table.
pub fn ensure(iptables: &Iptables) -> Result<(), IptablesError> {
    TABLES.into_iter().try_for_each(|table| iptables.ensure_chain(table, CHAIN).map(|_| ()))
}

/// True if the kernel definitely has no canary in this table.
pub fn is_gone(iptables: &Iptables, table: Table) -> Result<bool, IptablesError> {
    iptables.chain_exists(table, CHAIN).map(|exists| !exists)
}
