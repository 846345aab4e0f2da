//! Names, help texts and series of every metric: one place to compare with kube-proxy's list. Names, types, labels and
//! help texts that start with `kubeproxy_` or `kubernetes_` are kube-proxy's, word for word.

use std::sync::PoisonError;

use switchyard_model::Family;

use crate::health::Probe;

use super::family::{Counter, Gauge, Histogram, Series, programming_buckets, sync_buckets};
use super::text::{Exposition, Labels};
use super::{FailureMetrics, KINDS, MAX_KINDS, Metrics, Mode, OwnMetrics, Scope, SyncMetrics, Table};
use super::{by_family, count, unlabelled};

impl SyncMetrics {
    pub(super) fn new(mode: Mode, families: &[Family]) -> Self {
        let all = || by_family(families);
        let split = || if matches!(mode, Mode::Iptables | Mode::Nftables) { all() } else { Vec::new() };
        let sync_histogram = || Histogram::new(sync_buckets());
        let tables = || {
            let tables: &[_] = if mode == Mode::Iptables { &TABLES } else { &[] };
            by_family_and(families, "table", tables)
        };
        Self {
            duration: Series::new(all(), sync_histogram),
            full_duration: Series::new(split(), sync_histogram),
            partial_duration: Series::new(split(), sync_histogram),
            last: Series::new(all(), Gauge::unset),
            last_queued: Series::new(all(), Gauge::unset),
            programming: Series::new(all(), || Histogram::new(programming_buckets())),
            endpoint_changes_pending: Series::new(unlabelled(), Gauge::zero),
            endpoint_changes: Series::new(unlabelled(), Counter::default),
            service_changes_pending: Series::new(unlabelled(), Gauge::zero),
            service_changes: Series::new(unlabelled(), Counter::default),
            no_local_endpoints: Series::new(by_family_and(families, "traffic_policy", &SCOPES), Gauge::zero),
            iptables_total: Series::new(tables(), Gauge::zero),
            iptables_last: Series::new(tables(), Gauge::zero),
            conntrack_duration: Series::new(all(), sync_histogram),
            conntrack_deleted: Series::new(all(), Counter::default),
        }
    }

    pub(super) fn write_durations(&self, page: &mut Exposition) {
        page.family(
            "kubeproxy_sync_proxy_rules_duration_seconds",
            "[ALPHA] SyncProxyRules latency in seconds",
            &self.duration,
        );
        page.family(
            "kubeproxy_sync_full_proxy_rules_duration_seconds",
            "[ALPHA] SyncProxyRules latency in seconds for full resyncs",
            &self.full_duration,
        );
        page.family(
            "kubeproxy_sync_partial_proxy_rules_duration_seconds",
            "[ALPHA] SyncProxyRules latency in seconds for partial resyncs",
            &self.partial_duration,
        );
        page.family(
            "kubeproxy_network_programming_duration_seconds",
            "[ALPHA] In Cluster Network Programming Latency in seconds",
            &self.programming,
        );
        page.family(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "[ALPHA] ReconcileConntrackFlowsLatency latency in seconds",
            &self.conntrack_duration,
        );
        page.family(
            "kubeproxy_conntrack_reconciler_deleted_entries_total",
            "[ALPHA] Cumulative conntrack flows deleted by conntrack reconciler",
            &self.conntrack_deleted,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "[ALPHA] The last time proxy rules were successfully synced",
            &self.last,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "[ALPHA] The last time a sync of proxy rules was queued",
            &self.last_queued,
        );
    }

    pub(super) fn write_changes(&self, page: &mut Exposition) {
        page.family(
            "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
            "[ALPHA] Pending proxy rules Endpoint changes",
            &self.endpoint_changes_pending,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_endpoint_changes_total",
            "[ALPHA] Cumulative proxy rules Endpoint changes",
            &self.endpoint_changes,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_service_changes_pending",
            "[ALPHA] Pending proxy rules Service changes",
            &self.service_changes_pending,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_service_changes_total",
            "[ALPHA] Cumulative proxy rules Service changes",
            &self.service_changes,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
            "[ALPHA] Number of services with a Local traffic policy and no endpoints",
            &self.no_local_endpoints,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_iptables_total",
            "[ALPHA] Total number of iptables rules owned by kube-proxy",
            &self.iptables_total,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_iptables_last",
            "[ALPHA] Number of iptables rules written by kube-proxy in last sync",
            &self.iptables_last,
        );
    }
}

