//! Times, durations and numbers in words that line up.
//!
//! In: values. Out: short texts; equal values give equal texts.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// `07:12:45.123`, in UTC.
pub(super) fn clock(at: SystemTime) -> String {
    Timestamp::try_from(at).unwrap_or_default().strftime("%H:%M:%S%.3f").to_string()
}

/// Three digits and a unit: `840 µs`, `12.3 ms`, `1.24 s`, `2 min 5 s`.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        s if s < 0.000_999_5 => format!("{:.0} µs", s * 1e6),
        s if s < 0.009_995 => format!("{:.2} ms", s * 1e3),
        s if s < 0.099_95 => format!("{:.1} ms", s * 1e3),
        s if s < 0.999_5 => format!("{:.0} ms", s * 1e3),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 60.0 => format!("{s:.1} s"),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
}

/// `12,345`.
pub(super) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 Service`, `2 Services`.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let shown = |micros| duration(Duration::from_micros(micros));
        assert_eq!(
            [0, 840, 999, 1_234, 12_345, 123_456, 999_600, 1_240_000, 12_340_000, 125_000_000].map(shown),
            [
                "0 µs",
                "840 µs",
                "999 µs",
                "1.23 ms",
                "12.3 ms",
                "123 ms",
                "1.00 s",
                "1.24 s",
                "12.3 s",
                "2 min 5 s"
            ]
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 50_000, 1_234_567].map(count),
            ["0", "999", "1,000", "50,000", "1,234,567"]
        );
        assert_eq!([1, 2].map(|n| counted(n, "change", "changes")), ["1 change", "2 changes"]);
    }

    #[test]
    fn times_are_in_utc() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_813_165_007);
        assert_eq!(clock(at), "07:12:45.007");
    }
}
