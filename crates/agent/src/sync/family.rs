//! One family: sync, and what follows a sync that succeeded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

use ipnet::IpNet;
use switchyard_apply::diff::Difference;
use switchyard_apply::report::{Failure, Kind, Progress, Report};
use switchyard_apply::{Mode, flows};
use switchyard_model::{Family, ServiceName, ServicePortName};
use switchyard_netlink::conntrack::Conntrack;
use switchyard_netlink::route::Routes;
use switchyard_plan::book::{Book, PortChanges, Replaced};
use switchyard_plan::explain::{Explanation, Manners};
use switchyard_plan::health::health_checks;
use switchyard_plan::route::Frontend;
use switchyard_plan::settings::Settings;
use switchyard_plan::stale;
use switchyard_plan::trace::Packet;
use switchyard_serve::Moment;
use switchyard_serve::health::ProxyHealth;
use switchyard_serve::metrics::{Metrics, Scope, SyncKind, Table};
use switchyard_serve::service_health::{HealthCheck, Moved, ServiceHealth};

use super::triggers::Triggers;
use crate::ledger::{self, Entry, Ledger, Seen, Subjects};
use crate::notices::Notices;
use crate::settings::health_check_addresses;

/// A sync that takes longer than this says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// The sync failed; it has been told.
#[derive(Debug)]
pub struct Failed;

/// Whether health-check ports have to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HealthPorts {
    Stale,
    Current,
}

/// See the module.
pub struct FamilySync {
    family: Family,
    mode: Box<dyn Mode>,
    health_ports: ServiceHealth,
    health_state: HealthPorts,
    conntrack: Option<Conntrack>,
    /// The first reconcile looks at everything: Services may have gone while nobody looked.
    has_reconciled: bool,
    /// When the causes of uncommitted endpoint changes happened.
    triggers: Triggers,
    last_failure: Option<String>,
    notices: Notices,
}

impl FamilySync {
    /// Nothing written yet.
    pub fn new(family: Family, mode: Box<dyn Mode>, health_ports: ServiceHealth, notices: Notices) -> Self {
        Self {
            family,
            mode,
            health_ports,
            health_state: HealthPorts::Stale,
            conntrack: None,
            has_reconciled: false,
            triggers: Triggers::new(Moment::now()),
            last_failure: None,
            notices,
        }
    }

    /// Its family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// What should be served.
    pub fn book(&self) -> &Book {
        self.mode.book()
    }

