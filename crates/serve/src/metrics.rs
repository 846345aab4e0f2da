//! Metrics: kube-proxy's names, labels and buckets, and a few of our own.
//!
//! In: facts from the loop, through methods named for what happened. Out: [`Metrics::render`], a page in
//! Prometheus text format 0.0.4.
//!
//! Invariants
//! - Names, labels and buckets that start with `kubeproxy_` are a contract with dashboards and alerts.
//! - All series are known when [`Metrics::new`] returns; only the IP families in use have any. They start at 0,
//!   except the times of the last sync and of the last change, which have no sample before there was one.
//! - Reporting never fails and never waits for a reader.
//!
//! Why an encoder of our own? The `prometheus-client` crate writes OpenMetrics: `# TYPE` and `# HELP` carry a
//! counter's name without `_total`, and the page ends with `# EOF`. kube-proxy serves the classic format, where
//! both lines carry the full name, and has gauges whose names end in `_total`. Parsers of the classic format would
//! take our counters for untyped samples.

mod api;
mod family;
mod kubernetes;
mod ledger;
mod names;
pub(crate) mod process;
mod relay;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchyard_model::Family;

use crate::health::{Probe, Verdict};
pub use api::ApiAnswer;
use api::ApiMetrics;
use family::{Counter, Gauge, Histogram, Series};
pub use kubernetes::{Feature, Stage};
use ledger::LedgerMetrics;
pub use ledger::SyncOutcome;
pub use relay::{CountRelayed, RelayCounts};
use text::{Exposition, Labels};

/// Kinds of objects that always have a quarantine sample, so that a cured object is seen to go to 0.
const KINDS: [&str; 3] = ["EndpointSlice", "Node", "Service"];
/// Most kinds on a page; kinds come from input.
const MAX_KINDS: usize = 16;

/// Which metrics of one mode only there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// kube-proxy's iptables mode.
    Iptables,
    /// kube-proxy's nftables mode.
    Nftables,
    /// kube-proxy's ipvs mode.
    Ipvs,
    /// A mode that kube-proxy no longer has.
    Other,
}

/// What a sync wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Everything.
    Full,
    /// Only what changed.
    Partial,
}

/// An iptables table with rules of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `filter`.
    Filter,
    /// `nat`.
    Nat,
}

/// Which traffic policy of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `internalTrafficPolicy`.
    Internal,
    /// `externalTrafficPolicy`.
    External,
}

/// From when on something was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// From the start of the process.
    Start,
    /// From when somebody asked for it. kube-proxy then forgets when it started, too.
    Reset,
}

/// Packets that rules of iptables mode counted. A counter that the kernel does not have is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Dropped because connection tracking calls them invalid.
    pub invalid_dropped: Option<u64>,
    /// Let in for a node port on a loopback address.
    pub loopback_accepted: Option<u64>,
}

/// Asks the kernel for [`PacketCounts`], each time a page is made.
pub type CountPackets = Box<dyn Fn() -> PacketCounts + Send + Sync>;

/// Asks how many Kubernetes Events were lost since the start, each time a page is made.
pub type CountEvents = Box<dyn Fn() -> u64 + Send + Sync>;

/// All metrics of the process.
pub struct Metrics {
    syncs: SyncMetrics,
    failures: FailureMetrics,
    probes: [(Probe, Series<u16, Counter>); 2],
    packets: OnceLock<CountPackets>,
    relay: OnceLock<CountRelayed>,
    features: OnceLock<Vec<Feature>>,
    api: ApiMetrics,
    own: OwnMetrics,
    ledger: LedgerMetrics,
}

struct SyncMetrics {
    duration: Series<Family, Histogram>,
    full_duration: Series<Family, Histogram>,
    partial_duration: Series<Family, Histogram>,
    last: Series<Family, Gauge>,
    last_queued: Series<Family, Gauge>,
    programming: Series<Family, Histogram>,
    endpoint_changes_pending: Series<(), Gauge>,
    endpoint_changes: Series<(), Counter>,
    service_changes_pending: Series<(), Gauge>,
    service_changes: Series<(), Counter>,
    no_local_endpoints: Series<(Scope, Family), Gauge>,
    iptables_total: Series<(Table, Family), Gauge>,
    iptables_last: Series<(Table, Family), Gauge>,
    conntrack_duration: Series<Family, Histogram>,
    conntrack_deleted: Series<Family, Counter>,
}

