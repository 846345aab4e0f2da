//! The change ledger as metrics: how syncs ended, and how long changes waited.

use std::time::Duration;

use switchyard_model::Family;

use super::family::{Counter, Histogram, Series, sync_buckets};
use super::names::by_family_and;
use super::text::Exposition;
use super::{Metrics, add, by_family, observe};

/// How a sync ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The kernel holds what was planned.
    Written,
    /// The same, but for service ports that it refused.
    SetAside,
    /// It does not.
    Failed,
}

const OUTCOMES: [(SyncOutcome, &str); 3] = [
    (SyncOutcome::Failed, "failed"),
    (SyncOutcome::SetAside, "set_aside"),
    (SyncOutcome::Written, "written"),
];

pub(super) struct LedgerMetrics {
    syncs: Series<(SyncOutcome, Family), Counter>,
    latency: Series<Family, Histogram>,
}

impl LedgerMetrics {
    pub(super) fn new(families: &[Family]) -> Self {
        Self {
            syncs: Series::new(by_family_and(families, "outcome", &OUTCOMES), Counter::default),
            latency: Series::new(by_family(families), || Histogram::new(sync_buckets())),
        }
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        page.family(
            "switchyard_syncs_total",
            "Syncs that wrote to the kernel, by how they ended.",
            &self.syncs,
        );
        page.family(
            "switchyard_change_latency_seconds",
            "From when the first change of a sync was seen to when the kernel had it.",
            &self.latency,
        );
    }
}

impl Metrics {
    /// A sync ended, this long after the first of its changes was seen.
    pub fn sync_recorded(&self, family: Family, outcome: SyncOutcome, latency: Option<Duration>) {
        add(&self.ledger.syncs, (outcome, family), 1);
        if let Some(latency) = latency.filter(|_| outcome != SyncOutcome::Failed) {
            observe(&self.ledger.latency, family, latency);
        }
    }
}
