//! When the rules are written again: not too often, not too seldom, sooner after a failure.
//!
//! In: requests, and the begin and end of each run. Out: [`Next`], what to do now.
//!
//! Invariants
//! - Time is an argument; nothing here reads a clock or waits.
//! - A run starts no earlier than `min` after the end of the run before it. The first run is not delayed.
//! - Requests are not counted: any number of them before a run starts are served by that run, and any number during
//!   a run cause exactly one more.
//! - After a run there is always another, at the latest `max` after its end, or `retry` after one that left something undone. Before the
//!   first request there is none, so nothing is written before the sources are complete.

use std::time::{Duration, Instant};

/// Longest interval that is told from any longer one. It keeps sums with an [`Instant`] in range.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is written.
    Done,
    /// Everything is written but what cannot be served for now. Nobody tells when it can, so it is tried again after the retry interval.
    SetAside,
    /// Something is not; it is tried again after the retry interval.
    Failed,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call [`Pace::started`] and run.
    RunNow,
    /// Ask again at this time, or at the next request if it comes earlier.
    WaitUntil(Instant),
    /// Ask again at the next request.
    WaitForRequest,
    /// A run is going on; ask again when it has finished.
    WaitForFinish,
}

/// The times that the end of a run fixed for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    /// Not before this, even on request.
    opens: Instant,
    /// At this time even without a request.
    closes: Instant,
}

/// Where the runner stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No run yet.
    Fresh,
    /// A run is going on.
    Running,
    /// A run has ended.
    Idle(Window),
}

/// The bounded-frequency runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    min: Duration,
    retry: Duration,
    max: Duration,
    is_requested: bool,
    state: State,
}

impl Pace {
    /// A runner with these intervals between the end of a run and the start of the next. A `max` below `min` counts
    /// as `min`.
    pub fn new(min: Duration, retry: Duration, max: Duration) -> Self {
        let min = min.min(LONGEST);
        let max = max.clamp(min, LONGEST);
        Self { min, retry: retry.min(max), max, is_requested: false, state: State::Fresh }
    }

    /// Asks for a run that starts after this call.
    pub fn request(&mut self) {
        self.is_requested = true;
    }

    /// A run starts now and serves every request made so far.
    pub fn started(&mut self) {
        self.is_requested = false;
        self.state = State::Running;
    }

    /// The run has ended.
    pub fn finished(&mut self, now: Instant, outcome: Outcome) {
        let rest = match outcome {
            Outcome::Done => self.max,
            Outcome::SetAside | Outcome::Failed => self.retry.max(self.min),
        };
        self.state = State::Idle(Window { opens: after(now, self.min), closes: after(now, rest) });
    }

    /// What to do at `now`.
    pub fn next(&self, now: Instant) -> Next {
        let due = match self.state {
            State::Running => return Next::WaitForFinish,
            State::Fresh if self.is_requested => return Next::RunNow,
            State::Fresh => return Next::WaitForRequest,
            State::Idle(window) if self.is_requested => window.opens,
            State::Idle(window) => window.closes,
        };
        if due <= now { Next::RunNow } else { Next::WaitUntil(due) }
    }
}

