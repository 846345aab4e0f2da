//! Tells the code of a Rust file from its comments and its strings.
//!
//! In: the text. Out: two texts of the same lines, one with the code and one with the comments; everything else is
//! blank. So a rule about code is not triggered by a sentence about it, nor by a rule's own table of words.
//! It is not a full lexer: a file that does not compile may be split wrongly, which no other check would notice.

/// The two texts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) code: String,
    pub(super) comments: String,
}

#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits a text. Never fails.
pub(super) fn split(text: &str) -> Parts {
    let mut parts = Parts::default();
    let mut rest = text;
    let mut before = None;
    while !rest.is_empty() {
        let (kind, length) = piece(rest, before);
        let (taken, left) = rest.split_at(length);
        parts.push(kind, taken);
        before = taken.chars().next_back();
        rest = left;
    }
    parts
}

impl Parts {
    fn push(&mut self, kind: Kind, text: &str) {
        for c in text.chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            let (code, comment) = match kind {
                Kind::Code => (c, blank),
                Kind::Comment => (blank, c),
                Kind::Literal => (blank, blank),
            };
            self.code.push(code);
            self.comments.push(comment);
        }
    }
}

/// What the text begins with, and how many bytes of it. `before` is the character in front of it.
fn piece(text: &str, before: Option<char>) -> (Kind, usize) {
    let all = text.len();
    if text.starts_with("//") {
        return (Kind::Comment, text.find('\n').unwrap_or(all));
    }
    if text.starts_with("/*") {
        return (Kind::Comment, block_comment(text));
    }
    if text.starts_with('"') {
        return (Kind::Literal, quoted(text, '"').unwrap_or(all));
    }
    let in_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_name && let Some(length) = raw_string(text) {
        return (Kind::Literal, length);
    }
    if text.starts_with('\'')
        && let Some(length) = character(text)
    {
        return (Kind::Literal, length);
    }
    (Kind::Code, text.chars().next().map_or(all, char::len_utf8))
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// From one quote to the next that is not escaped.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().skip(1).find_map(|(at, c)| {
        let ends = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(at + 1)
    })
}

/// `r"…"`, `r#"…"#`, and the same for bytes and C strings.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"'))
    })?;
    let rest = text.get(prefix.len()..)?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let open = prefix.len() + hashes + 1;
    let length = text.get(open..)?.find(&end).map(|at| open + at + end.len());
    Some(length.unwrap_or(text.len()))
}

/// A character, not a lifetime: the closing quote stands behind one character or one escape.
fn character(text: &str) -> Option<usize> {
    let mut rest = text.chars().skip(1);
    match rest.next()? {
        '\\' => quoted(text, '\''),
        c => (rest.next() == Some('\'')).then(|| 2 + c.len_utf8()),
    }
}
