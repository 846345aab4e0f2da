//! What is measured of one proxy in one round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::options::Extent;
use crate::stage::{Memory, Took};

/// Times are in seconds. What is none was not reached, because something before it was not done in time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Round {
    /// What was to be measured.
    pub(crate) extent: Extent,
    /// Of Switchyard, see [`crate::machine::build`]: figures of two builds are not compared.
    pub(crate) build: String,
    /// Commit and day: figures are kept, so those of one report may come from several runs.
    pub(crate) measured: String,
    /// How it was asked for.
    pub(crate) command: String,
    /// Where, and with what.
    pub(crate) machine: BTreeMap<String, String>,
    /// The part of the processors' time that others used just before.
    pub(crate) busy: f64,
    /// Start of the process until connections through all Services that are looked at are answered.
    pub(crate) first_sync: Option<Took>,
    /// The same by the proxy's own metric.
    pub(crate) first_sync_metric: Option<f64>,
    /// Processor time, children included.
    pub(crate) first_sync_processor: Option<f64>,
    pub(crate) memory: Option<Memory>,
    /// One endpoint replaced through the API, again and again.
    pub(crate) changes: Option<Changes>,
    /// The same if the proxy is told not to pause between syncs.
    pub(crate) changes_without_pause: Option<Changes>,
    pub(crate) memory_after_changes: Option<Memory>,
    pub(crate) churn: Option<Churn>,
    pub(crate) memory_after_churn: Option<Memory>,
    pub(crate) connect: Option<Connect>,
    /// Killed and started again: until it says that rules are written.
    pub(crate) restart: Option<Took>,
    pub(crate) restart_processor: Option<f64>,
}

/// Latencies of single changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// From the request until a new connection goes to the new endpoint.
    pub(crate) seconds: Vec<f64>,
    /// Of it, until the API server's answer.
    pub(crate) api_seconds: Vec<f64>,
    /// One more change was not seen after this time, and was the last one.
    pub(crate) not_after: Option<f64>,
    /// Processor time for all of them.
    pub(crate) processor: f64,
}

/// Many slices changed while connections are made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Churn {
    /// Slices changed a second, as reached.
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    /// From the last change until it is in the kernel.
    pub(crate) settled: Option<Took>,
    pub(crate) processor: f64,
    pub(crate) steady: Connections,
    pub(crate) rolled: Connections,
}

/// Connections to one Service.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Connections {
    pub(crate) made: u32,
    pub(crate) failed: u32,
}

/// Connecting, in microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Connect {
    /// Between pods of a node without rules.
    pub(crate) bare: Quantiles,
    /// To a pod's own address, on the node with the proxy.
    pub(crate) direct: Quantiles,
    /// Through the Service that the kernel finds first.
    pub(crate) first: Quantiles,
    /// Through the one that it finds last.
    pub(crate) last: Quantiles,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Quantiles {
    /// Of values in any order.
    pub(crate) fn of(values: &[f64]) -> Self {
        Self { p50: quantile(values, 0.5), p99: quantile(values, 0.99) }
    }
}

/// The value that this part of all values does not exceed; 0 if there are none.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = sorted.len() as f64 * part;
    let passed = sorted.iter().enumerate().find(|(n, _)| *n as f64 + 1.0 >= below);
    passed.map_or(0.0, |(_, value)| *value)
}