/// `now + rest`. The intervals are bounded, so the sum exists on every clock that has not run for ages.
fn after(now: Instant, rest: Duration) -> Instant {
    now.checked_add(rest).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// One line of a table: at a time, what happens, and what is to be done after it, in milliseconds.
    enum Step {
        Request,
        Start,
        Finish(Outcome),
        Look,
    }
    use Step::{Finish, Look, Request, Start};

    fn check(pace: &mut Pace, table: &[(u64, Step, &str)]) {
        let epoch = Instant::now();
        for (row, (at, step, want)) in table.iter().enumerate() {
            let now = epoch + ms(*at);
            match step {
                Request => pace.request(),
                Start => pace.started(),
                Finish(outcome) => pace.finished(now, *outcome),
                Look => {}
            }
            let got = match pace.next(now) {
                Next::RunNow => "run".to_owned(),
                Next::WaitForRequest => "request".to_owned(),
                Next::WaitForFinish => "finish".to_owned(),
                Next::WaitUntil(at) => format!("{}", at.duration_since(epoch).as_millis()),
            };
            assert_eq!(got, *want, "row {row} at {at}");
        }
    }

    #[test]
    fn the_first_run_is_not_delayed_and_min_counts_from_the_end() {
        check(
            &mut Pace::new(ms(1_000), ms(30_000), ms(3_600_000)),
            &[
                (0, Look, "request"),
                (10, Request, "run"),
                (10, Start, "finish"),
                (500, Finish(Outcome::Done), "3600500"),
                (600, Request, "1500"),
                (700, Request, "1500"),
                (1_499, Look, "1500"),
                (1_500, Look, "run"),
                (1_501, Start, "finish"),
                (1_600, Finish(Outcome::Done), "3601600"),
                (9_000, Request, "run"),
            ],
        );
    }

    #[test]
    fn a_request_during_a_run_causes_one_more() {
        check(
            &mut Pace::new(ms(100), ms(1_000), ms(9_000)),
            &[
                (0, Request, "run"),
                (0, Start, "finish"),
                (10, Request, "finish"),
                (20, Request, "finish"),
                (50, Finish(Outcome::Done), "150"),
                (150, Look, "run"),
                (150, Start, "finish"),
                (200, Finish(Outcome::Done), "9200"),
                (9_200, Look, "run"),
            ],
        );
    }

    #[test]
    fn after_a_failure_it_is_tried_again_or_runs_on_request() {
        check(
            &mut Pace::new(ms(100), ms(1_000), ms(9_000)),
            &[
                (0, Request, "run"),
                (0, Start, "finish"),
                (50, Finish(Outcome::Failed), "1050"),
                (1_050, Look, "run"),
                (1_050, Start, "finish"),
                (1_060, Finish(Outcome::Failed), "2060"),
                (1_070, Request, "1160"),
                (1_160, Start, "finish"),
                (1_200, Finish(Outcome::Done), "10200"),
            ],
        );
    }

    #[test]
    fn what_is_set_aside_is_tried_again_soon() {
        check(
            &mut Pace::new(ms(100), ms(1_000), ms(9_000)),
            &[
                (0, Request, "run"),
                (0, Start, "finish"),
                (50, Finish(Outcome::SetAside), "1050"),
                (1_050, Start, "finish"),
                (1_060, Finish(Outcome::Done), "10060"),
            ],
        );
    }

    #[test]
    fn odd_intervals_are_put_in_order() {
        // The retry is cut to max; max is raised to min.
        let failed = [(0, Request, "run"), (0, Start, "finish"), (0, Finish(Outcome::Failed), "50")];
        check(&mut Pace::new(ms(10), ms(900), ms(50)), &failed);
        let done = [(0, Request, "run"), (0, Start, "finish"), (0, Finish(Outcome::Done), "80")];
        check(&mut Pace::new(ms(80), ms(10), ms(50)), &done);
        // A retry shorter than min still keeps the distance.
        let early = [(0, Request, "run"), (0, Start, "finish"), (0, Finish(Outcome::Failed), "80")];
        check(&mut Pace::new(ms(80), ms(10), ms(90)), &early);
        // No distance at all: back to back.
        let none = [(0, Request, "run"), (0, Start, "finish"), (0, Request, "finish")];
        let mut pace = Pace::new(ms(0), ms(10), ms(90));
        check(&mut pace, &none);
        check(&mut pace, &[(5, Finish(Outcome::Done), "run")]);
    }

    proptest! {
        #[test]
        fn any_intervals_and_times_are_safe(min: u64, retry: u64, max: u64, at in 0..u64::from(u32::MAX)) {
            let (min, retry, max) = (Duration::from_secs(min), ms(retry), Duration::from_secs(max));
            let mut pace = Pace::new(min, retry, max);
            let now = Instant::now() + ms(at);
            pace.request();
            prop_assert_eq!(pace.next(now), Next::RunNow);
            pace.started();
            pace.finished(now, Outcome::Failed);
            pace.request();
            let due = match pace.next(now) { Next::RunNow => now, Next::WaitUntil(due) => due, other => panic!("{other:?}") };
            prop_assert_eq!(due.duration_since(now), min.min(LONGEST));
        }
    }
}
