//! A point in time on both clocks.

use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;

/// How the API server's libraries print a time that was never set.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// A point in time: the steady clock measures delays, so that a stepped wall clock makes nobody unhealthy; the
/// wall clock is what people read.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    steady: Instant,
    wall: SystemTime,
}

impl Moment {
    /// A moment from both clocks.
    pub fn new(steady: Instant, wall: SystemTime) -> Self {
        Self { steady, wall }
    }

    /// This moment.
    pub fn now() -> Self {
        Self::new(Instant::now(), SystemTime::now())
    }

    /// The wall clock's reading.
    pub fn wall(self) -> SystemTime {
        self.wall
    }

    /// Time since an earlier moment; zero if that one is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.steady.saturating_duration_since(earlier.steady)
    }

    #[cfg(test)]
    pub(crate) fn steady(self) -> Instant {
        self.steady
    }

    /// True if this moment comes after the other.
    pub(crate) fn is_after(self, other: Self) -> bool {
        self.steady > other.steady
    }
}

/// RFC 3339 in UTC with as many digits of the second as needed; "year 1" if there is no time.
pub(crate) fn rfc3339(moment: Option<Moment>) -> String {
    moment
        .and_then(|m| Timestamp::try_from(m.wall).ok())
        .map_or_else(|| NEVER.to_owned(), |time| time.to_string())
}

/// `2026-11-16T07:12:45.123Z`: RFC 3339 in UTC, with as many digits for every time.
pub fn machine_time(at: SystemTime) -> String {
    Timestamp::try_from(at).unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nanos: u64, want: &str) {
        let wall = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        assert_eq!(rfc3339(Some(Moment::new(Instant::now(), wall))), want);
    }

    #[test]
    fn fractions_lose_trailing_zeros_only() {
        check(0, "1970-01-01T00:00:00Z");
        check(1_500_000_000, "1970-01-01T00:00:01.5Z");
        check(1_700_000_000_123_456_780, "2023-11-14T22:13:20.12345678Z");
        check(1, "1970-01-01T00:00:00.000000001Z");
    }

    #[test]
    fn times_for_machines_line_up() {
        let at = |millis| machine_time(SystemTime::UNIX_EPOCH + Duration::from_millis(millis));
        assert_eq!([at(0), at(1_794_813_165_007)], ["1970-01-01T00:00:00.000Z", "2026-11-16T07:12:45.007Z"]);
    }

    #[test]
    fn no_time_is_year_one() {
        assert_eq!(rfc3339(None), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn a_stepped_wall_clock_does_not_age_anything() {
        let start = Instant::now();
        let before = Moment::new(start, SystemTime::UNIX_EPOCH + Duration::from_secs(9_000));
        let after = Moment::new(start + Duration::from_secs(2), SystemTime::UNIX_EPOCH);
        assert_eq!(after.since(before), Duration::from_secs(2));
        assert_eq!(before.since(after), Duration::ZERO);
    }
}
