//! Sizes as Kubernetes writes quantities: `512`, `1Ki`, `2.5M`, `3e3`.
//!
//! In: text. Out: a [`Quantity`]: a whole number of bytes, and the notation that it is printed in.
//!
//! Invariants
//! - What is printed is read back to the same value, and printing that again gives the same text.
//! - Parts of a byte are rounded up and huge numbers are cut at 2^63 - 1, both as Kubernetes does.

use std::fmt;

/// Powers of 1024 by name.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Powers of ten by name.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// How a size was written, and so how it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Notation {
    #[default]
    Decimal,
    Binary,
    Exponent,
}

/// A whole number with Kubernetes' suffixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantity {
    value: i64,
    notation: Notation,
}

impl Quantity {
    /// The number of bytes.
    pub fn value(self) -> i64 {
        self.value
    }

    /// Reads a quantity; nothing if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let ends = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(ends);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let (notation, scale) = scale(suffix)?;
        let size = times(&format!("{whole}{fraction}"), fraction.len(), scale);
        let value = i64::try_from(size).unwrap_or(i64::MAX);
        Some(Self { value: if is_negative { -value } else { value }, notation })
    }
}

/// What a number is multiplied with.
#[derive(Clone, Copy)]
enum Scale {
    Shift(u32),
    Power(i32),
}

fn scale(suffix: &str) -> Option<(Notation, Scale)> {
    if let Some((_, shift)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Notation::Binary, Scale::Shift(*shift)));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Notation::Decimal, Scale::Power(*power)));
    }
    let power = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
    Some((Notation::Exponent, Scale::Power(power.clamp(-64, 64))))
}

/// The digits, with a point before the last `decimals` of them, scaled and rounded up. Saturates.
fn times(digits: &str, decimals: usize, scale: Scale) -> u128 {
    let mut power = -i64::try_from(decimals).unwrap_or(i64::MAX);
    let mut value = 0_u128;
    let mut is_cut = false;
    for digit in digits.bytes().map(|b| u128::from(b.wrapping_sub(b'0'))) {
        match value.checked_mul(10).and_then(|v| v.checked_add(digit)).filter(|v| *v < 1 << 64) {
            Some(next) => value = next,
            None => {
                // Digits that no longer fit only matter for rounding, or for being too large anyway.
                power = power.saturating_add(1);
                is_cut |= digit != 0;
            }
        }
    }
    match scale {
        Scale::Shift(shift) => value <<= shift,
        Scale::Power(by) => power = power.saturating_add(i64::from(by)),
    }
    let round = u128::from(is_cut && power <= 0);
    while power > 0 && value != 0 && value < 1 << 100 {
        value *= 10;
        power -= 1;
    }
    let mut rest = false;
    while power < 0 && value != 0 {
        rest |= !value.is_multiple_of(10);
        value /= 10;
        power += 1;
    }
    value + u128::from(rest).max(round)
}

impl fmt::Display for Quantity {
    /// With the largest suffix that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut steps) = (self.value, 0_usize);
        let base = if self.notation == Notation::Binary { 1024 } else { 1000 };
        while number != 0 && number % base == 0 && steps < 6 {
            number /= base;
            steps += 1;
        }
        let steps_name = match (self.notation, steps) {
            (_, 0) => "",
            (Notation::Binary, _) => BINARY.get(steps - 1).map_or("", |(name, _)| name),
            (Notation::Decimal, _) => DECIMAL.get(steps + 3).map_or("", |(name, _)| name),
            (Notation::Exponent, _) => return write!(f, "{number}e{}", steps * 3),
        };
        write!(f, "{number}{steps_name}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_kubernetes() {
        for (text, value, printed) in [
            ("0", 0, "0"),
            ("1024", 1024, "1024"),
            ("1000", 1000, "1k"),
            ("1Ki", 1024, "1Ki"),
            ("2.5Ki", 2560, "2560"),
            ("2048Ki", 2 << 20, "2Mi"),
            ("-5M", -5_000_000, "-5M"),
            ("3e3", 3000, "3e3"),
            ("3E", 3_000_000_000_000_000_000, "3E"),
            ("1500m", 2, "2"),
            ("0.1", 1, "1"),
            (".5k", 500, "500"),
            ("1e40", i64::MAX, "9223372036854775807e0"),
            ("99999999999999999999999999999999999999999999", i64::MAX, "9223372036854775807"),
        ] {
            let got = Quantity::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(got.value(), value, "{text}");
            let printed = printed.strip_suffix("e0").unwrap_or(printed);
            assert_eq!(got.to_string(), printed, "{text}");
        }
        for text in ["", "x", "1x", "1ki", "1.2.3", "--1", ".", "1 k", "e3", "1e", "1Kib", "٣"] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(value: i64, suffix in "(|k|M|Ki|Mi|Ei|e2|m|n)") {
            let Some(first) = Quantity::parse(&format!("{value}{suffix}")) else { return Ok(()) };
            let again = Quantity::parse(&first.to_string()).expect("what is printed is a quantity");
            prop_assert_eq!(again.value(), first.value());
            prop_assert_eq!(again.to_string(), first.to_string());
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9.]{0,50}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}") {
            let _ = Quantity::parse(&text);
        }
    }
}
