//! ipvs mode for one family: obeys the planner, step by step.
//!
//! In: changes of service ports. Out: a [`Report`] of what was written, set aside or failed.
//!
//! Invariants
//! - Steps come in the planner's order, so that a failure or the end of the process at any point harms no connection.
//! - At the start, whenever the kernel is not trusted, and once per sync period, everything is read back and only differences
//!   are written. IPVS tells nobody of changes, so looking is the only way to notice them.
//! - A service port that the kernel refuses is set aside; all others are written.

use std::time::{Duration, Instant};

use switchyard_model::Family;
use switchyard_netlink::ipvs::Ipvs;
use switchyard_netlink::nftables::{Generation, Nft};
use switchyard_netlink::route::Routes;
use switchyard_netlink::socket::Membership;
use switchyard_plan::book::{Book, PortChanges};
use switchyard_plan::explain::{Explanation, Manners};
use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::ipvs::Config;
use switchyard_plan::ipvs::planner::{Held, Planner};
use switchyard_plan::ipvs::steps::Steps;
use switchyard_plan::nft::ops::Change;
use switchyard_plan::settings::Settings;
use switchyard_plan::trace::Packet;

use super::kernel::{Kernel, id};
use super::retired::Retired;
use crate::diff::Difference;
use crate::nft::Layout;
use crate::nft::observe::{self, Observed};
use crate::nft::tries::{Outcome, Race, try_until_written};
use crate::nft::writer::{Failed, Writer};
use crate::report::{Failure, Kind, Progress, Refused, Report};
use crate::unconfirmed::{Trust, Unconfirmed};

/// The sockets that this mode writes through.
#[derive(Debug)]
pub struct Sockets {
    /// Virtual servers.
    pub ipvs: Ipvs,
    /// Addresses.
    pub routes: Routes,
    /// The table.
    pub nft: Nft,
}

/// See the module.
#[derive(Debug)]
pub struct IpvsMode {
    writer: Writer,
    kernel: Kernel,
    planner: Planner,
    trust: Trust,
    retired: Retired,
    unconfirmed: Unconfirmed,
    /// When everything was read back for the last time.
    looked: Option<Instant>,
    period: Duration,
}

impl IpvsMode {
    /// A mode that has written nothing yet, and reads everything back once per `period`.
    pub fn new(sockets: Sockets, planner: Planner, period: Duration) -> Self {
        let family = planner.book().settings().family;
        Self {
            writer: Writer::new(sockets.nft, family, Layout::IPVS),
            kernel: Kernel::new(sockets.ipvs, sockets.routes, family),
            planner,
            trust: Trust::Unknown,
            retired: Retired::default(),
            unconfirmed: Unconfirmed::default(),
            looked: None,
            period,
        }
    }

    /// Who listens to changes of nf_tables: it need not hear of large writes of our own.
    #[must_use]
    pub fn heard_by(mut self, listener: Membership) -> Self {
        self.writer.heard_by(listener);
        self
    }

    fn family(&self) -> Family {
        self.planner.book().settings().family
    }

    fn is_look_due(&self, now: Instant) -> bool {
        self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= self.period)
    }
}

impl crate::Mode for IpvsMode {
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

    /// Comes with news of the node, so its addresses are looked at as well: node ports need a virtual server at each.
    fn settle(&mut self, settings: Settings) {
        if *self.book().settings() != settings {
            self.planner.reset(|book, _| book.settle(settings));
            self.trust = Trust::Unknown;
        }
        if self.kernel.addresses().map_or(true, |found| found.own != self.planner.config().own) {
            self.trust = Trust::Unknown;
        }
    }

