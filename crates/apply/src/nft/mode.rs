//! nftables mode for one family: obeys the planner, one transaction per sync.
//!
//! In: changes of service ports. Out: a [`Report`] of what was written, set aside or failed.
//!
//! Invariants
//! - A transaction happens as a whole or not at all: no packet sees a half-written change.
//! - At the start, and whenever the kernel is not trusted, everything of ours is read back and only differences are
//!   written: a restart with nothing changed writes nothing.
//! - A service port whose elements the kernel refuses is set aside; all others are written.

use std::collections::BTreeMap;
use std::time::Instant;

use ipnet::IpNet;
use switchyard_model::{Family, ServicePortName};
use switchyard_netlink::nftables::{Generation, Nft};
use switchyard_netlink::socket::Membership;
use switchyard_plan::book::{Book, PortChanges};
use switchyard_plan::explain::{Explanation, Manners};
use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::nft::ops::Change;
use switchyard_plan::nft::planner::{Planner, Ruleset};
use switchyard_plan::settings::Settings;
use switchyard_plan::trace::Packet;

use super::Layout;
use super::observe::{self, Observed};
use super::tries::{Outcome, Race, try_until_written};
use super::writer::{Failed, Writer};
use crate::diff::Difference;
use crate::report::{Failure, Kind, Progress, Refused, Report};
use crate::unconfirmed::{Trust, Unconfirmed};

/// See the module.
#[derive(Debug)]
pub struct NftMode {
    writer: Writer,
    planner: Planner,
    trust: Trust,
    unconfirmed: Unconfirmed,
}

impl NftMode {
    /// A mode that has written nothing yet.
    pub fn new(nft: Nft, planner: Planner) -> Self {
        let family = planner.book().settings().family;
        Self {
            writer: Writer::new(nft, family, Layout::NFTABLES),
            planner,
            trust: Trust::Unknown,
            unconfirmed: Unconfirmed::default(),
        }
    }

    /// Who listens to changes of nf_tables: it need not hear of large writes of our own.
    #[must_use]
    pub fn heard_by(mut self, listener: Membership) -> Self {
        self.writer.heard_by(listener);
        self
    }

    /// Sends no transaction that is larger than this, as a kernel short of memory would ask for.
    #[must_use]
    pub fn limited_to(mut self, bytes: usize) -> Self {
        self.writer.limit(bytes);
        self
    }

    fn family(&self) -> Family {
        self.planner.book().settings().family
    }

    /// The rules in force, as an earlier run left them; none if they are nothing that this mode could have written.
    pub(crate) fn left_behind(&mut self) -> Result<Ruleset, Failure> {
        let family = self.family();
        match observe::observe(self.writer.nft(), family, Layout::NFTABLES, &self.planner.chains()) {
            Ok(Observed::Table(held)) => Ok(held),
            Ok(Observed::Nothing | Observed::Foreign) => Ok(Ruleset::default()),
            Err(error) => Err(Failure::Netlink(error)),
        }
    }

    /// The port that our transactions carry in the kernel's notifications.
    pub fn port(&self) -> u32 {
        self.writer.port()
    }

    /// Where cluster IPs come from, as few ranges as possible.
    pub(crate) fn service_cidrs(&self) -> &[IpNet] {
        &self.planner.config().service_cidrs
    }
}

impl crate::Mode for NftMode {
    fn book(&self) -> &Book {
        self.planner.book()
    }

    /// Rules are not counted: there is a constant number of them.
    fn counts(&self) -> RuleCounts {
        let silent = self.planner.silent();
        RuleCounts {
            silent_internal: silent.internal,
            silent_external: silent.external,
            ..RuleCounts::default()
        }
    }

    fn left_out(&self) -> &BTreeMap<ServicePortName, usize> {
        self.planner.left_out()
    }

    fn settle(&mut self, settings: Settings) {
        if *self.book().settings() != settings {
            self.planner.reset(|book, _| book.settle(settings));
            self.trust = Trust::Unknown;
        }
    }