impl FailureMetrics {
    pub(super) fn new(mode: Mode, families: &[Family]) -> Self {
        let of_modes = |modes: &[Mode]| {
            let families = if modes.contains(&mode) { families } else { &[] };
            Series::new(by_family(families), Counter::default)
        };
        Self {
            restore: of_modes(&[Mode::Iptables, Mode::Ipvs]),
            partial_restore: of_modes(&[Mode::Iptables]),
            nftables_sync: of_modes(&[Mode::Nftables]),
            // What is no longer used goes in the transaction of its sync, so there is no clean-up that could fail alone.
            nftables_cleanup: of_modes(&[Mode::Nftables]),
        }
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        page.family(
            "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
            "[ALPHA] Cumulative proxy iptables restore failures",
            &self.restore,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
            "[ALPHA] Cumulative proxy iptables partial restore failures",
            &self.partial_restore,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
            "[ALPHA] Cumulative proxy nftables sync failures",
            &self.nftables_sync,
        );
        page.family(
            "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
            "[ALPHA] Cumulative proxy nftables cleanup failures",
            &self.nftables_cleanup,
        );
    }
}

impl Metrics {
    pub(super) fn write_packets(&self, page: &mut Exposition) {
        let counts = self.packets.get().map(|count| count()).unwrap_or_default();
        for (name, help, packets) in [
            (
                "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
                "[ALPHA] packets dropped by iptables to work around conntrack problems",
                counts.invalid_dropped,
            ),
            (
                "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
                "[ALPHA] Number of packets accepted on nodeports of loopback interface",
                counts.loopback_accepted,
            ),
        ] {
            page.block(name, "counter", help, |samples| {
                if let Some(packets) = packets {
                    samples.integer("", &Labels::default(), packets);
                }
            });
        }
    }

    pub(super) fn write_probes(&self, page: &mut Exposition) {
        for (probe, series) in &self.probes {
            let (name, help) = match probe {
                Probe::Healthz => {
                    ("kubeproxy_proxy_healthz_total", "[ALPHA] Cumulative proxy healthz HTTP status")
                }
                Probe::Livez => ("kubeproxy_proxy_livez_total", "[ALPHA] Cumulative proxy livez HTTP status"),
            };
            page.family(name, help, series);
        }
    }
}

impl OwnMetrics {
    pub(super) fn write(&self, page: &mut Exposition) {
        page.block("switchyard_build_info", "gauge", "The running version; always 1.", |samples| {
            samples.integer("", &Labels::new("version", &self.version), 1);
        });
        let help = "Objects set aside because something is wrong with them.";
        page.block("switchyard_quarantined_objects", "gauge", help, |samples| {
            let quarantined = self.quarantined.lock().unwrap_or_else(PoisonError::into_inner);
            for kind in KINDS {
                let objects = quarantined.get(kind).copied().unwrap_or(0);
                samples.number("", &Labels::new("kind", kind), count(objects));
            }
            let others = quarantined.iter().filter(|(kind, _)| !KINDS.contains(&&***kind));
            for (kind, objects) in others.take(MAX_KINDS) {
                samples.number("", &Labels::new("kind", kind), count(*objects));
            }
        });
        page.family(
            "switchyard_frontend_conflicts",
            "Frontends that more than one service port wants.",
            &self.frontend_conflicts,
        );
        page.family(
            "switchyard_rules_repaired_total",
            "Rules found missing or altered and put right.",
            &self.rules_repaired,
        );
        page.family(
            "switchyard_planned_service_ports_total",
            "Service ports planned.",
            &self.planned_service_ports,
        );
        page.family("switchyard_kernel_ops_total", "Changes written to the kernel.", &self.kernel_ops);
        let help = "Kubernetes Events lost because there were too many at once, or about one object.";
        page.block("switchyard_events_lost_total", "counter", help, |samples| {
            let lost = self.events_lost.get().map_or(0, |count| count());
            samples.integer("", &Labels::default(), lost);
        });
    }
}

const TABLES: [(Table, &str); 2] = [(Table::Filter, "filter"), (Table::Nat, "nat")];
const SCOPES: [(Scope, &str); 2] = [(Scope::External, "external"), (Scope::Internal, "internal")];

/// Every pair of a label's values and the families, labels in alphabetical order.
pub(super) fn by_family_and<T: Copy>(
    families: &[Family],
    label: &str,
    values: &[(T, &str)],
) -> Vec<((T, Family), Labels)> {
    let pairs = by_family(families).into_iter().flat_map(|(family, labels)| {
        values.iter().map(move |(value, text)| ((*value, family), labels.with(label, text)))
    });
    pairs.collect()
}
