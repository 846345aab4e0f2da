//! nftables mode for one family: obeys the planner, one transaction per sync.
//!
//! In: changes of service ports. Out: a [`Report`] of what was written, set aside or failed.
//!
//! Invariants
//! - A transaction happens as a whole or not at all: no packet sees a half-written change.
//! - At the start, and whenever the kernel is not trusted, everything of ours is read back and only differences are
//!   written: a restart with nothing changed writes nothing.
//! - A service port whose elements the kernel refuses is set aside; all others are written.

use std::time::Instant;

use ipnet::IpNet;
use switchyard_model::{Family, ServicePort, ServicePortName};
use switchyard_netlink::nftables::{Batch, Comment, CommitError, Element, Generation, Nft, Table, TableId};
use switchyard_plan::book::{Book, PortChanges, Replaced};
use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::nft::element::Data;
use switchyard_plan::nft::ops::{Change, Op};
use switchyard_plan::nft::planner::Planner;
use switchyard_plan::route::Verdict;
use switchyard_plan::settings::Settings;

use super::observe::{self, Observed};
use super::{rules, sets};
use crate::report::{Failure, Kind, Progress, Refused, Report};

/// How often a sync starts over because another program wrote to nf_tables meanwhile, or an element was refused.
const MAX_TRIES: usize = 64;

/// Whether what the kernel holds is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// It holds what the planner's book says.
    Known,
    /// It may hold anything.
    Unknown,
}

/// See the module.
#[derive(Debug)]
pub struct NftMode {
    nft: Nft,
    planner: Planner,
    kernel: Kernel,
    /// What changed since the last sync that succeeded.
    unconfirmed: Vec<Replaced>,
    /// Whose operation was refused in the last transaction.
    culprit: Option<ServicePortName>,
    /// Service ports that are silent on this node; rules are not counted, there is a constant number of them.
    counts: RuleCounts,
}

impl NftMode {
    /// A mode that has written nothing yet.
    pub fn new(nft: Nft, planner: Planner) -> Self {
        Self {
            nft,
            planner,
            kernel: Kernel::Unknown,
            unconfirmed: Vec::new(),
            culprit: None,
            counts: RuleCounts::default(),
        }
    }

    fn family(&self) -> Family {
        self.planner.book().settings().family
    }

    /// The port that our transactions carry in the kernel's notifications.
    pub fn port(&self) -> u32 {
        self.nft.port()
    }
}

impl crate::Mode for NftMode {
    fn book(&self) -> &Book {
        self.planner.book()
    }

    fn counts(&self) -> RuleCounts {
        self.counts
    }

    fn settle(&mut self, settings: Settings) {
        if *self.book().settings() != settings {
            self.planner.reset(|book, _| book.settle(settings));
            self.kernel = Kernel::Unknown;
        }
    }

    fn allocate_from(&mut self, ranges: &[IpNet]) {
        let family = self.family();
        let own = ranges.iter().filter(|range| Family::of(range.addr()) == family).map(IpNet::trunc);
        // Ranges may overlap, and neighbours may be one: as few rules as possible.
        let own = IpNet::aggregate(&own.collect());
        if self.planner.config().service_cidrs != own {
            self.planner.reset(|_, config| config.service_cidrs = own);
            self.kernel = Kernel::Unknown;
        }
    }

    fn distrust(&mut self) {
        self.kernel = Kernel::Unknown;
    }

    fn needs_full_sync(&self, _now: Instant) -> bool {
        self.kernel == Kernel::Unknown
    }

    fn sync(&mut self, _now: Instant, changes: PortChanges, _progress: &mut dyn FnMut(Progress)) -> Report {
        let mut report = Report::new(Kind::Partial);
        if self.kernel == Kernel::Known {
            let partial = self.planner.partial(changes);
            self.count_replaced(&partial.replaced);
            self.unconfirmed.extend(partial.replaced);
            report.planned += partial.planned;
            match self.commit(&partial.ops, None, &mut report) {
                Ok(()) => return self.finish(report),
                Err(error) => self.blame(&error, &mut report),
            };
        } else {
            let unconfirmed = &mut self.unconfirmed;
            self.planner.reset(|book, _| unconfirmed.extend(book.update(changes)));
        }
        report.kind = Kind::Full;
        self.full(&mut report);
        self.finish(report)
    }
}