    /// What the mode does with packets beyond routes.
    pub fn manners(&self) -> Manners<'_> {
        self.mode.manners()
    }

    /// What the kernel holds against what it should hold.
    pub fn difference(&self) -> Result<Difference, Failure> {
        self.mode.difference()
    }

    /// Where clients of this host dial the frontends of a service port instead.
    pub fn stand_ins(&self, port: &ServicePortName) -> Vec<(Frontend, SocketAddr)> {
        self.mode.stand_ins(port)
    }

    /// What in the kernel carries a packet that was explained, or refuses it.
    pub fn means(&self, explanation: &Explanation<'_>, packet: &Packet) -> Vec<String> {
        self.mode.means(explanation, packet)
    }

    /// Service ports with more endpoints than the mode can serve, and how many get no traffic for it.
    pub fn left_out(&self) -> &BTreeMap<ServicePortName, usize> {
        self.mode.left_out()
    }

    /// Service ports of which something cannot be served, and why.
    pub fn set_aside(&self) -> &BTreeMap<ServicePortName, String> {
        self.mode.set_aside()
    }

    /// Replaces facts and wishes.
    pub fn settle(&mut self, settings: Settings) {
        let moved = self.health_ports.listen_on(health_check_addresses(&settings));
        if moved == Moved::Yes || self.book().settings().node_name != settings.node_name {
            self.health_state = HealthPorts::Stale;
        }
        self.mode.settle(settings);
    }

    /// Replaces the ranges of cluster IPs.
    pub fn allocate_from(&mut self, ranges: &[IpNet]) {
        self.mode.allocate_from(ranges);
    }

    /// Somebody else changed our rules.
    pub fn distrust(&mut self) {
        self.mode.distrust();
    }

    /// Remembers when the causes of these changes happened.
    pub fn add_triggers(&mut self, triggers: &BTreeMap<ServiceName, Vec<(Family, SystemTime)>>) {
        let mine = triggers.values().flatten().filter(|(family, _)| *family == self.family);
        self.triggers.add(mine.map(|(_, at)| *at), Moment::now());
    }

    /// Brings the kernel up to date. `seen` is when the first of the changes was.
    pub fn run(
        &mut self,
        ports: PortChanges,
        seen: Option<Seen>,
        health: &ProxyHealth,
        metrics: &Metrics,
        ledger: &mut Ledger,
    ) -> Result<(), Failed> {
        let began = Instant::now();
        if ports.is_empty() && !self.mode.needs_full_sync(began) {
            // The change was for the other family, or only for what the Node says: nothing waits any more.
            metrics.sync_succeeded(self.family, SystemTime::now());
            health.updated(self.family, Moment::now());
            return Ok(());
        }
        let subjects = Subjects::of(&ports);
        let report = self.mode.sync(began, ports, &mut progress(self.family));
        let took = began.elapsed();
        let entry = self.entry(subjects, &report, seen, took);
        metrics.sync_recorded(self.family, entry.outcome.kind(), entry.latency);
        // A further try at what could not be served, with nothing new, is not what people look for.
        if entry.subjects.total > 0 || !report.is_idle() {
            ledger.add(entry);
        }
        self.measure(&report, took, metrics);
        if let Some(failure) = &report.failure {
            let text = with_causes(failure);
            health.failed(self.family, &text, Moment::now());
            if self.last_failure.as_ref() != Some(&text) {
                self.notices.sync_failed(self.family, &text);
                tracing::error!(family = %self.family, cause = %text, "sync failed; rules stay as they are and it is tried again");
            }
            self.last_failure = Some(text);
            return Err(Failed);
        }
        if self.last_failure.take().is_some() {
            tracing::info!(family = %self.family, "sync works again");
        }
        self.tell(&report, took);
        self.reconcile_flows(&report.confirmed, metrics);
        self.sync_health_ports(&report.confirmed);
        for latency in self.triggers.done(Moment::now()) {
            metrics.network_programmed(self.family, latency);
        }
        metrics.sync_succeeded(self.family, SystemTime::now());
        health.updated(self.family, Moment::now());
        Ok(())
    }

    fn entry(&self, subjects: Subjects, report: &Report, seen: Option<Seen>, took: Duration) -> Entry {
        let seen = seen.filter(|_| subjects.total > 0);
        let outcome = match &report.failure {
            Some(failure) => ledger::Outcome::Failed(with_causes(failure)),
            None if report.refused.is_empty() => ledger::Outcome::Written,
            None => ledger::Outcome::SetAside(report.refused.len()),
        };
        Entry {
            number: 0,
            family: self.family,
            subjects,
            kind: report.kind,
            seen: seen.map(|seen| seen.wall),
            committed: SystemTime::now(),
            latency: seen.map(|seen| seen.monotonic.elapsed()),
            took,
            operations: report.lines,
            outcome,
        }
    }

    fn measure(&self, report: &Report, took: Duration, metrics: &Metrics) {
        let kind = match report.kind {
            Kind::Full => SyncKind::Full,
            Kind::Partial => SyncKind::Partial,
        };
        metrics.sync_finished(self.family, kind, took);
        metrics.planned_service_ports(count(report.planned));
        metrics.kernel_ops(self.family, count(report.lines));
        for _ in 0..report.failed_restores {
            // Each is shown in its own mode only.
            metrics.restore_failed(self.family, kind);
            metrics.nftables_sync_failed(self.family);
        }
        let counts = self.mode.counts();
        metrics.iptables_rules(self.family, Table::Filter, counts.filter, report.rules.filter);
        metrics.iptables_rules(self.family, Table::Nat, counts.nat, report.rules.nat);
        metrics.no_local_endpoints(self.family, Scope::Internal, counts.silent_internal);
        metrics.no_local_endpoints(self.family, Scope::External, counts.silent_external);
    }

    fn tell(&self, report: &Report, took: Duration) {
        let ports = self.book().ports().len();
        match report.kind {
            Kind::Full => tracing::info!(
                family = %self.family, service_ports = ports, lines = report.lines, restores = report.restores, ?took,
                "full sync done"
            ),
            Kind::Partial => tracing::debug!(
                family = %self.family, planned = report.planned, lines = report.lines, ?took, "partial sync done"
            ),
        }
    }

    /// Removes stale flows. A failure costs some clients their flow until it times out, but the rules are right: it
    /// is told and does not fail the sync.
    fn reconcile_flows(&mut self, confirmed: &[Replaced], metrics: &Metrics) {
        let leaves_flows = |r: &Replaced| r.name.protocol.leaves_stale_flows();
        if self.has_reconciled && !confirmed.iter().any(leaves_flows) {
            return;
        }
        let Some(book) = self.mode.translated() else { return };
        let began = Instant::now();
        let mut addresses = node_addresses();
        addresses.retain(|ip| book.settings().serves_node_ports_on(*ip));
        let expected = if self.has_reconciled {
            stale::of_changes(book, confirmed, addresses)
        } else {
            stale::of_everything(book, addresses)
        };
        if expected.is_empty() {
            self.has_reconciled = true;
            return;
        }
        let conntrack = match &mut self.conntrack {
            Some(open) => Ok(open),
            none => Conntrack::open().map(|open| none.insert(open)),
        };
        match conntrack.and_then(|conntrack| flows::reconcile(conntrack, self.family, &expected)) {
            Ok(done) => {
                self.has_reconciled = true;
                metrics.conntrack_reconciled(self.family, began.elapsed(), done.deleted);
                if done.deleted > 0 {
                    tracing::info!(family = %self.family, deleted = done.deleted, seen = done.seen, "removed stale flows");
                }
            }
            Err(error) => {
                self.conntrack = None;
                tracing::warn!(family = %self.family, cause = %with_causes(&error), "cannot remove stale UDP flows; clients may talk to endpoints that are gone until their flows time out");
            }
        }
    }

    fn sync_health_ports(&mut self, confirmed: &[Replaced]) {
        let has_port = |r: &Replaced| r.old.iter().chain(&r.new).any(|p| p.health_check_node_port.is_some());
        if self.health_state == HealthPorts::Current && !confirmed.iter().any(has_port) {
            return;
        }
        let book = self.mode.book();
        let wanted = health_checks(&book.settings().node_name, book.ports().values());
        let check = |c: switchyard_plan::health::HealthCheck| HealthCheck {
            port: c.port,
            local_endpoints: c.local_endpoints,
        };
        let wanted = wanted.into_iter().map(|(name, c)| (name, check(c))).collect();
        let errors = self.health_ports.sync(&wanted);
        for error in &errors {
            self.notices.no_health_check(&error.service, with_causes(error));
            tracing::warn!(family = %self.family, cause = %with_causes(error), "a health-check node port is not open; it is tried again with the next sync");
        }
        self.health_state = if errors.is_empty() { HealthPorts::Current } else { HealthPorts::Stale };
    }
}

fn progress(family: Family) -> impl FnMut(Progress) {
    let mut last = Instant::now();
    move |progress| {
        if last.elapsed() >= PROGRESS_EVERY && progress.total > 1 {
            last = Instant::now();
            tracing::info!(%family, "writing rules: step {} of {}", progress.done, progress.total);
        }
    }
}

/// All addresses of this node; none if they cannot be listed, so that no node-port flow is judged.
fn node_addresses() -> BTreeSet<IpAddr> {
    let listed = Routes::open().and_then(|mut routes| routes.addresses());
    listed.map(|list| list.into_iter().map(|a| a.address).collect()).unwrap_or_default()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// An error with its causes, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
