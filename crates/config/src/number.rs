//! Numbers and booleans as Go's `strconv` reads them.

/// Go's spellings of true and false; no others, so `tRuE` is a mistake in both programs.
pub fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A whole number of 32 bits. `0x10`, `0o17`, `017`, `0b11` and `1_000` are numbers too.
pub fn int32(text: &str) -> Result<i32, String> {
    let wrong = || "must be a whole number from -2147483648 to 2147483647".to_owned();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = rest.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..)),
        [b'0', b'o', ..] => (8, lower.get(2..)),
        [b'0', b'b', ..] => (2, lower.get(2..)),
        [b'0', _, ..] => (8, lower.get(1..)),
        _ => (10, Some(lower.as_str())),
    };
    let digits = digits.unwrap_or_default();
    let has_prefix = digits.len() < lower.len();
    let plain = without_underscores(digits, has_prefix).ok_or_else(wrong)?;
    let value = i64::from_str_radix(&plain, base).map_err(|_| wrong())?;
    i32::try_from(sign * value).map_err(|_| wrong())
}

/// Each underscore must stand between digits, or between a prefix and a digit.
fn without_underscores(digits: &str, has_prefix: bool) -> Option<String> {
    let is_well = !digits.starts_with(['+', '-'])
        && !digits.ends_with('_')
        && !digits.contains("__")
        && (has_prefix || !digits.starts_with('_'));
    is_well.then(|| digits.replace('_', ""))
}

/// A number that 32 bits can hold. Neither infinity nor "not a number": nothing can be done with them.
pub fn float(text: &str) -> Result<f32, String> {
    let is_number = text.bytes().any(|b| b.is_ascii_digit());
    let value = text.parse::<f32>().ok().filter(|value| is_number && value.is_finite());
    value.ok_or_else(|| "must be a number such as 5 or 0.5, at most 3.4e38".to_owned())
}

/// A verbosity.
pub fn level(text: &str) -> Result<u32, String> {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit());
    let value = text.parse::<u32>().ok().filter(|level| is_plain && *level <= i32::MAX.unsigned_abs());
    value.ok_or_else(|| "must be a number from 0 to 2147483647".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_gos() {
        for (text, want) in [
            ("0", 0),
            ("-5", -5),
            ("+5", 5),
            ("0x10", 16),
            ("0X1f", 31),
            ("010", 8),
            ("0o10", 8),
            ("0b11", 3),
            ("1_000", 1000),
            ("0x_1", 1),
            ("2147483647", i32::MAX),
            ("-2147483648", i32::MIN),
        ] {
            assert_eq!(int32(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "-",
            "x",
            "1.0",
            "1e3",
            " 1",
            "_1",
            "1_",
            "1__0",
            "08",
            "0x",
            "--1",
            "0x-1",
            "2147483648",
            "-2147483649",
            "99999999999999999999",
        ] {
            assert!(int32(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn floats_and_levels() {
        assert_eq!(float("5"), Ok(5.0));
        assert_eq!(float("-.5e1"), Ok(-5.0));
        for text in ["", "x", "NaN", "inf", "1e400", "5 "] {
            assert!(float(text).is_err(), "{text:?}");
        }
        assert_eq!(level("2147483647"), Ok(2_147_483_647));
        for text in ["", "-1", "+1", "x", "2147483648", "0x1"] {
            assert!(level(text).is_err(), "{text:?}");
        }
    }
}