impl NftMode {
    fn finish(&mut self, mut report: Report) -> Report {
        if report.failure.is_some() {
            self.kernel = Kernel::Unknown;
        } else {
            self.kernel = Kernel::Known;
            report.confirmed = std::mem::take(&mut self.unconfirmed);
        }
        report
    }

    /// Reads, compares and writes, again if somebody else wrote meanwhile or a culprit was set aside.
    fn full(&mut self, report: &mut Report) {
        for _ in 0..MAX_TRIES {
            let mut ops = Vec::new();
            let Err(error) = self.full_once(&mut ops, report) else { return };
            if matches!(error, Failure::Commit(CommitError::Raced)) {
                continue;
            }
            if !self.blame(&error, report) {
                report.failure = Some(error);
                return;
            }
        }
        report.failure = Some(Failure::Commit(CommitError::Raced));
    }

    /// `ops` is what was to be written, also if it was refused.
    fn full_once(&mut self, ops: &mut Vec<Op>, report: &mut Report) -> Result<(), Failure> {
        let family = self.family();
        let generation = self.nft.generation().map_err(Failure::Netlink)?;
        let chains = self.planner.chains();
        let observed = observe::observe(&mut self.nft, family, &chains).map_err(Failure::Netlink)?;
        *ops = match &observed {
            Observed::Nothing => self.planner.everything(),
            Observed::Table(held) => {
                self.planner.adopt(held);
                self.planner.repair(held)
            }
            Observed::Foreign => {
                let mut ops = vec![Op { change: Change::DeleteTable, owner: None }];
                ops.extend(self.planner.everything());
                ops
            }
        };
        report.planned += self.planner.book().ports().len();
        self.count_all();
        self.commit(ops, Some(generation), report)
    }

    fn count_all(&mut self) {
        let book = self.planner.book();
        let mut counts = RuleCounts::default();
        for (internal, external) in book.ports().values().map(|port| silent(book, port)) {
            counts.silent_internal += internal;
            counts.silent_external += external;
        }
        self.counts = counts;
    }

    fn count_replaced(&mut self, replaced: &[Replaced]) {
        let book = self.planner.book();
        let counts = &mut self.counts;
        for (internal, external) in replaced.iter().filter_map(|r| r.new.as_ref()).map(|p| silent(book, p)) {
            counts.silent_internal += internal;
            counts.silent_external += external;
        }
        for (internal, external) in replaced.iter().filter_map(|r| r.old.as_ref()).map(|p| silent(book, p)) {
            counts.silent_internal = counts.silent_internal.saturating_sub(internal);
            counts.silent_external = counts.silent_external.saturating_sub(external);
        }
    }

    fn commit(
        &mut self,
        ops: &[Op],
        generation: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        if ops.is_empty() {
            return Ok(());
        }
        let mut batch = generation.map_or_else(Batch::new, Batch::only_after);
        let id = observe::table(self.family());
        let sources = encode(ops, self.family(), &id, &mut batch);
        match self.nft.commit(&batch) {
            Ok(_) => {
                report.lines += ops.len();
                report.restores += 1;
                Ok(())
            }
            Err(error) => {
                report.failed_restores += 1;
                self.culprit = culprit(&error, ops, &sources);
                Err(Failure::Commit(error))
            }
        }
    }

    /// Sets the service port aside whose element was refused. False if nobody's was.
    fn blame(&mut self, error: &Failure, report: &mut Report) -> bool {
        let Some(owner) = self.culprit.take() else { return false };
        let good = self.unconfirmed.iter().find(|r| r.name == owner).and_then(|r| r.old.clone());
        let cause = error.to_string();
        self.planner.reset(|book, _| book.quarantine(&owner, good, cause.clone()));
        self.kernel = Kernel::Unknown;
        report.refused.push(Refused { name: owner, cause });
        true
    }
}

