//! Two pages of metrics, made comparable.
//!
//! In: two texts in Prometheus' format. Out: how they differ: families that only kube-proxy has, and types, help texts, label names, bucket
//! bounds and, in kube-proxy's own families, series that differ. Values are not looked at.

use std::collections::{BTreeMap, BTreeSet};

/// What kube-proxy has and switchyard has not, by the beginning of a name; see docs/differences.md.
const LEFT_OUT: [(&str, &str); 8] = [
    ("go_", "describes Go"),
    ("apiserver_", "describes a library"),
    ("aggregator_", "describes a library"),
    ("rest_client_", "describes a library"),
    ("cardinality_enforcement_", "describes the library of metrics"),
    ("disabled_metrics_total", "describes the library of metrics"),
    ("hidden_metrics_total", "describes the library of metrics"),
    ("registered_metrics_total", "describes the library of metrics"),
];

/// What must be there although it begins so.
const KEPT: [&str; 2] = ["rest_client_requests_total", "rest_client_request_duration_seconds"];

/// Families whose series, with all labels, must be there too.
const OWN: &str = "kubeproxy_";

/// A family of series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    buckets: Vec<String>,
    series: BTreeSet<String>,
}

/// Families by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metrics(BTreeMap<String, Family>);

impl Metrics {
    pub(crate) fn parse(page: &str) -> Self {
        let mut families = BTreeMap::<String, Family>::new();
        for line in page.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                families.entry(name.to_owned()).or_default().help = help.to_owned();
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
            {
                families.entry(name.to_owned()).or_default().kind = kind.to_owned();
            } else if let Some((series, _)) = line.rsplit_once(' ') {
                add_series(&mut families, series);
            }
        }
        Self(families)
    }

    /// How many families there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What of kube-proxy's is not with us, or not the same.
    pub(crate) fn difference(upstream: &Self, ours: &Self) -> String {
        let mut text = String::new();
        for (name, theirs) in &upstream.0 {
            match ours.0.get(name) {
                Some(ours) => text.push_str(&Family::difference(name, theirs, ours)),
                None if is_left_out(name) => {}
                None => text.push_str(&format!("  {name} only with kube-proxy\n")),
            }
        }
        text
    }
}

fn is_left_out(name: &str) -> bool {
    !KEPT.contains(&name) && LEFT_OUT.iter().any(|(beginning, _)| name.starts_with(beginning))
}

impl Family {
    fn difference(name: &str, theirs: &Self, ours: &Self) -> String {
        let mut text = String::new();
        let mut differ = |what: &str, theirs: String, ours: String| {
            if theirs != ours {
                text.push_str(&format!(
                    "  {what} of {name}\n    kube-proxy: {theirs}\n    switchyard: {ours}\n"
                ));
            }
        };
        differ("type", theirs.kind.clone(), ours.kind.clone());
        differ("help", theirs.help.clone(), ours.help.clone());
        differ("labels", format!("{:?}", theirs.labels), format!("{:?}", ours.labels));
        differ("buckets", theirs.buckets.join(" "), ours.buckets.join(" "));
        if name.starts_with(OWN) {
            let missing: Vec<&str> = theirs.series.difference(&ours.series).map(String::as_str).collect();
            differ("series", missing.join(" "), String::new());
        }
        text
    }
}

/// Samples of a histogram belong to the family before their ending.
fn add_series(families: &mut BTreeMap<String, Family>, series: &str) {
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|ending| name.strip_suffix(ending));
    let base = base.filter(|base| families.get(*base).is_some_and(|family| family.kind == "histogram"));
    let family = families.entry(base.unwrap_or(name).to_owned()).or_default();
    let mut kept = Vec::new();
    for (label, value) in labels_of(labels.trim_end_matches('}')) {
        if label == "le" {
            if !family.buckets.contains(&value) {
                family.buckets.push(value);
            }
        } else {
            kept.push(format!("{label}={value:?}"));
            family.labels.insert(label);
        }
    }
    kept.sort();
    family.series.insert(format!("{{{}}}", kept.join(",")));
}

/// Names and values; a value may have commas and braces in it, and quotes behind a backslash.
fn labels_of(text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once("=\"") {
        let mut end = behind.len();
        let mut is_escaped = false;
        for (at, letter) in behind.char_indices() {
            match letter {
                '"' if !is_escaped => {
                    end = at;
                    break;
                }
                _ => is_escaped = letter == '\\' && !is_escaped,
            }
        }
        let (value, after) = behind.split_at(end);
        labels.push((name.trim_start_matches(',').to_owned(), value.to_owned()));
        rest = after.strip_prefix('"').unwrap_or_default();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP kubeproxy_a Help of a\n# TYPE kubeproxy_a histogram\n\
        kubeproxy_a_bucket{f=\"4\",le=\"1\"} 1\nkubeproxy_a_bucket{f=\"4\",le=\"+Inf\"} 2\n\
        kubeproxy_a_sum{f=\"4\"} 1.5\nkubeproxy_a_count{f=\"4\"} 2\n\
        # HELP b Help of b\n# TYPE b gauge\nb{x=\"q,\\\"}\",y=\"\"} 1\n# HELP go_c c\n# TYPE go_c gauge\ngo_c 1\n";

    fn difference(ours: &str) -> String {
        Metrics::difference(&Metrics::parse(PAGE), &Metrics::parse(ours))
    }

    #[test]
    fn values_and_what_only_we_have_are_no_difference() {
        assert_eq!(difference(PAGE), "");
        assert_eq!(difference(&PAGE.replace("} 2", "} 3")), "");
        assert_eq!(difference(&format!("{PAGE}# TYPE own gauge\nown 1\n")), "");
        assert_eq!(difference(&PAGE.replace("go_c", "own")), "");
        assert_eq!(Metrics::parse(PAGE).count(), 3);
        assert!(is_left_out("rest_client_retries_total") && KEPT.iter().all(|name| !is_left_out(name)));
    }

    #[test]
    fn every_mutation_is_noticed() {
        for (from, to, told) in [
            ("kubeproxy_a histogram", "kubeproxy_a counter", "type of kubeproxy_a"),
            ("Help of b", "Help of c", "help of b"),
            ("y=", "z=", "labels of b"),
            ("le=\"1\"", "le=\"2\"", "buckets of kubeproxy_a"),
            ("f=\"4\"", "f=\"6\"", "series of kubeproxy_a"),
            ("# HELP b Help of b\n# TYPE b gauge\nb{", "own{", "b only with kube-proxy"),
        ] {
            assert!(PAGE.contains(from));
            let text = difference(&PAGE.replace(from, to));
            assert!(text.contains(told), "{from} -> {to}: {text}");
        }
    }

    #[test]
    fn labels_are_read_as_a_scraper_does() {
        let labels = labels_of("a=\"x,y\",b=\"\\\"}\",c=\"\"");
        let expected = [("a", "x,y"), ("b", "\\\"}"), ("c", "")];
        assert_eq!(labels, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
