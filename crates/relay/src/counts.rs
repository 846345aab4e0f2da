//! What happened, as numbers that only the reader adds up.

use std::sync::atomic::{AtomicU64, Ordering};

/// A snapshot of what all relays of a process did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TCP connections that run.
    pub open_connections: u64,
    /// TCP connections that were accepted.
    pub accepted: u64,
    /// Attempts to reach another target after one failed.
    pub retries: u64,
    /// TCP connections for which no target could be reached.
    pub unreachable: u64,
    /// TCP connections that were refused because the listener has no target, or because of how they came.
    pub refused: u64,
    /// TCP connections and UDP flows that were refused because too many files are open.
    pub out_of_descriptors: u64,
    /// UDP flows that run.
    pub open_flows: u64,
    /// UDP flows that were opened.
    pub flows: u64,
    /// UDP flows that ended early: others needed the room.
    pub evicted_flows: u64,
    /// UDP datagrams that could not be passed on.
    pub lost_datagrams: u64,
}

/// One number.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number of things that come and go.
#[derive(Debug, Default)]
pub(crate) struct Open {
    begun: Tally,
    ended: Tally,
}

impl Open {
    pub(crate) fn begin(&self) {
        self.begun.add();
    }

    pub(crate) fn end(&self) {
        self.ended.add();
    }

    fn now(&self) -> u64 {
        // The end is read first, so that what begins and ends in between is not counted as less than nothing.
        let ended = self.ended.now();
        self.begun.now().saturating_sub(ended)
    }
}

/// Where everybody counts.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    pub(crate) connections: Open,
    pub(crate) retries: Tally,
    pub(crate) unreachable: Tally,
    pub(crate) refused: Tally,
    pub(crate) out_of_descriptors: Tally,
    pub(crate) flows: Open,
    pub(crate) evicted_flows: Tally,
    pub(crate) lost_datagrams: Tally,
}

impl Tallies {
    pub(crate) fn snapshot(&self) -> Counts {
        Counts {
            open_connections: self.connections.now(),
            accepted: self.connections.begun.now(),
            retries: self.retries.now(),
            unreachable: self.unreachable.now(),
            refused: self.refused.now(),
            out_of_descriptors: self.out_of_descriptors.now(),
            open_flows: self.flows.now(),
            flows: self.flows.begun.now(),
            evicted_flows: self.evicted_flows.now(),
            lost_datagrams: self.lost_datagrams.now(),
        }
    }
}
