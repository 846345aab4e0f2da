//! What to write: everything, in bounded steps, or only what changed.
//!
//! Cost: a partial sync plans the service ports that changed and those that share a frontend with them; a shared chain
//! is written again only if one of its rules differs. kube-proxy writes all shared chains on every sync and lists the
//! table to find stale chains; this planner knows them from the book.

use std::collections::{BTreeMap, BTreeSet};

use switchyard_model::{ServicePort, ServicePortName};

use super::base::{Top, static_rules};
use super::chains::{Chain, Comments, chains};
use super::dispatch::{Dispatch, dispatch};
use super::names::{deletion_order, is_service_chain};
use super::restore::Restore;
use super::rule::{Rule, Table};
use super::{Config, trace::Ruleset};
use crate::book::{Book, PortChanges, Replaced};
use crate::route::Verdict;

pub use all::WantedChain;
pub use counts::RuleCounts;

mod all;
mod counts;
mod means;

/// Above this many endpoints the rules in front of endpoints go without comments.
const LARGE_CLUSTER_ENDPOINTS: usize = 1000;

/// Where [`Planner::probe`] puts dispatch rules. The name makes it one of ours, so nothing is left for ever.
const PROBE: &str = "KUBE-SVC-PROBE";

/// One service port's share of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fragment {
    dispatch: Dispatch,
    chains: Vec<Chain>,
    counts: RuleCounts,
}

/// A part of a full sync. Steps must be written in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything at once, also the deletion of chains that are not used any more.
    Everything {
        /// Chains to delete.
        stale: Vec<String>,
    },
    /// The chains of some service ports; nothing jumps to new ones yet.
    Leaves(Vec<ServicePortName>),
    /// The shared chains.
    Tops,
    /// Chains to which nothing jumps any more.
    Delete(Vec<String>),
}

/// Restore input of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The input.
    pub restore: Restore,
    /// How many service ports were planned for it.
    pub planned: usize,
}

/// What a partial sync writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The input.
    pub batch: Batch,
    /// What changed in the book.
    pub replaced: Vec<Replaced>,
}

/// Plans one family.
#[derive(Clone, Debug)]
pub struct Planner {
    config: Config,
    book: Book,
    counts: RuleCounts,
}