/// Whether a service port's cluster IP, and its other frontends, are silent because this node has no endpoint: 1 or 0.
fn silent(book: &Book, port: &ServicePort) -> (usize, usize) {
    let routes = book.routes(port);
    let is_silent = |verdict| usize::from(verdict == Verdict::Drop);
    (is_silent(routes.internal.verdict), is_silent(routes.external_default()))
}

/// Whose operation the kernel refused first.
fn culprit(error: &CommitError, ops: &[Op], sources: &[usize]) -> Option<ServicePortName> {
    let CommitError::Refused { refusals, .. } = error else { return None };
    let operation = refusals.first().operation.as_ref()?;
    let op = sources.get(operation.index.0)?;
    ops.get(op + operation.element.unwrap_or_default())?.owner.clone()
}

/// True if the op after `op` may go into the same operation: elements of one set, of one owner, added or deleted alike.
fn joins(op: &Op, next: &Op) -> bool {
    if op.owner != next.owner {
        return false;
    }
    match (&op.change, &next.change) {
        (Change::AddElement(a, _), Change::AddElement(b, _)) => a.set == b.set,
        (Change::DeleteElement(a), Change::DeleteElement(b)) => a.set == b.set,
        _ => false,
    }
}

/// Writes ops into a batch. Says for each operation of the batch which op it is for.
fn encode(ops: &[Op], family: Family, id: &TableId, batch: &mut Batch) -> Vec<usize> {
    let mut sources = Vec::new();
    let mut start = 0;
    let mut has_flushed = false;
    for group in ops.chunk_by(joins) {
        let Some(first) = group.first() else { continue };
        match &first.change {
            Change::AddElement(place, _) => {
                let elements: Vec<Element> = group.iter().filter_map(element).collect();
                batch.add_elements(id, place.set.as_str(), &elements);
            }
            Change::DeleteElement(place) => {
                let elements: Vec<Element> = group.iter().filter_map(element).collect();
                batch.delete_elements(id, place.set.as_str(), &elements);
            }
            Change::DeleteChain(name) => {
                // Chains that go may lead to each other: all are emptied before the first is deleted.
                if !std::mem::replace(&mut has_flushed, true) {
                    flush_all(ops, id, batch);
                }
                batch.delete_chain(id, name);
            }
            other => encode_one(other, family, id, batch),
        }
        sources.resize(batch.len(), start);
        start += group.len();
    }
    sources
}

fn flush_all(ops: &[Op], id: &TableId, batch: &mut Batch) {
    for op in ops {
        if let Change::DeleteChain(name) = &op.change {
            batch.flush_chain(id, name);
        }
    }
}

fn element(op: &Op) -> Option<Element> {
    match &op.change {
        Change::AddElement(place, data) => Some(sets::encode(place, data)),
        Change::DeleteElement(place) => Some(sets::encode(place, &Data::None)),
        _ => None,
    }
}

fn encode_one(change: &Change, family: Family, id: &TableId, batch: &mut Batch) {
    match change {
        Change::AddTable => {
            let comment = Comment::new("rules for Kubernetes Services, written by Switchyard");
            batch.add_table(&Table { comment, ..Table::new(id.clone()) });
        }
        Change::DeleteTable => {
            batch.delete_table(id);
        }
        Change::AddSet(set) => {
            batch.add_set(id, &sets::declare(*set, family));
        }
        Change::AddClients(set) => {
            batch.add_set(id, &sets::declare_clients(set, family));
        }
        Change::DeleteClients(name) => {
            batch.delete_set(id, name);
        }
        Change::AddChain(chain) => {
            batch.add_chain(id, &rules::chain(chain));
            rules::rules(chain, family).iter().for_each(|rule| _ = batch.add_rule(id, rule));
        }
        Change::ReplaceRules(chain) => {
            batch.flush_chain(id, &chain.name);
            rules::rules(chain, family).iter().for_each(|rule| _ = batch.add_rule(id, rule));
        }
        Change::AddElement(..) | Change::DeleteElement(_) | Change::DeleteChain(_) => {}
    }
}
