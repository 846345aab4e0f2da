//! Characters that nobody sees, and text from outside without them.
//!
//! In: any text. Out: the same with an escape for each character that could move a cursor, end a line, turn the direction of writing or
//! stand there without width or ink. Whatever prints a text, to a terminal, a log, a page or a rule, judges by [`is_unseen`]; how it writes
//! the escape depends on who reads it.

use std::fmt;

/// True for controls, for marks of direction, and for what Unicode says may be ignored when it is shown.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Text from outside, for a terminal or a log: each unseen character is shown as an escape; quotes and letters of any language stay.
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if is_unseen(c) { write!(f, "{}", c.escape_default())? } else { write!(f, "{c}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_or_hides_is_printed() {
        let hidden = "\u{1b}\u{7f}\u{9b}\u{ad}\u{61c}\u{180e}\u{200b}\u{2028}\u{202e}\u{2066}\u{206a}\u{feff}\u{fffb}\u{e0041}\u{e01ef}";
        assert!(hidden.chars().all(is_unseen));
        let shown = Printable(hidden).to_string();
        assert!(!shown.contains(is_unseen), "{shown}");
        assert!(
            shown.starts_with(r"\u{1b}\u{7f}\u{9b}\u{ad}\u{61c}") && shown.ends_with(r"\u{e0041}\u{e01ef}")
        );
        assert_eq!(Printable("a\r\n\tb").to_string(), r"a\r\n\tb");
    }

    #[test]
    fn letters_of_any_language_stay() {
        let text = "it's \"naïve\" \\日本語 שלום मराठी e\u{301} 🙂";
        assert_eq!(Printable(text).to_string(), text);
    }
}
