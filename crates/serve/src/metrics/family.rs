//! Counters, gauges and histograms with a fixed set of series.
//!
//! In: numbers from any thread. Out: samples for [`Exposition`]. A series exists from the start, or never:
//! nothing that comes from outside can make a new one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::text::{Labels, Samples, number};

/// Something that one series holds.
pub(super) trait Metric {
    /// The word after `# TYPE name`.
    const TYPE: &'static str;

    /// Writes the samples of one series.
    fn write(&self, labels: &Labels, samples: &mut Samples<'_>);
}

/// The series of one name, one for each of a few known keys.
pub(super) struct Series<K, M>(Vec<(K, Labels, M)>);

impl<K: Copy + PartialEq, M> Series<K, M> {
    /// One series per key.
    pub(super) fn new(keys: impl IntoIterator<Item = (K, Labels)>, metric: impl Fn() -> M) -> Self {
        Self(keys.into_iter().map(|(key, labels)| (key, labels, metric())).collect())
    }

    /// The series of a key; nothing if the key's family or mode is not in use here.
    pub(super) fn of(&self, key: K) -> Option<&M> {
        self.0.iter().find(|(other, ..)| *other == key).map(|(.., metric)| metric)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Labels, &M)> {
        self.0.iter().map(|(_, labels, metric)| (labels, metric))
    }
}

/// Only grows.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

impl Metric for Counter {
    const TYPE: &'static str = "counter";

    fn write(&self, labels: &Labels, samples: &mut Samples<'_>) {
        samples.integer("", labels, self.0.load(Ordering::Relaxed));
    }
}

/// Holds the last value.
pub(super) struct Gauge(AtomicU64);

impl Gauge {
    /// Starts with 0.
    pub(super) fn zero() -> Self {
        Self(AtomicU64::new(0.0_f64.to_bits()))
    }

    /// Has no sample until it is set: "synced in 1970" would set off every alert on age.
    pub(super) fn unset() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }

    pub(super) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Metric for Gauge {
    const TYPE: &'static str = "gauge";

    fn write(&self, labels: &Labels, samples: &mut Samples<'_>) {
        let value = f64::from_bits(self.0.load(Ordering::Relaxed));
        if !value.is_nan() {
            samples.number("", labels, value);
        }
    }
}

/// Counts durations in buckets, in seconds.
pub(super) struct Histogram {
    buckets: Vec<f64>,
    state: Mutex<Observed>,
}

struct Observed {
    /// Per bucket, not cumulative; one more for what exceeds all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(super) fn new(buckets: Vec<f64>) -> Self {
        let counts = vec![0; buckets.len() + 1];
        Self { buckets, state: Mutex::new(Observed { counts, sum: 0.0 }) }
    }

    pub(super) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.buckets.partition_point(|bound| *bound < seconds);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.sum += seconds;
        if let Some(count) = state.counts.get_mut(bucket) {
            *count += 1;
        }
    }
}

impl Metric for Histogram {
    const TYPE: &'static str = "histogram";

    fn write(&self, labels: &Labels, samples: &mut Samples<'_>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = self.buckets.iter().copied().chain([f64::INFINITY]);
        let mut total = 0;
        for (bound, count) in bounds.zip(&state.counts) {
            total += count;
            samples.integer("_bucket", &labels.with("le", &number(bound)), total);
        }
        samples.number("_sum", labels, state.sum);
        samples.integer("_count", labels, total);
    }
}

/// 0.001 s to 16.384 s, each bound twice the one before.
pub(super) fn sync_buckets() -> Vec<f64> {
    std::iter::successors(Some(0.001), |bound| Some(bound * 2.0)).take(15).collect()
}

/// kube-proxy's bounds for network programming: fine up to a minute, coarse up to five. The zero is kube-proxy's.
pub(super) fn programming_buckets() -> Vec<f64> {
    let seconds = (1..60).chain((60..120).step_by(5)).chain((120..=300).step_by(30)).map(f64::from);
    [0.0, 0.25, 0.5].into_iter().chain(seconds).collect()
}
