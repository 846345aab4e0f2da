//! Durations as Go programs read and print them: `1h30m`, `1.5s`, `300ms`, `0`.
//!
//! In: text from a flag. Out: a [`Duration`], or the reason why there is none.
//!
//! Invariants
//! - Whatever [`print`] gives, [`parse`] reads back to the same value.
//! - The longest duration is Go's: 2^63 - 1 nanoseconds, about 292 years. Longer text is refused, not wrapped.

use std::time::Duration;

/// Go's longest duration, in nanoseconds.
const LONGEST: u64 = i64::MAX.unsigned_abs();

/// Units by name, longest names first where one begins like another. All three spellings of micro are Go's.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a text is not a duration that we can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// Not numbers with units.
    Malformed,
    /// A number without a unit; only `0` may lack one.
    NoUnit,
    /// Below zero.
    Negative,
    /// Above 2^63 - 1 nanoseconds.
    TooLong,
}

impl std::fmt::Display for DurationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malformed => "must be a duration such as 30s, 1m30s or 500ms",
            Self::NoUnit => "lacks a unit; write for example 30s, 1m30s or 500ms",
            Self::Negative => "must not be negative",
            Self::TooLong => "is too long; at most 2562047h",
        })
    }
}

impl std::error::Error for DurationError {}

/// Reads a duration that is not negative.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let nanos = if rest == "0" { 0 } else { sum(rest)? };
    if is_negative && nanos > 0 {
        return Err(DurationError::Negative);
    }
    Ok(Duration::from_nanos(nanos))
}

/// Adds up a row of numbers with units.
fn sum(text: &str) -> Result<u64, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Malformed);
    }
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let (part, after) = number_with_unit(rest)?;
        total = total.checked_add(part).filter(|t| *t <= LONGEST).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    Ok(total)
}

/// Reads one number and its unit, as nanoseconds, and gives the text behind them.
fn number_with_unit(text: &str) -> Result<(u64, &str), DurationError> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Malformed);
    }
    let name_ends = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_ends);
    if name.is_empty() {
        return Err(DurationError::NoUnit);
    }
    let unit =
        UNITS.iter().find(|(n, _)| *n == name).map(|(_, unit)| *unit).ok_or(DurationError::Malformed)?;
    // Only a row of digits comes here, so the one way to fail is a number beyond 64 bits.
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let nanos = whole.checked_mul(unit).and_then(|n| n.checked_add(part_of(unit, fraction)));
    Ok((nanos.ok_or(DurationError::TooLong)?, rest))
}

/// Splits off the leading ASCII digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `unit` times the decimal fraction, cut to whole nanoseconds.
fn part_of(unit: u64, fraction: &str) -> u64 {
    // Eighteen digits are finer than a nanosecond of the longest unit, and their product with it fits in 128 bits.
    let (mut numerator, mut denominator) = (0_u128, 1_u128);
    for digit in fraction.bytes().take(18) {
        numerator = numerator * 10 + u128::from(digit.wrapping_sub(b'0'));
        denominator *= 10;
    }
    u64::try_from(u128::from(unit) * numerator / denominator).unwrap_or(u64::MAX)
}

/// Prints a duration as Go does: `1h30m0s`, `1.5s`, `300ms`, `0s`.
pub fn print(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds > 0 {
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let seconds = format!("{seconds}{}s", decimals(nanos, 9));
        return match (hours, minutes) {
            (0, 0) => seconds,
            (0, _) => format!("{minutes}m{seconds}"),
            _ => format!("{hours}h{minutes}m{seconds}"),
        };
    }
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}{}µs", nanos / 1_000, decimals(nanos % 1_000, 3)),
        _ => format!("{}{}ms", nanos / 1_000_000, decimals(nanos % 1_000_000, 6)),
    }
}

/// `.5` for 500 of `width` 3; empty for zero.
fn decimals(value: u32, width: usize) -> String {
    if value == 0 {
        return String::new();
    }
    format!(".{value:0width$}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("-0s", 0),
            ("0s", 0),
            ("+5s", 5_000_000_000),
            ("30s", 30_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("300ms", 300_000_000),
            ("1us", 1_000),
            ("1µs", 1_000),
            ("1μs", 1_000),
            ("1.9ns", 1),
            ("1s1s", 2_000_000_000),
            ("0.333333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", LONGEST),
            ("2562047h47m16.854775807s", LONGEST),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        use DurationError::{Malformed, Negative, NoUnit, TooLong};
        let cases = [
            ("", Malformed),
            ("-", Malformed),
            (".s", Malformed),
            ("s", Malformed),
            ("1d", Malformed),
            ("1 s", Malformed),
            (" 1s", Malformed),
            ("--1s", Malformed),
            ("1s\0", Malformed),
            ("٣s", Malformed),
            ("30", NoUnit),
            ("1m30", NoUnit),
            ("1.5.5s", NoUnit),
            ("-1s", Negative),
            ("9223372036854775808ns", TooLong),
            ("99999999999999999999999s", TooLong),
            ("2562047h47m16.854775808s", TooLong),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn prints_as_go_does() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (300_000_000, "300ms"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (LONGEST, "2562047h47m16.854775807s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(print(Duration::from_nanos(nanos)), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanos in 0..=LONGEST, shift in 0..63_u32) {
            // Shifted, so that short durations are as likely as centuries.
            let duration = Duration::from_nanos(nanos >> shift);
            prop_assert_eq!(parse(&print(duration)), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[-+]?([0-9.]{0,22}[a-zµ]{0,2}){0,4}") {
            let _ = parse(&text);
        }

        #[test]
        fn printing_never_panics(seconds: u64, nanos in 0..1_000_000_000_u32) {
            print(Duration::new(seconds, nanos));
        }
    }
}