    fn manners(&self) -> Manners<'_> {
        let Config { scheduler, own, .. } = self.planner.config();
        Manners::Balanced { scheduler, own }
    }

    fn difference(&self) -> Result<Difference, Failure> {
        let waits = |server, to| self.retired.has(id(server), to);
        super::diff::difference(&self.planner, waits).map_err(Failure::Netlink)
    }

    fn means(&self, explanation: &Explanation<'_>, packet: &Packet) -> Vec<String> {
        self.planner.means(explanation, packet)
    }

    fn distrust(&mut self) {
        self.trust = Trust::Unknown;
    }

    fn needs_full_sync(&self, now: Instant) -> bool {
        self.trust == Trust::Unknown || self.is_look_due(now) || self.retired.is_due(now)
    }

    fn sync(&mut self, now: Instant, changes: PortChanges, _progress: &mut dyn FnMut(Progress)) -> Report {
        let mut report = Report::new(Kind::Partial);
        let was_known = self.trust == Trust::Known;
        let partial = self.planner.partial(changes);
        self.unconfirmed.add(partial.replaced);
        report.planned += partial.planned;
        if was_known {
            // If it is refused, another program may have been here: nobody is blamed before that is known.
            let written = self
                .writer
                .generation_for(&partial.steps.rules)
                .map_err(Failed::from)
                .and_then(|generation| self.write(&partial.steps, generation, &mut report))
                .and_then(|()| self.look_at_retired(now, &mut report));
            if written.is_ok() && !self.writer.take_doubt() && !self.is_look_due(now) {
                return self.finish(report);
            }
            self.trust = if written.is_ok() { Trust::Known } else { Trust::Unknown };
        }
        let before = report.lines;
        self.full(&mut report);
        self.looked = Some(now);
        self.retired.looked(now);
        // A look that found all in order is not worth telling.
        if !was_known || report.lines > before || report.failure.is_some() {
            report.kind = Kind::Full;
        }
        self.finish(report)
    }
}

impl IpvsMode {
    fn finish(&mut self, mut report: Report) -> Report {
        self.trust = Trust::after(&report);
        self.unconfirmed.confirm(&mut report);
        report
    }

    fn look_at_retired(&mut self, now: Instant, report: &mut Report) -> Result<(), Failed> {
        if !self.retired.is_due(now) {
            return Ok(());
        }
        self.retired.looked(now);
        self.kernel.look_at_retired(&mut self.retired, report)
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
        let addresses = self.kernel.addresses()?;
        if self.planner.config().own != addresses.own {
            self.planner.reset(|_, config| config.own = addresses.own);
        }
        let generation = Some(self.writer.nft().generation()?).filter(|_| race == Race::Avoided);
        let chains = self.planner.chains();
        let observed = observe::observe(self.writer.nft(), family, Layout::IPVS, &chains)?;
        report.planned += self.planner.book().ports().len();
        let wanted = self.planner.servers();
        let servers = self.kernel.servers(|server| wanted.contains_key(server))?;
        let mut held = Held { table: None, servers, addresses: addresses.on_link };
        let mut generation = generation;
        match observed {
            // Chains that we never had can only lead where they should not.
            Observed::Table(table)
                if table.clients.is_empty() && table.chains.keys().all(|name| chains.contains_key(name)) =>
            {
                held.table = Some(table);
            }
            Observed::Nothing => {
                self.load(&[], generation, report)?;
                generation = None;
            }
            Observed::Table(_) | Observed::Foreign => {
                self.load(&[Change::DeleteTable], generation, report)?;
                generation = None;
            }
        }
        let steps = self.planner.repair(&held);
        self.write(&steps, generation, report).inspect_err(|failed| self.blame(failed, report))
    }

    /// The first write of the table, after `before`.
    fn load(
        &mut self,
        before: &[Change],
        generation: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        let written = self.writer.load(before, |each| self.planner.everything(each), generation, report);
        written.inspect_err(|failed| self.blame(failed, report))
    }

    fn write(
        &mut self,
        steps: &Steps,
        generation: Option<Generation>,
        report: &mut Report,
    ) -> Result<(), Failed> {
        self.writer.write(&steps.rules, generation, report)?;
        self.kernel.grow(&steps.grow, &mut self.retired, report)?;
        self.kernel.shrink(&steps.shrink, &mut self.retired, report)?;
        self.writer.write(&steps.forget, None, report)
    }

    /// Sets the service port aside whose step was refused, if it was somebody's.
    fn blame(&mut self, failed: &Failed, report: &mut Report) {
        let Some(owner) = &failed.culprit else { return };
        let good = self.unconfirmed.last_good(owner);
        let cause = match &failed.cause {
            Failure::Step { errno, .. } => format!("{}: {errno}", failed.cause),
            other => other.to_string(),
        };
        self.planner.reset(|book, _| book.quarantine(owner, good, cause.clone()));
        report.refused.push(Refused { name: (**owner).clone(), cause });
    }
}