    fn allocate_from(&mut self, ranges: &[IpNet]) {
        let family = self.family();
        let own = ranges.iter().filter(|range| Family::of(range.addr()) == family).map(IpNet::trunc);
        // Ranges may overlap, and neighbours may be one: as few rules as possible.
        let own = IpNet::aggregate(&own.collect());
        if self.planner.config().service_cidrs != own {
            self.planner.reset(|_, config| config.service_cidrs = own);
            self.trust = Trust::Unknown;
        }
    }

    fn manners(&self) -> Manners<'_> {
        Manners::Strict { service_cidrs: self.service_cidrs() }
    }

    fn difference(&self) -> Result<Difference, Failure> {
        super::diff::difference(&self.planner).map_err(Failure::Netlink)
    }

    fn means(&self, explanation: &Explanation<'_>, packet: &Packet) -> Vec<String> {
        self.planner.means(explanation, packet)
    }

    fn distrust(&mut self) {
        self.trust = Trust::Unknown;
    }

    fn needs_full_sync(&self, _now: Instant) -> bool {
        self.trust == Trust::Unknown
    }

    fn sync(&mut self, _now: Instant, changes: PortChanges, _progress: &mut dyn FnMut(Progress)) -> Report {
        let mut report = Report::new(Kind::Partial);
        if self.trust == Trust::Known {
            if self.partial(changes, &mut report) {
                return self.finish(report);
            }
        } else {
            let unconfirmed = &mut self.unconfirmed;
            self.planner.reset(|book, _| unconfirmed.add(book.update(changes)));
        }
        report.kind = Kind::Full;
        self.full(&mut report);
        self.finish(report)
    }
}

impl NftMode {
    fn finish(&mut self, mut report: Report) -> Report {
        self.trust = Trust::after(&report);
        self.unconfirmed.confirm(&mut report);
        report
    }

    /// Writes only what changed; true if that is all there is to do.
    fn partial(&mut self, changes: PortChanges, report: &mut Report) -> bool {
        let partial = self.planner.partial(changes);
        self.unconfirmed.add(partial.replaced);
        report.planned += partial.planned;
        if partial.needs_room {
            return false;
        }
        // If it is refused, another program may have been here: nobody is blamed before that is known.
        let generation = self.writer.generation_for(&partial.ops);
        let written = generation
            .map_err(Failed::from)
            .and_then(|generation| self.writer.write(&partial.ops, generation, report));
        written.is_ok() && !self.writer.take_doubt()
    }

    fn full(&mut self, report: &mut Report) {
        try_until_written(report, |race, report| {
            self.full_once(race, report).map(|()| Outcome::of(self.writer.take_doubt()))
        });
    }

    fn full_once(&mut self, race: Race, report: &mut Report) -> Result<(), Failed> {
        let family = self.family();
        // Everything is looked at from here on, whatever was missed before.
        self.writer.take_doubt();
        let generation = Some(self.writer.nft().generation()?).filter(|_| race == Race::Avoided);
        let observed = observe::observe(self.writer.nft(), family, Layout::NFTABLES, &self.planner.chains())?;
        report.planned += self.planner.book().ports().len();
        let written = match observed {
            Observed::Nothing => self.anew(&[], generation, report),
            Observed::Foreign => self.anew(&[Change::DeleteTable], generation, report),
            Observed::Table(held) => {
                self.planner.adopt(&held);
                self.writer.write(&self.planner.repair(held), generation, report)
            }
        };
        written.inspect_err(|failed| self.blame(failed, report))
    }

    /// The first write, after `before`.
    fn anew(
        &mut self,
        before: &[Change],
        generation: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        self.planner.make_room();
        self.writer.load(before, |each| self.planner.everything(each), generation, report)
    }

    /// Sets the service port aside whose change was refused, if it was somebody's.
    fn blame(&mut self, failed: &Failed, report: &mut Report) {
        let Some(owner) = &failed.culprit else { return };
        let good = self.unconfirmed.last_good(owner);
        let cause = failed.cause.to_string();
        self.planner.reset(|book, _| book.quarantine(owner, good, cause.clone()));
        report.refused.push(Refused { name: (**owner).clone(), cause });
    }
}