impl Planner {
    /// A planner over a book.
    pub fn new(config: Config, book: Book) -> Self {
        Self { config, book, counts: RuleCounts::default() }
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// The book, to change it before a full sync.
    pub fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    /// What the kernel holds once everything planned so far is written. Static rules included.
    pub fn counts(&self) -> RuleCounts {
        let mut counts = self.counts;
        for top in self.tops() {
            let rules = static_rules(&self.config, self.book.settings(), top).len();
            match top.table() {
                Table::Nat => counts.nat += rules,
                Table::Filter | Table::Mangle => counts.filter += rules,
            }
        }
        counts
    }

    /// Writes changes into the book and plans what differs.
    pub fn partial(&mut self, changes: PortChanges) -> Partial {
        let affected = self.book.affected(&changes);
        let before = self.fragments(&affected);
        let replaced = self.book.update(changes);
        let mut restore = Restore::new();
        if replaced.is_empty() {
            return Partial { batch: Batch { restore, planned: 0 }, replaced };
        }
        let after = self.fragments(&affected);
        self.add_counts(&before, &after);
        for top in self.changed_tops(&before, &after) {
            self.write_top(top, &mut restore);
        }
        write_changed_chains(&before, &after, &mut restore);
        Partial { batch: Batch { restore, planned: affected.len() }, replaced }
    }

    /// The steps of a full sync. `existing` are the chains of the nat table now; at most `limit` service ports go
    /// into one step. With more, leaves are written before what jumps to them, and deletions come last.
    pub fn full(&self, existing: &BTreeSet<String>, limit: usize) -> Vec<Step> {
        let stale = self.stale(existing);
        if self.book.ports().len() <= limit && stale.len() <= limit {
            return vec![Step::Everything { stale }];
        }
        let names: Vec<ServicePortName> = self.book.ports().keys().cloned().collect();
        let mut steps: Vec<Step> =
            names.chunks(limit.max(1)).map(|chunk| Step::Leaves(chunk.to_vec())).collect();
        steps.push(Step::Tops);
        steps.extend(stale.chunks(limit.max(1)).map(|chunk| Step::Delete(chunk.to_vec())));
        steps
    }

    /// Restore input of a step. A service port that was set aside meanwhile is left out.
    pub fn render(&mut self, step: &Step) -> Batch {
        let mut restore = Restore::new();
        let mut planned = 0;
        match step {
            Step::Everything { stale } => {
                self.write_tops(&mut restore);
                let names: Vec<ServicePortName> = self.book.ports().keys().cloned().collect();
                (planned, self.counts) = self.write_leaves(&names, &mut restore);
                self.write_deletions(stale, &mut restore);
            }
            Step::Leaves(names) => {
                // Leaves jump to it. No service port has rules in it, so none is planned for it.
                restore.chain(Table::Nat, Top::NatMarkMasq.chain(), None);
                self.write_static(Top::NatMarkMasq, &mut restore);
                (planned, _) = self.write_leaves(names, &mut restore);
            }
            Step::Tops => {
                // Counted here and not leaf by leaf: a step of leaves may be rendered twice, or not at all.
                self.counts = self.count();
                self.write_tops(&mut restore);
                // Leaves of a port that fell back since they were written are those of the value that was refused.
                self.write_leaves(&self.fallen_back(), &mut restore);
            }
            Step::Delete(stale) => self.write_deletions(stale, &mut restore),
        }
        Batch { restore, planned }
    }

    /// Input that makes the kernel look at every rule of some service ports without letting a packet near them: their
    /// chains, and their dispatch rules in a chain to which nothing jumps. For finding out which one it refuses.
    pub fn probe(&self, names: &[ServicePortName]) -> Restore {
        let mut restore = Restore::new();
        self.write_top(Top::NatMarkMasq, &mut restore);
        for table in [Table::Filter, Table::Nat] {
            restore.chain(table, PROBE, None);
        }
        for name in names {
            let Some(port) = self.book.ports().get(name) else { continue };
            let fragment = self.fragment(port);
            fragment.chains.iter().for_each(|chain| write_chain(chain, name, &mut restore));
            for (top, rule) in &fragment.dispatch {
                restore.rule(top.table(), PROBE, rule, Some(name));
            }
        }
        restore
    }

    /// Removes what [`Planner::probe`] left.
    pub fn end_of_probe() -> Restore {
        let mut restore = Restore::new();
        [Table::Filter, Table::Nat].into_iter().for_each(|table| restore.delete(table, PROBE));
        restore
    }

    /// Everything as values, for the tracer.
    pub fn ruleset(&self) -> Ruleset {
        let mut ruleset = Ruleset::default();
        for top in self.tops() {
            let rules = self.top_rules(top).map(|(_, rule)| rule).collect();
            ruleset.insert(top.table(), top.chain(), rules);
        }
        for port in self.book.ports().values() {
            for chain in self.fragment(port).chains {
                ruleset.insert(Table::Nat, &chain.name, chain.rules);
            }
        }
        ruleset
    }

    /// True if there are so many endpoints that rules go without comments.
    pub fn is_large(&self) -> bool {
        self.book.endpoints() > LARGE_CLUSTER_ENDPOINTS
    }

    fn comments(&self) -> Comments {
        if self.is_large() { Comments::Terse } else { Comments::Full }
    }

    fn tops(&self) -> impl Iterator<Item = Top> {
        Top::ALL.into_iter().filter(|top| top.is_written(self.book.settings()))
    }

    fn dispatch(&self, port: &ServicePort) -> Dispatch {
        dispatch(&self.config, self.book.settings(), &self.book.routes(port))
    }

    fn fragment(&self, port: &ServicePort) -> Fragment {
        let routes = self.book.routes(port);
        let dispatch = dispatch(&self.config, self.book.settings(), &routes);
        let chains = chains(self.book.settings(), &routes, self.comments());
        let silent = |verdict: Verdict| usize::from(verdict == Verdict::Drop);
        let in_nat = dispatch.iter().filter(|(top, _)| top.table() == Table::Nat).count();
        let counts = RuleCounts {
            filter: dispatch.len() - in_nat,
            nat: in_nat + chains.iter().map(|c| c.rules.len()).sum::<usize>(),
            silent_internal: silent(routes.internal.verdict),
            silent_external: silent(routes.external_default()),
        };
        Fragment { dispatch, chains, counts }
    }

    fn fragments(&self, names: &BTreeSet<ServicePortName>) -> BTreeMap<ServicePortName, Fragment> {
        let found = names.iter().filter_map(|name| Some((name, self.book.ports().get(name)?)));
        found.map(|(name, port)| (name.clone(), self.fragment(port))).collect()
    }

    fn changed_tops(
        &self,
        before: &BTreeMap<ServicePortName, Fragment>,
        after: &BTreeMap<ServicePortName, Fragment>,
    ) -> Vec<Top> {
        let rules = |fragments: &BTreeMap<ServicePortName, Fragment>, top: Top| -> Vec<Rule> {
            let all = fragments.values().flat_map(|f| &f.dispatch);
            all.filter(|(t, _)| *t == top).map(|(_, rule)| rule.clone()).collect()
        };
        self.tops().filter(|top| rules(before, *top) != rules(after, *top)).collect()
    }

    /// Rules of a shared chain: those of all service ports, then the static ones.
    fn top_rules(&self, top: Top) -> impl Iterator<Item = (Option<&ServicePortName>, Rule)> {
        let of_port = move |(name, port)| {
            let rules = self.dispatch(port).into_iter().filter(move |(t, _)| *t == top);
            rules.map(move |(_, rule)| (Some(name), rule))
        };
        let fixed = static_rules(&self.config, self.book.settings(), top);
        self.book
            .ports()
            .iter()
            .map(|(name, port)| (name, &**port))
            .flat_map(of_port)
            .chain(fixed.into_iter().map(|rule| (None, rule)))
    }

    fn write_top(&self, top: Top, restore: &mut Restore) {
        restore.chain(top.table(), top.chain(), None);
        for (owner, rule) in self.top_rules(top) {
            restore.rule(top.table(), top.chain(), &rule, owner);
        }
    }

    /// All shared chains in one pass over the service ports.
    fn write_tops(&self, restore: &mut Restore) {
        for top in self.tops() {
            restore.chain(top.table(), top.chain(), None);
        }
        for (name, port) in self.book.ports() {
            for (top, rule) in self.dispatch(port) {
                restore.rule(top.table(), top.chain(), &rule, Some(name));
            }
        }
        self.tops().for_each(|top| self.write_static(top, restore));
    }

    fn write_static(&self, top: Top, restore: &mut Restore) {
        for rule in static_rules(&self.config, self.book.settings(), top) {
            restore.rule(top.table(), top.chain(), &rule, None);
        }
    }

    fn count(&self) -> RuleCounts {
        let mut counts = RuleCounts::default();
        self.book.ports().values().for_each(|port| counts.add(&self.fragment(port).counts));
        counts
    }

    /// Writes the chains of some service ports. Says how many ports there were and counts their rules.
    fn write_leaves(&self, names: &[ServicePortName], restore: &mut Restore) -> (usize, RuleCounts) {
        let mut planned = 0;
        let mut counts = RuleCounts::default();
        for name in names {
            let Some(port) = self.book.ports().get(name) else { continue };
            let fragment = self.fragment(port);
            for chain in &fragment.chains {
                write_chain(chain, name, restore);
            }
            counts.add(&fragment.counts);
            planned += 1;
        }
        (planned, counts)
    }

    /// Service ports that were set aside and are served by an earlier value.
    fn fallen_back(&self) -> Vec<ServicePortName> {
        let names = self.book.quarantined().keys();
        names.filter(|name| self.book.ports().contains_key(*name)).cloned().collect()
    }

    /// Deletes stale chains, except those that a port has fallen back on since the steps were planned.
    fn write_deletions(&self, stale: &[String], restore: &mut Restore) {
        let fallen_back = self.fallen_back();
        let ports = fallen_back.iter().filter_map(|name| self.book.ports().get(name));
        let used: BTreeSet<String> =
            ports.flat_map(|port| self.fragment(port).chains).map(|chain| chain.name).collect();
        stale.iter().filter(|c| !used.contains(*c)).for_each(|chain| restore.delete(Table::Nat, chain));
    }

    fn add_counts(
        &mut self,
        before: &BTreeMap<ServicePortName, Fragment>,
        after: &BTreeMap<ServicePortName, Fragment>,
    ) {
        before.values().for_each(|f| self.counts.subtract(&f.counts));
        after.values().for_each(|f| self.counts.add(&f.counts));
    }

    /// Existing chains of service ports that no service port uses, those that jump before those that are jumped to.
    fn stale(&self, existing: &BTreeSet<String>) -> Vec<String> {
        let mut stale: BTreeSet<&String> = existing.iter().filter(|c| is_service_chain(c)).collect();
        if !stale.is_empty() {
            for port in self.book.ports().values() {
                for chain in self.fragment(port).chains {
                    stale.remove(&chain.name);
                }
            }
        }
        let mut stale: Vec<String> = stale.into_iter().cloned().collect();
        stale.sort_by_key(|chain| deletion_order(chain));
        stale
    }
}

fn write_chain(chain: &Chain, owner: &ServicePortName, restore: &mut Restore) {
    restore.chain(Table::Nat, &chain.name, Some(owner));
    for rule in &chain.rules {
        restore.rule(Table::Nat, &chain.name, rule, Some(owner));
    }
}

/// Writes chains that are new or differ, then deletes those that are gone.
fn write_changed_chains(
    before: &BTreeMap<ServicePortName, Fragment>,
    after: &BTreeMap<ServicePortName, Fragment>,
    restore: &mut Restore,
) {
    let mut gone: BTreeMap<&str, &Chain> =
        before.values().flat_map(|f| &f.chains).map(|c| (c.name.as_str(), c)).collect();
    for (name, fragment) in after {
        for chain in &fragment.chains {
            if gone.remove(chain.name.as_str()) != Some(chain) {
                write_chain(chain, name, restore);
            }
        }
    }
    gone.keys().for_each(|chain| restore.delete(Table::Nat, chain));
}

#[cfg(test)]
mod tests;
