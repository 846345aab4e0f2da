//! One breach of one rule, in one place.

use std::fmt;

/// Where a rule was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// A path from the root of the repository, or a crate.
    pub(crate) place: String,
    /// The line, for rules that look at lines.
    pub(crate) line: Option<usize>,
    /// The rule in words, with what to do instead.
    pub(crate) rule: String,
}

impl Finding {
    /// About a whole file or crate.
    pub(crate) fn of(place: &str, rule: impl Into<String>) -> Self {
        Self { place: place.to_owned(), line: None, rule: rule.into() }
    }

    /// About one line, counted from 1.
    pub(crate) fn at(place: &str, line: usize, rule: impl Into<String>) -> Self {
        Self { place: place.to_owned(), line: Some(line), rule: rule.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.place, self.rule),
            None => write!(f, "{}: {}", self.place, self.rule),
        }
    }
}