struct FailureMetrics {
    restore: Series<Family, Counter>,
    partial_restore: Series<Family, Counter>,
    nftables_sync: Series<Family, Counter>,
    nftables_cleanup: Series<Family, Counter>,
}

struct OwnMetrics {
    version: String,
    quarantined: Mutex<BTreeMap<Arc<str>, usize>>,
    frontend_conflicts: Series<(), Gauge>,
    rules_repaired: Series<Family, Counter>,
    planned_service_ports: Series<(), Counter>,
    kernel_ops: Series<Family, Counter>,
    events_lost: OnceLock<CountEvents>,
}

impl Metrics {
    /// The metrics of a process of this version that runs `mode` for `families`.
    pub fn new(mode: Mode, families: &[Family], version: &str) -> Self {
        let code = |verdict: Verdict| {
            let code = verdict.code();
            (code, Labels::new("code", &code.to_string()))
        };
        let codes = || Series::new([Verdict::Ok, Verdict::Unavailable].map(code), Counter::default);
        Self {
            syncs: SyncMetrics::new(mode, families),
            failures: FailureMetrics::new(mode, families),
            probes: [(Probe::Healthz, codes()), (Probe::Livez, codes())],
            packets: OnceLock::new(),
            relay: OnceLock::new(),
            features: OnceLock::new(),
            api: ApiMetrics::default(),
            ledger: LedgerMetrics::new(families),
            own: OwnMetrics {
                version: version.to_owned(),
                quarantined: Mutex::default(),
                frontend_conflicts: Series::new(unlabelled(), Gauge::zero),
                rules_repaired: Series::new(by_family(families), Counter::default),
                planned_service_ports: Series::new(unlabelled(), Counter::default),
                kernel_ops: Series::new(by_family(families), Counter::default),
                events_lost: OnceLock::new(),
            },
        }
    }

    /// A sync ended, well or not.
    pub fn sync_finished(&self, family: Family, kind: SyncKind, took: Duration) {
        let of_kind = match kind {
            SyncKind::Full => &self.syncs.full_duration,
            SyncKind::Partial => &self.syncs.partial_duration,
        };
        for series in [&self.syncs.duration, of_kind] {
            observe(series, family, took);
        }
    }

    /// A sync succeeded at this time.
    pub fn sync_succeeded(&self, family: Family, at: SystemTime) {
        set(&self.syncs.last, family, unix_seconds(at));
    }

    /// A sync was asked for, or the sync loop started, at this time.
    pub fn sync_queued(&self, family: Family, at: SystemTime) {
        set(&self.syncs.last_queued, family, unix_seconds(at));
    }

    /// A change of endpoints is in force, so long after it was made.
    pub fn network_programmed(&self, family: Family, latency: Duration) {
        observe(&self.syncs.programming, family, latency);
    }

    /// So many EndpointSlice events came.
    pub fn endpoints_changed(&self, events: u64) {
        add(&self.syncs.endpoint_changes, (), events);
    }

    /// So many changes of EndpointSlices wait for a sync.
    pub fn endpoint_changes_pending(&self, changes: usize) {
        set(&self.syncs.endpoint_changes_pending, (), count(changes));
    }

    /// So many Service events came.
    pub fn services_changed(&self, events: u64) {
        add(&self.syncs.service_changes, (), events);
    }

    /// So many changed Services wait for a sync.
    pub fn service_changes_pending(&self, services: usize) {
        set(&self.syncs.service_changes_pending, (), count(services));
    }

    /// So many service ports have a Local policy and endpoints, but none on this node.
    pub fn no_local_endpoints(&self, family: Family, scope: Scope, service_ports: usize) {
        set(&self.syncs.no_local_endpoints, (scope, family), count(service_ports));
    }

    /// A table is about to hold `total` rules of ours, of which `written` are in this restore.
    pub fn iptables_rules(&self, family: Family, table: Table, total: usize, written: usize) {
        set(&self.syncs.iptables_total, (table, family), count(total));
        set(&self.syncs.iptables_last, (table, family), count(written));
    }

    /// iptables-restore failed during a sync of this kind.
    pub fn restore_failed(&self, family: Family, kind: SyncKind) {
        add(&self.failures.restore, family, 1);
        if kind == SyncKind::Partial {
            add(&self.failures.partial_restore, family, 1);
        }
    }

