//! Times for people: how long ago, as kubectl says it, and when.
//!
//! In: seconds since 1970, as the agent says them, and what time it is. Out: short texts.

use std::time::{Duration, SystemTime};

use serde_json::Value;

/// The time that an answer means, if it means one.
pub(super) fn time(seconds: &Value) -> Option<SystemTime> {
    let since = Duration::try_from_secs_f64(seconds.as_f64()?).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// `12s`, `3m4s`, `5d3h`: two units at most, the second one only where it matters. What is to come is now: clocks may be set back.
pub(super) fn age(at: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(at).unwrap_or_default().as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: u64, unit: char, small: u64, part: char| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{part}"),
    };
    match (minutes, hours, days) {
        (0..2, ..) => format!("{seconds}s"),
        (2..10, ..) => two(minutes, 'm', seconds % 60, 's'),
        (10..180, ..) => format!("{minutes}m"),
        (_, 0..8, _) => two(hours, 'h', minutes % 60, 'm'),
        (_, 8..48, _) => format!("{hours}h"),
        (_, _, 0..8) => two(days, 'd', hours % 24, 'h'),
        (_, _, 8..730) => format!("{days}d"),
        (_, _, 730..2920) => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The boundaries of `duration.HumanDuration` in k8s.io/apimachinery.
    #[test]
    fn ages_are_kubectls() {
        let (second, minute, hour, day) = (1, 60, 3600, 86_400);
        for (seconds, want) in [
            (0, "0s"),
            (119 * second, "119s"),
            (2 * minute, "2m"),
            (3 * minute + 4, "3m4s"),
            (9 * minute + 59, "9m59s"),
            (10 * minute + 59, "10m"),
            (179 * minute + 59, "179m"),
            (3 * hour, "3h"),
            (7 * hour + 59 * minute, "7h59m"),
            (8 * hour + 59 * minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (8 * day + 23 * hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (2920 * day, "8y"),
            (3000 * day, "8y"),
        ] {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(age(SystemTime::UNIX_EPOCH, now), want);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_and_nonsense_are_survived() {
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        assert_eq!(age(later, SystemTime::UNIX_EPOCH), "0s");
        assert_eq!(time(&json!(5.0)), Some(later));
        for nonsense in [json!(null), json!("x"), json!(-1.0), json!(1e300)] {
            assert_eq!(time(&nonsense), None, "{nonsense}");
        }
    }
}
