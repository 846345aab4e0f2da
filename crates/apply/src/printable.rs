//! Text of other programs, made safe for a log line.

use switchyard_model::is_unseen;

/// Longest text of another program that an error carries.
pub(crate) const MAX_TEXT: usize = 2048;

/// The beginning of `bytes`, at most [`MAX_TEXT`] bytes, with line breaks as ` | ` and unseen characters escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    bounded(bytes, MAX_TEXT)
}

/// As [`printable`], with a limit of `limit` bytes.
pub(crate) fn bounded(bytes: &[u8], limit: usize) -> String {
    // An escape is at most ten times longer than its character, so this prefix always fills the limit.
    let prefix = bytes.get(..limit).unwrap_or(bytes);
    let text = String::from_utf8_lossy(prefix);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut out = String::new();
    for character in lines.join(" | ").chars() {
        let escaped =
            if is_unseen(character) { character.escape_unicode().to_string() } else { character.to_string() };
        if out.len() + escaped.len() > limit {
            break;
        }
        out.push_str(&escaped);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_joined_and_control_characters_escaped() {
        assert_eq!(printable("a\n\n  b\x1b[31m\u{61c}\n".as_bytes()), "a | b\\u{1b}[31m\\u{61c}");
        assert_eq!(printable(b""), "");
    }

    proptest! {
        #[test]
        fn never_longer_than_the_limit_and_never_a_control_character(bytes: Vec<u8>, limit in 0_usize..200) {
            let text = bounded(&bytes, limit);
            prop_assert!(text.len() <= limit);
            prop_assert!(!text.chars().any(char::is_control));
        }
    }
}