    /// The nftables transaction of a sync failed.
    pub fn nftables_sync_failed(&self, family: Family) {
        add(&self.failures.nftables_sync, family, 1);
    }

    /// Stale flows were looked for, and so many deleted.
    pub fn conntrack_reconciled(&self, family: Family, took: Duration, deleted: u64) {
        observe(&self.syncs.conntrack_duration, family, took);
        add(&self.syncs.conntrack_deleted, family, deleted);
    }

    /// Where packets are counted. Only the first call counts.
    pub fn packets_counted(&self, count: CountPackets) {
        // A second caller would be a mistake without harm.
        let _ = self.packets.set(count);
    }

    /// Which feature gates there are. Only the first call counts.
    pub fn features(&self, features: Vec<Feature>) {
        let _ = self.features.set(features);
    }

    /// The API server answered, or did not.
    pub fn api_answered(&self, answer: &ApiAnswer<'_>) {
        self.api.answered(answer);
    }

    /// A health probe was answered.
    pub fn probed(&self, probe: Probe, verdict: Verdict) {
        if let Some((_, series)) = self.probes.iter().find(|(other, _)| *other == probe) {
            add(series, verdict.code(), 1);
        }
    }

    /// How many objects of each kind are set aside now. Kinds that are not named have none.
    pub fn quarantined(&self, by_kind: BTreeMap<Arc<str>, usize>) {
        *self.own.quarantined.lock().unwrap_or_else(PoisonError::into_inner) = by_kind;
    }

    /// How many frontends are wanted by more than one service port now.
    pub fn frontend_conflicts(&self, frontends: usize) {
        set(&self.own.frontend_conflicts, (), count(frontends));
    }

    /// So many rules were found missing or altered and put right.
    pub fn rules_repaired(&self, family: Family, rules: u64) {
        add(&self.own.rules_repaired, family, rules);
    }

    /// So many service ports were planned.
    pub fn planned_service_ports(&self, service_ports: u64) {
        add(&self.own.planned_service_ports, (), service_ports);
    }

    /// So many changes were written to the kernel.
    pub fn kernel_ops(&self, family: Family, ops: u64) {
        add(&self.own.kernel_ops, family, ops);
    }

    /// Where lost Events are counted; 0 without it. Only the first call counts.
    pub fn events_lost(&self, count: CountEvents) {
        let _ = self.own.events_lost.set(count);
    }

    /// The page.
    pub fn render(&self) -> String {
        let mut page = Exposition::default();
        self.syncs.write_durations(&mut page);
        self.syncs.write_changes(&mut page);
        self.failures.write(&mut page);
        self.write_probes(&mut page);
        self.write_packets(&mut page);
        self.api.write(&mut page);
        kubernetes::write(&mut page, &self.own.version, self.features.get().map_or(&[], Vec::as_slice));
        self.own.write(&mut page);
        self.ledger.write(&mut page);
        relay::write(&mut page, self.relay.get());
        process::write(&mut page);
        page.finish()
    }

    /// The page of `/metrics/slis`: how often the health check of the metrics server was evaluated.
    pub(crate) fn render_slis(checks: u64, since: Since) -> String {
        let mut page = Exposition::default();
        kubernetes::write_health_checks(&mut page, checks);
        if since == Since::Start {
            process::write_start_time(&mut page);
        }
        page.finish()
    }
}

fn add<K: Copy + PartialEq>(series: &Series<K, Counter>, key: K, n: u64) {
    if let Some(counter) = series.of(key) {
        counter.add(n);
    }
}

fn set<K: Copy + PartialEq>(series: &Series<K, Gauge>, key: K, value: f64) {
    if let Some(gauge) = series.of(key) {
        gauge.set(value);
    }
}

fn observe<K: Copy + PartialEq>(series: &Series<K, Histogram>, key: K, duration: Duration) {
    if let Some(histogram) = series.of(key) {
        histogram.observe(duration);
    }
}

/// A count as a sample. Counts beyond 2^32 do not occur; they would read as 2^32.
fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn unix_seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn unlabelled() -> [((), Labels); 1] {
    [((), Labels::default())]
}

fn by_family(families: &[Family]) -> Vec<(Family, Labels)> {
    families.iter().map(|family| (*family, Labels::new("ip_family", family.as_str()))).collect()
}
