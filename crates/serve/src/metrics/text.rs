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

/// A number as kube-proxy's exporter writes it: the shortest digits that mean it, with an exponent from a million on
/// and below a ten-thousandth.
pub(super) fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(power) if value != 0.0 && !(-4..=5).contains(&power) => {
            let sign = if power < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", power.abs())
        }
        _ => value.to_string(),
    }
}

/// The samples of one family.
pub(super) struct Samples<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Samples<'_> {
    pub(super) fn integer(&mut self, suffix: &str, labels: &Labels, value: u64) {
        // Beyond 2^53 a sample loses digits in every scraper.
        #[expect(clippy::cast_precision_loss, reason = "samples are floating-point numbers by definition")]
        self.number(suffix, labels, value as f64);
    }

    pub(super) fn number(&mut self, suffix: &str, labels: &Labels, value: f64) {
        self.sample(suffix, labels, &number(value));
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

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_written_as_kube_proxy_writes_them() {
        for (value, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (20_000.0, "20000"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (1_606_547.0, "1.606547e+06"),
            (1_794_785_987.442_874_2, "1.7947859874428742e+09"),
            (18_446_744_073_709_552_000.0, "1.8446744073709552e+19"),
            (0.001, "0.001"),
            (0.0001, "0.0001"),
            (0.000_006_011, "6.011e-06"),
            (-1.5, "-1.5"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(number(value), want);
        }
    }
}
