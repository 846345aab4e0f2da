//! iptables mode for one family: obeys the planner, step by step, and knows when it must start over.
//!
//! In: changes of service ports. Out: a [`Report`] of what was written, set aside or failed.
//!
//! Invariants
//! - A sync that failed makes the next one a full sync, which assumes nothing about the kernel.
//! - A service port whose rules the kernel refuses is set aside; what the kernel held for it before stays, and all
//!   others are written.
//! - Leaves are written before jumps to them, and deleted after: live flows are valid between any two writes.

mod culprit;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use switchyard_model::ServicePortName;
use switchyard_plan::book::{Book, PortChanges};
use switchyard_plan::explain::Explanation;
use switchyard_plan::iptables::base::JUMPS;
use switchyard_plan::iptables::planner::{Planner, RuleCounts, Step};
use switchyard_plan::iptables::restore::Restore;
use switchyard_plan::settings::Settings;
use switchyard_plan::trace::Packet;

use super::canary;
use super::save::{self, Detail};
use super::{Ensured, Iptables, Jump, Position, RestoreOptions, Table, Variant};
use crate::diff::Difference;
use crate::report::{Failure, Kind, Progress, Refused, Report};
use crate::unconfirmed::Unconfirmed;
use crate::{Mode, NextStep};

/// Service ports per transaction of the nft variant, whose time is quadratic in the chains of one transaction.
/// Found by `make bench`; see `docs/adr/0003-bounded-batches.md`.
pub const NFT_BATCH: usize = 100;

/// A full sync that finds more refused service ports than this fails; the next one goes on from there.
const MAX_REFUSED: usize = 256;

/// How long a kernel is trusted before everything is written again.
const FULL_SYNC_PERIOD: Duration = Duration::from_secs(3600);

/// Whether what the kernel holds is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// It holds what the planner's book says, as of this moment.
    Known(Instant),
    /// It may hold anything.
    Unknown,
}

/// See the module.
#[derive(Debug)]
pub struct IptablesMode {
    programs: Iptables,
    planner: Planner,
    kernel: Kernel,
    batch: usize,
    unconfirmed: Unconfirmed,
}

impl IptablesMode {
    /// A mode that has written nothing yet.
    pub fn new(programs: Iptables, planner: Planner) -> Self {
        let batch = match programs.variant() {
            Variant::Nft => NFT_BATCH,
            // One transaction always rewrites the whole table, so fewer are better.
            Variant::Legacy => usize::MAX,
        };
        Self { programs, planner, kernel: Kernel::Unknown, batch, unconfirmed: Unconfirmed::default() }
    }

