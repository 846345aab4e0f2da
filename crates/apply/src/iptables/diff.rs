//! What the kernel's chains hold against what they should hold. Nothing is written.
//!
//! In: a planner, and what `iptables-save` prints. Out: a [`Difference`]. Chains of others, and rules of others in the kernel's own chains,
//! are none of our business. Comments do not count: they help readers, not packets.

use std::collections::BTreeSet;

use switchyard_plan::iptables::base::JUMPS;
use switchyard_plan::iptables::names::{CANARY, FIREWALL, is_service_chain};
use switchyard_plan::iptables::planner::{Planner, WantedChain};

use super::canonical::Canonical;
use super::save::{self, Detail, SavedTable};
use super::{Iptables, Jump, Table};
use crate::diff::Difference;
use crate::report::Failure;

/// Reads our tables back and compares.
pub(super) fn difference(programs: &Iptables, planner: &Planner) -> Result<Difference, Failure> {
    let texts = [Table::Filter, Table::Nat, Table::Mangle]
        .map(|table| programs.save(table).map(|text| (table, text)))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::new();
    for (table, text) in &texts {
        // A mangle table that cannot be read holds nothing that packets need.
        match save::parse(text, *table, Detail::Rules) {
            Some(saved) => found.push((*table, saved)),
            None if *table == Table::Mangle => {}
            None => return Err(Failure::Unreadable),
        }
    }
    Ok(compare(&found, planner))
}

fn compare(found: &[(Table, SavedTable<'_>)], planner: &Planner) -> Difference {
    let mut difference = Difference::default();
    for (table, saved) in found {
        if !saved.has_chain(CANARY) {
            difference.missing(None, format!("chain {CANARY} of table {table}"));
        }
    }
    let of = |table: Table| found.iter().find(|(name, _)| *name == table).map(|(_, saved)| saved);
    for jump in &JUMPS {
        let jump = Jump::from(jump);
        let wanted = Canonical::of_words(jump.args.iter().map(String::as_str));
        let rules = of(jump.table).and_then(|saved| saved.chains.get(jump.chain.as_str()));
        if !rules.into_iter().flatten().any(|line| Canonical::of_line(line) == wanted) {
            difference.missing(None, format!("jump {jump}"));
        }
    }
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for chain in planner.wanted_chains() {
        let lines = of(chain.table).and_then(|saved| saved.chains.get(chain.name.as_str()));
        compare_chain(&chain, lines.map(Vec::as_slice), &mut difference);
        wanted.extend((chain.table == Table::Nat).then_some(chain.name));
    }
    let stray = of(Table::Nat).into_iter().flat_map(|saved| saved.chains.keys());
    for chain in stray.filter(|chain| is_service_chain(chain) && !wanted.contains(**chain)) {
        difference.extra(None, format!("chain {chain} of table nat"));
    }
    difference
}

fn compare_chain(wanted: &WantedChain<'_>, found: Option<&[&str]>, difference: &mut Difference) {
    let WantedChain { table, name: chain, owner, rules: wanted } = wanted;
    let Some(found) = found else {
        let count = wanted.len();
        difference.missing(*owner, format!("chain {chain} of table {table} with its {count} rules"));
        return;
    };
    let held: Vec<Canonical> = found.iter().map(|line| Canonical::of_line(line)).collect();
    let asked: Vec<Canonical> =
        wanted.iter().map(|(_, rule)| Canonical::of_line(&rule.to_string())).collect();
    if held == asked {
        return;
    }
    let before = difference.count();
    let mut extra: Vec<bool> = vec![true; held.len()];
    let mut missing = Vec::new();
    for ((owner, rule), one) in wanted.iter().zip(&asked) {
        let same = held.iter().zip(&mut extra).find(|(other, is_free)| **is_free && *other == one);
        match same {
            Some((_, is_free)) => *is_free = false,
            None => missing.push((*owner, rule)),
        }
    }
    // Kubelet may have rules of its own in there.
    if chain != FIREWALL {
        for (line, _) in found.iter().zip(&extra).filter(|(_, is_extra)| **is_extra) {
            difference.extra(*owner, format!("rule {line} of table {table}"));
        }
    }
    for (owner, rule) in missing {
        difference.missing(owner, format!("rule -A {chain}{rule} of table {table}"));
    }
    if difference.count() == before && chain != FIREWALL {
        difference.extra(*owner, format!("the order of the rules of chain {chain} of table {table}"));
    }
}
