//! What lies behind a dependency, from `Cargo.lock`.
//!
//! Packages of the same name in several versions are one here: the question is only whether a crate is there at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Which package needs which.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Lock {
    /// Reads the form that cargo writes: one key or one list entry per line.
    pub(crate) fn parse(text: &str) -> Self {
        let mut lock = Self::default();
        let mut package = String::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("name = ") {
                package = name.trim_matches('"').to_owned();
                lock.needs.entry(package.clone()).or_default();
            } else if let Some(entry) = line.strip_prefix(" \"") {
                // "name", or "name version" where there are several.
                let name = entry.split(['"', ' ']).next().unwrap_or_default();
                lock.needs.entry(package.clone()).or_default().insert(name.to_owned());
            }
        }
        lock
    }

    /// The shortest way from one package to another, as `a -> b -> c`, if there is one.
    pub(crate) fn way(&self, from: &str, to: &str) -> Option<String> {
        let mut seen = BTreeSet::from([from]);
        let mut queue = VecDeque::from([vec![from]]);
        while let Some(way) = queue.pop_front() {
            let last = *way.last()?;
            if last == to {
                return Some(way.join(" -> "));
            }
            for next in self.needs.get(last).into_iter().flatten() {
                if seen.insert(next) {
                    queue.push_back([way.as_slice(), &[next]].concat());
                }
            }
        }
        None
    }
}
