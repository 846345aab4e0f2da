//! What expressions of Prometheus ask for, held against the pages that the program makes.
//!
//! In: pages of metrics, and expressions. Out: what is named in an expression and on no page: series, labels, and values of labels.

use std::collections::{BTreeMap, BTreeSet};

/// What a scrape job adds to every series.
const OF_THE_JOB: [&str; 2] = ["instance", "job"];

/// The values that each label of a series has.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// All series of some pages, by name.
pub(crate) struct Known(BTreeMap<String, Labels>);

/// `name{label="value"}` in an expression.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) name: String,
    /// Of each: label, operator, value.
    pub(crate) matchers: Vec<(String, String, String)>,
}

impl Known {
    /// `up` is Prometheus' own.
    pub(crate) fn of(pages: &[String]) -> Self {
        let mut known = BTreeMap::from([("up".to_owned(), Labels::new())]);
        for line in pages.iter().flat_map(|page| page.lines()).filter(|line| !line.starts_with('#')) {
            let selector = selectors(line).into_iter().next().unwrap();
            let labels = known.entry(selector.name).or_default();
            for (label, _, value) in selector.matchers {
                labels.entry(label).or_default().insert(value);
            }
        }
        Self(known)
    }

    /// What an expression asks for in vain.
    pub(crate) fn unknown(&self, expression: &str) -> Vec<String> {
        let selectors = selectors(expression);
        let mut wrong: Vec<String> = selectors.iter().flat_map(|selector| self.missing(selector)).collect();
        if selectors.is_empty() {
            wrong.push(format!("no series in {expression}"));
        }
        let series: Vec<&Labels> = selectors.iter().filter_map(|s| self.0.get(&s.name)).collect();
        for label in groupings(expression) {
            let is_there =
                OF_THE_JOB.contains(&&*label) || series.iter().any(|labels| labels.contains_key(&label));
            if !is_there {
                wrong.push(format!("nothing in {expression} has the label {label}"));
            }
        }
        wrong
    }

    fn missing(&self, selector: &Selector) -> Vec<String> {
        let name = &selector.name;
        let Some(labels) = self.0.get(name) else { return vec![format!("no series {name}")] };
        let own = selector.matchers.iter().filter(|(label, ..)| !OF_THE_JOB.contains(&&**label));
        let complaint = |(label, operator, value): &(String, String, String)| match labels.get(label) {
            None => Some(format!("{name} has no label {label}")),
            Some(values) if !operator.ends_with('~') && !values.contains(value) => {
                Some(format!("no {name} has {label}={value:?}"))
            }
            Some(_) => None,
        };
        own.filter_map(complaint).collect()
    }
}

/// Every series that a text names: a word in front of braces, or one that is none of the language's.
pub(crate) fn selectors(text: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphabetic()) {
        let word = &rest[start..];
        let end = word.find(|letter: char| !is_of_name(letter)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        rest = after;
        let is_metric = ["kubeproxy_", "switchyard_", "process_"].iter().any(|begin| name.starts_with(begin));
        let Some(braces) = after.strip_prefix('{') else {
            if is_metric {
                found.push(Selector { name: name.to_owned(), matchers: Vec::new() });
            }
            continue;
        };
        let (inside, after) = braces.split_once('}').unwrap();
        rest = after;
        found.push(Selector { name: name.to_owned(), matchers: matchers(inside) });
    }
    found
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// No value here has a comma or a quote in it.
fn matchers(inside: &str) -> Vec<(String, String, String)> {
    let parts = inside.split(',').filter(|part| !part.trim().is_empty());
    parts
        .map(|part| {
            let (label, value) = part.trim().split_once('"').unwrap();
            let end = label.find(|letter: char| !is_of_name(letter)).unwrap();
            let (label, operator) = label.split_at(end);
            (label.to_owned(), operator.to_owned(), value.trim_end_matches('"').to_owned())
        })
        .collect()
}

/// The labels by which an expression sums and joins.
fn groupings(expression: &str) -> BTreeSet<String> {
    let lists = ["by (", "without (", "on ("].iter().flat_map(|word| expression.split(word).skip(1));
    let labels = lists.flat_map(|rest| rest.split_once(')').unwrap().0.split(','));
    labels.map(|label| label.trim().to_owned()).collect()
}
