//! Durations as Go programs read and print them: `1h30m`, `1.5s`, `-300ms`, `0`.
//!
//! In: text. Out: a [`GoDuration`], or the reason why there is none.
//!
//! Invariants
//! - Whatever a duration prints, [`GoDuration::parse`] reads back to the same value.
//! - The range is Go's: a signed 64-bit count of nanoseconds, about 292 years. Longer text is refused, not wrapped.

use std::fmt;
use std::time::Duration;

/// Go's longest duration, in nanoseconds.
const LONGEST: u64 = i64::MAX.unsigned_abs();

/// Units by name. All three spellings of micro are Go's.
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

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurationError {
    /// Not numbers with units.
    Malformed,
    /// A number without a unit; only `0` may lack one.
    NoUnit,
    /// Beyond 64 bits of nanoseconds.
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "must be a duration such as 30s, 1m30s or 500ms",
            Self::NoUnit => "lacks a unit; write for example 30s, 1m30s or 500ms",
            Self::TooLong => "is too long; at most 2562047h",
        })
    }
}

impl std::error::Error for DurationError {}

/// A time span of Go: nanoseconds, possibly negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(i64);

impl GoDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A number of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A number of seconds.
    pub const fn from_secs(seconds: i32) -> Self {
        Self(seconds as i64 * 1_000_000_000)
    }

    /// The nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The same span for Rust; nothing if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// Reads a duration.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (is_negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let nanos = if rest == "0" { 0 } else { sum(rest)? };
        let signed = i64::try_from(nanos).ok();
        let signed = if is_negative { 0_i64.checked_sub_unsigned(nanos) } else { signed };
        signed.map(Self).ok_or(DurationError::TooLong)
    }
}

/// Adds up a row of numbers with units. One more than the longest is let through: with a minus sign it fits.
fn sum(text: &str) -> Result<u64, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Malformed);
    }
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let (part, after) = number_with_unit(rest)?;
        total = total.checked_add(part).filter(|t| *t <= LONGEST + 1).ok_or(DurationError::TooLong)?;
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

impl fmt::Display for GoDuration {
    /// As Go prints it: `1h30m0s`, `1.5s`, `-300ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let duration = Duration::from_nanos(self.0.unsigned_abs());
        let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
        if seconds > 0 {
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            match (hours, minutes) {
                (0, 0) => {}
                (0, _) => write!(f, "{minutes}m")?,
                _ => write!(f, "{hours}h{minutes}m")?,
            }
            return write!(f, "{seconds}{}s", decimals(nanos, 9));
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}{}µs", nanos / 1_000, decimals(nanos % 1_000, 3)),
            _ => write!(f, "{}{}ms", nanos / 1_000_000, decimals(nanos % 1_000_000, 6)),
        }
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
            ("-5s", -5_000_000_000),
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
            ("9223372036854775807ns", i64::MAX),
            ("-9223372036854775808ns", i64::MIN),
            ("2562047h47m16.854775807s", i64::MAX),
        ];
        for (text, nanos) in cases {
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(nanos)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        use DurationError::{Malformed, NoUnit, TooLong};
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
            ("9223372036854775808ns", TooLong),
            ("-9223372036854775809ns", TooLong),
            ("99999999999999999999999s", TooLong),
            ("2562047h47m16.854775808s", TooLong),
        ];
        for (text, error) in cases {
            assert_eq!(GoDuration::parse(text), Err(error), "{text:?}");
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
            (-1_500_000_000, "-1.5s"),
            (90_000_000_000, "1m30s"),
            (3_600_000_000_000, "1h0m0s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(GoDuration(nanos).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanos: i64, shift in 0..63_u32) {
            // Shifted, so that short durations are as likely as centuries.
            let duration = GoDuration(nanos >> shift);
            prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn no_text_panics(text in "[-+]?([0-9.]{0,22}[a-zµ]{0,2}){0,4}") {
            let _ = GoDuration::parse(&text);
        }
    }
}
