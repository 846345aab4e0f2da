//! Writing HTML: the only way from a value to a page.
//!
//! In: names of elements and attributes, which are constants of this program, and texts, which may be anybody's. Out: markup.
//!
//! Invariants
//! - Text and the values of attributes are always escaped: markup can only come from constants, because that is what the types take.
//! - A character that cannot be seen, or that changes the order of others (terminal escapes, direction overrides), is shown by its code.
//! - No text is longer than [`LONGEST`] characters.

use std::fmt::Write;

use switchyard_model::is_unseen;

use crate::entity::entity;

/// More of a text is cut off.
const LONGEST: usize = 1000;

/// Attributes of an element.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// Markup that grows.
#[derive(Debug, Default)]
pub(super) struct Html(String);

impl Html {
    /// An element with something in it.
    pub(super) fn within(
        &mut self,
        element: &'static str,
        attributes: Attributes<'_>,
        content: impl FnOnce(&mut Self),
    ) {
        self.open(element, attributes);
        content(self);
        self.0.push_str("</");
        self.0.push_str(element);
        self.0.push('>');
    }

    /// An element with a text in it.
    pub(super) fn element(&mut self, element: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(element, attributes, |html| html.text(text));
    }

    /// An element that never has content, or the beginning of one.
    pub(super) fn open(&mut self, element: &'static str, attributes: Attributes<'_>) {
        self.0.push('<');
        self.0.push_str(element);
        for (name, value) in attributes {
            self.0.push(' ');
            self.0.push_str(name);
            self.0.push_str("=\"");
            escape(value, &mut self.0);
            self.0.push('"');
        }
        self.0.push('>');
    }

    /// A text.
    pub(super) fn text(&mut self, text: &str) {
        escape(text, &mut self.0);
    }

    /// Markup of this program's own.
    pub(super) fn constant(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// The markup.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

fn escape(text: &str, page: &mut String) {
    let mut left = LONGEST;
    for c in text.chars() {
        if left == 0 {
            page.push('…');
            return;
        }
        left -= 1;
        match entity(c) {
            Some(entity) => page.push_str(entity),
            None if is_unseen(c) => push_code(c, page),
            None => page.push(c),
        }
    }
}

/// A text that other programs show as it is: unseen characters by their codes, and nothing too long.
pub(super) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars().take(LONGEST) {
        if is_unseen(c) { push_code(c, &mut shown) } else { shown.push(c) }
    }
    shown
}

fn push_code(c: char, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
}

/// For a query: everything but plain letters and digits as percent escapes.
pub(super) fn query_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut html = Html::default();
        html.element("b", &[("title", text)], text);
        html.into_text()
    }

    #[test]
    fn no_text_can_leave_its_place() {
        assert_eq!(
            shown("\"><script>alert('x')</script>&"),
            "<b title=\"&#34;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;\">\
             &#34;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;</b>"
        );
    }

    #[test]
    fn what_cannot_be_seen_is_shown_by_its_code() {
        let mut html = Html::default();
        html.text("a\u{1b}[31m\u{202e}gpj.\u{200b}\0\u{e0041}é日");
        assert_eq!(html.into_text(), "a\\u{1b}[31m\\u{202e}gpj.\\u{200b}\\u{0}\\u{e0041}é日");
        assert_eq!(visible("a\r\nb\u{2066}"), "a\\u{d}\\u{a}b\\u{2066}");
    }

    #[test]
    fn long_texts_are_cut() {
        let mut html = Html::default();
        html.text(&"é".repeat(LONGEST + 5));
        assert_eq!(html.into_text().chars().count(), LONGEST + 1);
        assert_eq!(visible(&"é".repeat(LONGEST + 5)).chars().count(), LONGEST);
    }

    #[test]
    fn queries_hold_any_text() {
        assert_eq!(query_escaped("a b&c=/\"é"), "a%20b%26c%3D%2F%22%C3%A9");
    }
}
