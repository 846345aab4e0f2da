//! Prometheus text format, version 0.0.4.
//!
//! In: names, help texts and samples. Out: one text, families sorted by name. Label values are escaped and cut, so
//! no value can end a line or start a new series.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::family::{Metric, Series};

/// Longest label value, in characters.
const VALUE_CHARS: usize = 128;

/// Labels of a series, escaped: `a="b",c="d"`.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(String);

impl Labels {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self::default().with(name, value)
    }

    /// These labels and one more.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut text = self.0.clone();
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars().take(VALUE_CHARS) {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c if c.is_control() => text.push(char::REPLACEMENT_CHARACTER),
                c => text.push(c),
            }
        }
        text.push('"');
        Self(text)
    }
}

/// The samples of one family.
pub(super) struct Samples<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Samples<'_> {
    pub(super) fn integer(&mut self, suffix: &str, labels: &Labels, value: u64) {
        self.sample(suffix, labels, &value.to_string());
    }

    pub(super) fn number(&mut self, suffix: &str, labels: &Labels, value: f64) {
        self.sample(suffix, labels, &value.to_string());
    }

    fn sample(&mut self, suffix: &str, Labels(labels): &Labels, value: &str) {
        let name = self.name;
        // Writing to a String cannot fail.
        let _ = if labels.is_empty() {
            writeln!(self.text, "{name}{suffix} {value}")
        } else {
            writeln!(self.text, "{name}{suffix}{{{labels}}} {value}")
        };
    }
}

/// A page of metrics in the making.
#[derive(Default)]
pub(super) struct Exposition(BTreeMap<&'static str, String>);

impl Exposition {
    /// Adds all series of a name; nothing at all if none has a sample.
    pub(super) fn family<K: Copy + PartialEq, M: Metric>(
        &mut self,
        name: &'static str,
        help: &str,
        series: &Series<K, M>,
    ) {
        self.block(name, M::TYPE, help, |samples| {
            for (labels, metric) in series.iter() {
                metric.write(labels, samples);
            }
        });
    }

    /// Adds a name with samples that were computed for this page.
    pub(super) fn block(
        &mut self,
        name: &'static str,
        kind: &str,
        help: &str,
        write: impl FnOnce(&mut Samples<'_>),
    ) {
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let head = text.len();
        write(&mut Samples { name, text: &mut text });
        if text.len() > head {
            self.0.insert(name, text);
        }
    }

    /// The page.
    pub(super) fn finish(self) -> String {
        self.0.into_values().collect()
    }
}
