//! Network-programming latency: how long after its cause a change of endpoints is in force.
//!
//! In: when causes happened, by the clocks of other machines. Out: latencies, once the kernel has the change.
//!
//! Invariants
//! - Only causes since the start count: what is older was in force long before, on this node by another process.
//! - Wall clocks jump, and those of two machines differ. A latency is longer than nothing and not longer than this process
//!   runs by the steady clock; what cannot be true is left out, as no bucket could be right for it.
//! - Memory is bounded, however long the kernel refuses.

use std::time::{Duration, SystemTime};

use switchyard_serve::Moment;

/// So far may the other machine's clock be ahead of ours.
const SKEW: Duration = Duration::from_secs(10);
/// More causes than this are not measured.
const MAX_WAITING: usize = 65_536;

/// Causes of changes that are not in force yet.
#[derive(Debug)]
pub(super) struct Triggers {
    started: Moment,
    waiting: Vec<SystemTime>,
}

impl Triggers {
    /// No causes yet.
    pub(super) fn new(started: Moment) -> Self {
        Self { started, waiting: Vec::new() }
    }

    /// Remembers when causes happened.
    pub(super) fn add(&mut self, causes: impl Iterator<Item = SystemTime>, now: Moment) {
        let room = MAX_WAITING.saturating_sub(self.waiting.len());
        let started = self.started;
        self.waiting.extend(causes.filter(|at| latency(*at, now, started).is_some()).take(room));
    }

    /// Everything is in force now.
    pub(super) fn done(&mut self, now: Moment) -> Vec<Duration> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().filter_map(|at| latency(at, now, self.started)).collect()
    }
}

/// How long ago something happened; nothing if it cannot be told.
fn latency(at: SystemTime, now: Moment, started: Moment) -> Option<Duration> {
    match now.wall().duration_since(at) {
        Ok(ago) => (ago <= now.since(started)).then_some(ago),
        Err(ahead) => (ahead.duration() <= SKEW).then_some(Duration::ZERO),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const HOUR: u64 = 3600;
    const NOTHING: [u64; 0] = [];

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The wall clock of the API server, which does not jump.
    fn truth(at: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + seconds(1_700_000_000 + at)
    }

    /// Our clocks after so many seconds, when the wall clock is so many seconds away from the truth.
    fn ours(began: Instant, at: u64, off: i64) -> Moment {
        let wall = truth(at);
        let off_by = seconds(off.unsigned_abs());
        Moment::new(began + seconds(at), if off < 0 { wall - off_by } else { wall + off_by })
    }

    /// What is measured of a cause `cause` that is heard of at 100 and in force at 103 seconds, while our wall clock is off by
    /// this much at the start, at 100 and at 103.
    fn measured(cause: u64, off: [i64; 3]) -> Vec<u64> {
        let began = Instant::now();
        let mut triggers = Triggers::new(ours(began, 10, off[0]));
        triggers.add([truth(cause)].into_iter(), ours(began, 100, off[1]));
        triggers.done(ours(began, 103, off[2])).iter().map(Duration::as_secs).collect()
    }

    #[test]
    fn latency_is_the_time_since_the_cause() {
        assert_eq!(measured(98, [0, 0, 0]), [5]);
        assert_eq!(measured(10, [0, 0, 0]), [93], "at the very start");
        assert_eq!(measured(9, [0, 0, 0]), NOTHING, "before the start");
        assert_eq!(measured(98, [0, -5, -8]), [0], "our clock is a little late");
    }

    #[test]
    fn a_clock_that_jumps_never_gives_an_absurd_latency() {
        let hours = 7 * i64::try_from(HOUR).unwrap();
        for off in [[0, 0, hours], [0, hours, hours], [0, 0, -hours], [0, -hours, -hours]] {
            assert_eq!(measured(98, off), NOTHING, "{off:?}");
        }
        // A clock that was wrong at the start and was put right: what comes later is measured at once.
        for wrong in [hours, -hours] {
            assert_eq!(measured(98, [wrong, 0, 0]), [5], "{wrong}");
        }
    }

    #[test]
    fn times_at_the_ends_of_the_clock_do_no_harm() {
        let began = Instant::now();
        let mut triggers = Triggers::new(Moment::new(began, SystemTime::UNIX_EPOCH));
        let ends = [SystemTime::UNIX_EPOCH - seconds(9), SystemTime::UNIX_EPOCH, truth(1 << 33)];
        triggers.add(ends.into_iter(), Moment::new(began, SystemTime::UNIX_EPOCH - seconds(HOUR)));
        triggers.add(ends.into_iter(), ours(began, 50, 0));
        assert_eq!(triggers.done(ours(began, 60, 0)).len(), 0);
    }

    #[test]
    fn memory_is_bounded_while_nothing_is_in_force() {
        let now = ours(Instant::now(), 10, 0);
        let mut triggers = Triggers::new(now);
        for _ in 0..3 {
            triggers.add(std::iter::repeat_n(truth(10), MAX_WAITING / 2 + 1), now);
        }
        assert_eq!(triggers.done(now).len(), MAX_WAITING);
        assert_eq!(triggers.done(now).len(), 0);
    }
}
