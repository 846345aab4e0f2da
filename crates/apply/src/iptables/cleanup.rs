//! Takes our chains and the jumps to them out of the kernel.
//!
//! In: what to remove. Out: what was removed, and every error; the first one stops nothing. A chain that somebody
//! else's rule still leads to is emptied, reported and left, since deleting it would mean changing that rule.
//!
//! Invariants
//! - Only chains that are named, or begin with a prefix given for their table, are touched.
//! - First all chains are flushed, then deleted, so that the order among them does not matter.
//! - Batches are bounded: the nft variant takes time quadratic in the chains of one batch.

use std::collections::{BTreeMap, BTreeSet};

use super::canonical::Canonical;
use super::save::{self, Detail};
use super::{Iptables, IptablesError, Jump, Removed, RestoreError, RestoreOptions, Table, is_chain_name};

/// What to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupPlan {
    /// Rules in chains of others.
    pub jumps: Vec<Jump>,
    /// Chains by exact name; absent ones are skipped.
    pub chains: BTreeMap<Table, Vec<String>>,
    /// Beginnings of chain names, by table. An empty text matches nothing.
    pub prefixes: BTreeMap<Table, Vec<String>>,
    /// Tables whose failures do not matter.
    pub ignore_errors_in: Vec<Table>,
}

/// What a cleanup did.
#[derive(Debug, Default)]
pub struct CleanupOutcome {
    /// Jumps that were there and are gone.
    pub jumps: usize,
    /// Chains that were there and are gone.
    pub chains: usize,
    /// What is left, and why.
    pub errors: Vec<CleanupError>,
}

/// One thing that is left.
#[derive(Debug, thiserror::Error)]
#[error("cleanup left {object} behind; remove it by hand or run the cleanup again")]
pub struct CleanupError {
    /// The table that holds it.
    pub table: Table,
    /// The jump, chain or table.
    pub object: String,
    /// Why.
    #[source]
    pub cause: CleanupCause,
}

