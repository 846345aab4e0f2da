//! Label selectors, in the syntax of `kubectl -l`.
//!
//! In: text such as `app=web,tier in (front, back),!legacy`. Out: requirements that labels can be held against, and the same as text in one
//! spelling for an API server; or what is wrong, with the place.
//!
//! Why not leave all of it to the API server? Manifests have none, and a mistake should be told alike from both. As there, `!=` and `notin` are
//! met by an object that has no such label, and an empty selector by every object.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// What all must be true of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// One thing that must be true.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    wanted: Wanted,
}

/// What is wanted of the label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Present,
    Absent,
    OneOf(BTreeSet<String>),
    NoneOf(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

/// The text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the selector is wrong at character {at}: {problem}; write it as in app=web,tier in (front,back),!legacy"
)]
pub struct SelectorError {
    /// Counted from 1.
    at: usize,
    problem: String,
}

impl Selector {
    /// True if these labels meet every requirement.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(labels.get(&requirement.key).map(String::as_str)))
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        parse::requirements(text).map(Self)
    }
}

impl Requirement {
    fn is_met(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.wanted {
            Wanted::Present => value.is_some(),
            Wanted::Absent => value.is_none(),
            Wanted::OneOf(values) => value.is_some_and(|value| values.contains(value)),
            Wanted::NoneOf(values) => value.is_none_or(|value| !values.contains(value)),
            Wanted::Above(least) => number().is_some_and(|number| number > *least),
            Wanted::Below(most) => number().is_some_and(|number| number < *most),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, requirement) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let list =
            |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(",");
        match &self.wanted {
            Wanted::Present => write!(f, "{key}"),
            Wanted::Absent => write!(f, "!{key}"),
            // One value has a spelling that says also an empty one plainly.
            Wanted::OneOf(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Wanted::NoneOf(values) if values.len() == 1 => write!(f, "{key}!={}", list(values)),
            Wanted::OneOf(values) => write!(f, "{key} in ({})", list(values)),
            Wanted::NoneOf(values) => write!(f, "{key} notin ({})", list(values)),
            Wanted::Above(least) => write!(f, "{key}>{least}"),
            Wanted::Below(most) => write!(f, "{key}<{most}"),
        }
    }
}