    /// The same with another number of service ports per transaction; `usize::MAX` for one transaction.
    #[must_use]
    pub fn with_batch(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    /// The programs that write.
    pub fn programs(&self) -> &Iptables {
        &self.programs
    }

    fn finish(&mut self, mut report: Report) -> Report {
        if report.failure.is_some() {
            self.kernel = Kernel::Unknown;
        }
        self.unconfirmed.confirm(&mut report);
        report
    }

    /// Writes changes in bounded transactions. True if the kernel took all of them; if not, either the report has a
    /// failure or a full sync must follow. Either way all of them are in the book.
    fn partials(&mut self, changes: PortChanges, report: &mut Report) -> bool {
        let mut rest = changes.into_iter();
        loop {
            let chunk: PortChanges = rest.by_ref().take(self.batch).collect();
            if chunk.is_empty() {
                return true;
            }
            if !self.partial(chunk, report) {
                self.unconfirmed.add(self.planner.book_mut().update(rest.collect()));
                return false;
            }
        }
    }

    fn partial(&mut self, changes: PortChanges, report: &mut Report) -> bool {
        let partial = self.planner.partial(changes);
        self.unconfirmed.add(partial.replaced);
        report.planned += partial.batch.planned;
        let Err(failure) = self.write(&partial.batch.restore, report) else { return true };
        self.kernel = Kernel::Unknown;
        let is_answered = match failure.next_step() {
            // The kernel does not hold what we believed; no service port is to blame for that.
            NextStep::FullSync | NextStep::Replan => true,
            NextStep::Quarantine { .. } => self.blame(&failure, &partial.batch.restore, &[], report),
            NextStep::Backoff | NextStep::Stop => false,
        };
        if !is_answered {
            report.failure = Some(failure);
        }
        false
    }

    fn full(&mut self, report: &mut Report, progress: &mut dyn FnMut(Progress)) -> Result<(), Failure> {
        self.ensure_jumps()?;
        let existing = self.existing_chains()?;
        let steps = self.planner.full(&existing, self.batch);
        for (done, step) in steps.iter().enumerate() {
            progress(Progress { done, total: steps.len() });
            self.write_step(step, report)?;
        }
        progress(Progress { done: steps.len(), total: steps.len() });
        Ok(())
    }

    /// Writes a step, without whatever the kernel refuses of it.
    fn write_step(&mut self, step: &Step, report: &mut Report) -> Result<(), Failure> {
        loop {
            let batch = self.planner.render(step);
            report.planned += batch.planned;
            let Err(failure) = self.write(&batch.restore, report) else { return Ok(()) };
            let names = match step {
                Step::Leaves(names) => names.clone(),
                Step::Everything { .. } | Step::Tops => self.book().ports().keys().cloned().collect(),
                Step::Delete(_) => Vec::new(),
            };
            if report.refused.len() >= MAX_REFUSED || !self.blame(&failure, &batch.restore, &names, report) {
                return Err(failure);
            }
        }
    }

    fn write(&self, restore: &Restore, report: &mut Report) -> Result<(), Failure> {
        if restore.is_empty() {
            return Ok(());
        }
        self.programs.restore_pieces(&restore.pieces(), RestoreOptions::default()).map_err(|error| {
            report.failed_restores += 1;
            Failure::Restore(error)
        })?;
        report.lines += restore.lines();
        report.rules.filter += restore.rules(Table::Filter);
        report.rules.nat += restore.rules(Table::Nat);
        report.restores += 1;
        Ok(())
    }

    /// Finds out whose rules were refused and sets that service port aside. False if nobody's in particular.
    fn blame(
        &mut self,
        failure: &Failure,
        restore: &Restore,
        names: &[ServicePortName],
        report: &mut Report,
    ) -> bool {
        if !matches!(failure.next_step(), NextStep::Quarantine { .. } | NextStep::FullSync) {
            return false;
        }
        let by_line = failure.line().and_then(|line| restore.owner_of_line(line)).cloned();
        let found = match by_line {
            Some(owner) => Some((owner, failure.to_string())),
            None if failure.is_timeout() => None,
            None => culprit::find(&self.programs, &self.planner, names, report),
        };
        let Some((owner, cause)) = found else { return false };
        let good = self.unconfirmed.last_good(&owner);
        self.planner.book_mut().quarantine(&owner, good, cause.clone());
        report.refused.push(Refused { name: owner, cause });
        true
    }

    fn ensure_jumps(&self) -> Result<(), Failure> {
        canary::ensure(&self.programs)?;
        let mut chains: BTreeMap<(Table, &str), Ensured> = BTreeMap::new();
        for jump in &JUMPS {
            // Several jumps lead to one chain.
            let chain = match chains.entry((jump.table, jump.to)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => *unknown.insert(self.programs.ensure_chain(jump.table, jump.to)?),
            };
            let jump = Jump::from(jump);
            match chain {
                // Nothing leads to a chain that was not there a moment ago.
                Ensured::Created => self.programs.insert_jump(&jump, Position::First)?,
                Ensured::Existed => _ = self.programs.ensure_jump(&jump, Position::First)?,
            }
        }
        Ok(())
    }

    fn existing_chains(&self) -> Result<BTreeSet<String>, Failure> {
        let text = self.programs.save(Table::Nat)?;
        let saved = save::parse(&text, Table::Nat, Detail::Chains).ok_or(Failure::Unreadable)?;
        Ok(saved.chains.keys().map(|name| (*name).to_owned()).collect())
    }
}

impl Mode for IptablesMode {
    fn book(&self) -> &Book {
        self.planner.book()
    }

    fn counts(&self) -> RuleCounts {
        self.planner.counts()
    }

    fn settle(&mut self, settings: Settings) {
        if *self.book().settings() != settings {
            self.planner.book_mut().settle(settings);
            self.kernel = Kernel::Unknown;
        }
    }

    fn difference(&self) -> Result<Difference, Failure> {
        super::diff::difference(&self.programs, &self.planner)
    }

    fn means(&self, explanation: &Explanation<'_>, _packet: &Packet) -> Vec<String> {
        self.planner.means(explanation)
    }

    fn distrust(&mut self) {
        self.kernel = Kernel::Unknown;
    }

    fn needs_full_sync(&self, now: Instant) -> bool {
        match self.kernel {
            Kernel::Unknown => true,
            // A large cluster is too dear to be written again for nothing; kube-proxy 1.36.1 skips it too.
            Kernel::Known(since) => {
                now.saturating_duration_since(since) >= FULL_SYNC_PERIOD && !self.planner.is_large()
            }
        }
    }

    fn sync(&mut self, now: Instant, changes: PortChanges, progress: &mut dyn FnMut(Progress)) -> Report {
        let mut report = Report::new(Kind::Partial);
        let is_full = self.needs_full_sync(now);
        // Above half of the cluster, writing all of it is cheaper than the shared chains again and again.
        let is_most = changes.len() > self.batch && changes.len() > self.book().ports().len() / 2;
        if is_full || is_most {
            self.unconfirmed.add(self.planner.book_mut().update(changes));
            if is_full && matches!(self.kernel, Kernel::Known(_)) {
                self.planner.book_mut().readmit();
            }
        } else if self.partials(changes, &mut report) || report.failure.is_some() {
            return self.finish(report);
        }
        report.kind = Kind::Full;
        match self.full(&mut report, progress) {
            Ok(()) => self.kernel = Kernel::Known(now),
            Err(failure) => report.failure = Some(failure),
        }
        self.finish(report)
    }
}