/// Why something is left.
#[derive(Debug, thiserror::Error)]
pub enum CleanupCause {
    /// A single command failed.
    #[error(transparent)]
    Command(#[from] IptablesError),
    /// A restore failed.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// `iptables-save` did not print the table.
    #[error("the table cannot be read; another program made it incompatible with iptables")]
    Unreadable,
    /// So many chains of one batch are in use by others that the rest was not tried.
    #[error("more than {MAX_LEFT} chains beside it are in use by rules of other programs")]
    InUse,
}

const BATCH: usize = 500;
/// Chains of one batch that may turn out to be in use before the rest of the batch is given up.
const MAX_LEFT: usize = 64;

/// What a cleanup would remove.
#[derive(Debug, Default)]
pub struct Found {
    /// Rules in chains of others.
    pub jumps: Vec<Jump>,
    /// Chains, by table.
    pub chains: BTreeMap<Table, Vec<String>>,
    /// What could not be looked at, and why.
    pub errors: Vec<CleanupError>,
}

/// Looks for what the plan names, and removes nothing.
pub fn find(iptables: &Iptables, what: &CleanupPlan) -> Found {
    let mut found = Found::default();
    let mut unread = CleanupOutcome::default();
    let jumps = what.jumps.iter().map(|jump| jump.table);
    let tables: BTreeSet<Table> =
        what.chains.keys().chain(what.prefixes.keys()).copied().chain(jumps).collect();
    for table in tables {
        let looked = iptables.save(table).map_err(CleanupCause::from).and_then(|text| {
            let saved = save::parse(&text, table, Detail::Rules).ok_or(CleanupCause::Unreadable)?;
            found.chains.insert(table, named(&saved, table, what));
            let is_there = |jump: &&Jump| {
                let wanted = Canonical::of_words(jump.args.iter().map(String::as_str));
                let rules = saved.chains.get(jump.chain.as_str()).into_iter().flatten();
                jump.table == table && rules.into_iter().any(|line| Canonical::of_line(line) == wanted)
            };
            found.jumps.extend(what.jumps.iter().filter(is_there).cloned());
            Ok(())
        });
        if let Err(cause) = looked {
            unread.fail(table, format!("the table {table}"), cause);
        }
    }
    found.errors = unread.errors;
    found.errors.retain(|error| !what.ignore_errors_in.contains(&error.table));
    found
}

/// Removes what the plan names.
pub fn cleanup(iptables: &Iptables, what: &CleanupPlan) -> CleanupOutcome {
    let mut outcome = CleanupOutcome::default();
    for jump in &what.jumps {
        match iptables.delete_jump(jump) {
            Ok(Removed::Removed) => outcome.jumps += 1,
            Ok(Removed::Absent) => {}
            Err(error) => outcome.fail(jump.table, format!("the jump {jump}"), error),
        }
    }
    let tables: BTreeSet<Table> = what.chains.keys().chain(what.prefixes.keys()).copied().collect();
    for table in tables {
        match present(iptables, table, what) {
            Ok(chains) => remove_chains(iptables, table, &chains, &mut outcome),
            Err(cause) => outcome.fail(table, format!("the table {table}"), cause),
        }
    }
    outcome.errors.retain(|error| !what.ignore_errors_in.contains(&error.table));
    outcome
}

impl CleanupOutcome {
    fn fail(&mut self, table: Table, object: String, cause: impl Into<CleanupCause>) {
        self.errors.push(CleanupError { table, object, cause: cause.into() });
    }
}

/// Chains of the plan that the kernel has.
fn present(iptables: &Iptables, table: Table, what: &CleanupPlan) -> Result<Vec<String>, CleanupCause> {
    let text = iptables.save(table)?;
    let saved = save::parse(&text, table, Detail::Chains).ok_or(CleanupCause::Unreadable)?;
    Ok(named(&saved, table, what))
}

fn named(saved: &save::SavedTable<'_>, table: Table, what: &CleanupPlan) -> Vec<String> {
    let named = what.chains.get(&table).into_iter().flatten().map(String::as_str);
    let named = named.filter(|chain| saved.has_chain(chain));
    let prefixes: Vec<String> = what
        .prefixes
        .get(&table)
        .into_iter()
        .flatten()
        .filter(|prefix| !prefix.is_empty())
        .cloned()
        .collect();
    let chains: BTreeSet<&str> =
        named.chain(saved.chains_with_prefix(&prefixes)).filter(|chain| is_chain_name(chain)).collect();
    chains.into_iter().map(str::to_owned).collect()
}

fn remove_chains(iptables: &Iptables, table: Table, chains: &[String], outcome: &mut CleanupOutcome) {
    let options = RestoreOptions { table: Some(table) };
    for batch in chains.chunks(BATCH) {
        if let Err(error) = iptables.restore(&input(table, batch, &[]), options) {
            outcome.fail(table, format!("rules in {} chains of {table}", batch.len()), error);
        }
    }
    for batch in chains.chunks(BATCH) {
        delete_batch(iptables, table, batch, outcome);
    }
}

/// Deletes the chains of one batch. A chain that is refused is reported and left out, and the rest tried again.
fn delete_batch(iptables: &Iptables, table: Table, batch: &[String], outcome: &mut CleanupOutcome) {
    let mut rest = batch.to_vec();
    for _ in 0..MAX_LEFT {
        if rest.is_empty() {
            return;
        }
        let text = input(table, &rest, &rest);
        let Err(error) = iptables.restore(&text, RestoreOptions { table: Some(table) }) else {
            outcome.chains += rest.len();
            return;
        };
        match error.line().and_then(|line| refused_chain(&text, line)) {
            Some(chain) => {
                rest.retain(|name| *name != chain);
                outcome.fail(table, format!("the chain {chain} of {table}"), error);
            }
            None => {
                outcome.fail(table, format!("{} chains of {table}", rest.len()), error);
                return;
            }
        }
    }
    outcome.fail(table, format!("{} chains of {table}", rest.len()), CleanupCause::InUse);
}

fn refused_chain(text: &str, line: usize) -> Option<String> {
    let line = text.lines().nth(line.checked_sub(1)?)?;
    Some(line.strip_prefix("-X ")?.to_owned())
}

/// Restore text that flushes some chains and deletes some of them.
fn input(table: Table, flush: &[String], delete: &[String]) -> String {
    let mut text = format!("*{table}\n");
    for chain in flush {
        text.push_str(&format!(":{chain} - [0:0]\n"));
    }
    for chain in delete {
        text.push_str(&format!("-X {chain}\n"));
    }
    text.push_str("COMMIT\n");
    text
}
