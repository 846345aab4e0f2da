//! Just enough of nf_tables to obey changes, and to refuse what the kernel refuses. For tests.

use std::collections::BTreeSet;

use super::base::Chain;
use super::element::{Data, Key, Place};
use super::names::Set;
use super::ops::{Change, Op};
use super::planner::Ruleset;
use super::rule::{Rule, SetName, Statement, Verdict};

/// One table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FakeKernel {
    pub(crate) ruleset: Ruleset,
    sets: BTreeSet<Set>,
}

impl FakeKernel {
    /// A kernel that holds this already.
    pub(crate) fn holding(ruleset: Ruleset) -> Self {
        Self::holding_sets(ruleset, &Set::ALL)
    }

    /// The same with other sets.
    pub(crate) fn holding_sets(ruleset: Ruleset, sets: &[Set]) -> Self {
        Self { ruleset, sets: sets.iter().copied().collect() }
    }

    /// One transaction: all of it, or nothing.
    pub(crate) fn commit(&mut self, ops: &[Op]) -> Result<(), String> {
        let mut next = self.clone();
        for op in ops {
            next.obey(&op.change).map_err(|why| format!("{why}: {:?}", op.change))?;
        }
        if next.is_overfull() {
            return Err("a set is full".to_owned());
        }
        *self = next;
        Ok(())
    }

    fn obey(&mut self, change: &Change) -> Result<(), &'static str> {
        match change {
            Change::AddTable => Ok(()),
            Change::DeleteTable => {
                *self = Self::default();
                Ok(())
            }
            Change::AddSet(set, size) => {
                unless(!self.sets.insert(*set), "set exists")?;
                self.ruleset.rooms.extend(size.map(|size| (*set, size)));
                Ok(())
            }
            Change::DeleteSet(set) => {
                unless(self.rules().any(|rule| refers_to_set(rule, *set)), "set is in use")?;
                self.ruleset.elements.retain(|place, _| place.set != *set);
                self.ruleset.rooms.remove(set);
                unless(!self.sets.remove(set), "no such set")
            }
            Change::AddClients(set) => {
                let old = self.ruleset.clients.insert(set.name.clone(), set.seconds);
                unless(old.is_some(), "set of clients exists")
            }
            Change::DeleteClients(name) => {
                unless(self.rules().any(|rule| refers_to_clients(rule, name)), "set of clients is in use")?;
                unless(self.ruleset.clients.remove(name).is_none(), "no such set of clients")
            }
            Change::AddChain(chain) => {
                unless(self.ruleset.chains.contains_key(&chain.name), "chain exists")?;
                self.fill(chain)
            }
            Change::ReplaceRules(chain) => {
                unless(!self.ruleset.chains.contains_key(&chain.name), "no such chain")?;
                self.fill(chain)
            }
            Change::DeleteChain(name) => {
                let chain = self.ruleset.chains.remove(name);
                unless(chain.is_none(), "no such chain")?;
                unless(
                    self.rules().any(|rule| chains_of(rule).any(|c| c == name)),
                    "a rule leads to the chain",
                )?;
                let mut verdicts = self.ruleset.elements.values();
                unless(verdicts.any(|data| leads_to(data) == Some(name)), "an element leads to the chain")
            }
            Change::AddElement(place, data) => self.add_element(*place, data),
            Change::DeleteElement(place) => {
                unless(self.ruleset.elements.remove(place).is_none(), "no such element")
            }
        }
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.ruleset.chains.values().flat_map(|chain| &chain.rules)
    }

    fn fill(&mut self, chain: &Chain) -> Result<(), &'static str> {
        for rule in &chain.rules {
            let chains = &self.ruleset.chains;
            unless(chains_of(rule).any(|name| !chains.contains_key(name)), "leads to no chain")?;
            for statement in &rule.statements {
                let is_there = match statement {
                    Statement::Remember(name) | Statement::In(_, _, SetName::Own(name)) => {
                        self.ruleset.clients.contains_key(name)
                    }
                    Statement::In(_, _, SetName::Shared(set))
                    | Statement::Lookup(_, SetName::Shared(set))
                    | Statement::DnatByMap(_, SetName::Shared(set)) => self.sets.contains(set),
                    _ => true,
                };
                unless(!is_there, "refers to no set")?;
            }
        }
        self.ruleset.chains.insert(chain.name.clone(), chain.clone());
        Ok(())
    }

    fn add_element(&mut self, place: Place, data: &Data) -> Result<(), &'static str> {
        unless(!self.sets.contains(&place.set), "no such set")?;
        let is_dangling = leads_to(data).is_some_and(|name| !self.ruleset.chains.contains_key(name));
        unless(is_dangling, "element leads to no chain")?;
        if let Key::Source(ip, protocol, port, new) = place.key {
            let overlaps = |other: &Place| match other.key {
                Key::Source(i, p, n, old) => {
                    (i, p, n) == (ip, protocol, port) && (old.contains(&new) || new.contains(&old))
                }
                _ => false,
            };
            unless(self.ruleset.elements.keys().any(overlaps), "interval overlaps")?;
        }
        unless(self.ruleset.elements.insert(place, data.clone()).is_some(), "element exists")
    }

    /// The kernel counts as well, and refuses an element that is too many. Not here, where it would mean counting for each: at the end
    /// of a transaction.
    fn is_overfull(&self) -> bool {
        let held = |set| self.ruleset.elements.keys().filter(|place| place.set == set).count();
        self.ruleset.rooms.iter().any(|(set, size)| held(*set) > usize::try_from(*size).unwrap_or(usize::MAX))
    }
}

fn unless(is_wrong: bool, why: &'static str) -> Result<(), &'static str> {
    if is_wrong { Err(why) } else { Ok(()) }
}

fn leads_to(data: &Data) -> Option<&String> {
    match data {
        Data::Verdict(verdict) => chain_of(verdict),
        _ => None,
    }
}

fn chain_of(verdict: &Verdict) -> Option<&String> {
    match verdict {
        Verdict::Goto(name) | Verdict::Jump(name) => Some(name),
        Verdict::Drop | Verdict::Return => None,
    }
}

fn chains_of(rule: &Rule) -> impl Iterator<Item = &String> {
    rule.statements.iter().flat_map(|statement| match statement {
        Statement::Verdict(verdict) => chain_of(verdict).into_iter().collect(),
        Statement::RandomVerdict(verdicts) => verdicts.iter().filter_map(chain_of).collect(),
        _ => Vec::new(),
    })
}

fn refers_to_set(rule: &Rule, wanted: Set) -> bool {
    rule.statements.iter().any(|statement| match statement {
        Statement::In(_, _, SetName::Shared(set))
        | Statement::Lookup(_, SetName::Shared(set))
        | Statement::DnatByMap(_, SetName::Shared(set)) => *set == wanted,
        _ => false,
    })
}

fn refers_to_clients(rule: &Rule, name: &str) -> bool {
    rule.statements.iter().any(|statement| match statement {
        Statement::Remember(set) | Statement::In(_, _, SetName::Own(set)) => set == name,
        _ => false,
    })
}
