//! What is wrong with one field.

use std::fmt;

/// Longest value that a message repeats.
const LONGEST_VALUE: usize = 200;

/// One thing that is wrong: where, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The YAML path, such as `iptables.masqueradeBit` or `nodePortAddresses[1]`; empty for the document as a whole.
    pub path: String,
    /// The value as found, on one line; empty if there is none to show.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

impl Problem {
    /// A problem with a value that is shown as it is: a number, a duration.
    pub fn new(path: impl Into<String>, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self { path: path.into(), value: clip(&value.to_string()), allowed: allowed.into() }
    }

    /// A problem with a text, which is shown in quotes.
    pub fn text(path: impl Into<String>, value: &str, allowed: impl Into<String>) -> Self {
        Self { path: path.into(), value: format!("\"{}\"", clip(value)), allowed: allowed.into() }
    }

    /// The field without an index: `nodePortAddresses` of `nodePortAddresses[1]`.
    pub fn field(&self) -> &str {
        self.path.split('[').next().unwrap_or_default()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        if !self.value.is_empty() {
            write!(f, "invalid value {}: ", self.value)?;
        }
        f.write_str(&self.allowed)
    }
}

/// One line without control characters, not too long.
pub(crate) fn clip(text: &str) -> String {
    let mut line: String = text.chars().take(LONGEST_VALUE).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST_VALUE).is_some() {
        line.push('…');
    }
    line
}
