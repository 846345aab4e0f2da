//! Characters that mean something in HTML.

/// What stands for such a character in a page, as Go writes it; nothing for all others.
pub(crate) fn entity(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&#34;",
        '\'' => "&#39;",
        _ => return None,
    })
}
