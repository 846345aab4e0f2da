//! Unseen characters as escapes that a program reads back: what is printed for machines reaches a terminal as well.
//!
//! In: one character. Out: the escape of JSON, or that of YAML, for those that [`is_unseen`] names; any other as it is. Both languages allow
//! them inside of quotes only, and only there can such a character stand in what is written here.

use std::fmt::Write;

use switchyard_model::is_unseen;

/// As in JSON: beyond the first 65,536 characters in two halves.
pub(crate) fn push_json(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ if is_unseen(c) => {
            for half in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{half:04x}");
            }
        }
        _ => out.push(c),
    }
}

/// As in YAML, whose readers do not all put halves together.
pub(crate) fn push_yaml(out: &mut String, c: char) {
    match u32::from(c) {
        code @ 0x1_0000.. if is_unseen(c) => _ = write!(out, "\\U{code:08x}"),
        _ => push_json(out, c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{9b}31m\u{7f}\u{202e}\u{61c}\u{e0041}é🙂\n\t";

    fn escaped(push: fn(&mut String, char)) -> String {
        HOSTILE.chars().fold(String::new(), |mut text, c| {
            push(&mut text, c);
            text
        })
    }

    #[test]
    fn a_reader_gets_the_text_and_a_terminal_does_not() {
        let json = escaped(push_json);
        assert_eq!(json, "a\\u009b31m\\u007f\\u202e\\u061c\\udb40\\udc41é🙂\\n\\t");
        assert_eq!(serde_json::from_str::<String>(&format!("\"{json}\"")).unwrap(), HOSTILE);
        assert_eq!(escaped(push_yaml), json.replace("\\udb40\\udc41", "\\U000e0041"));
    }
}
