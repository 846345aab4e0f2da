//! Two pages of metrics, made comparable.
//!
//! In: two texts in Prometheus' format. Out: how they differ: families that only one of them has, and types, help texts, label names, bucket
//! bounds and, in kube-proxy's own families, series that differ. Of values only this counts: what is 0 may be with us alone, because our
//! series are there from the start, and kube-proxy's with their first sample. See docs/differences.md.

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

/// What kube-proxy has nothing like.
const OURS: &str = "switchyard_";

/// Every name that kube-proxy can have, at the beginning of a line: also of what has no sample yet.
const RECORDED: &str = include_str!("../../../serve/testdata/metrics.txt");

/// A family of series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    buckets: Vec<String>,
    series: BTreeSet<String>,
    /// Those of them that are not 0.
    counted: BTreeSet<String>,
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
            } else if let Some((series, value)) = line.rsplit_once(' ') {
                add_series(&mut families, series, value);
            }
        }
        Self(families)
    }

    /// How many families there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What only one of them has, or not the same.
    pub(crate) fn difference(upstream: &Self, ours: &Self) -> String {
        let mut text = String::new();
        for (name, theirs) in &upstream.0 {
            match ours.0.get(name) {
                Some(ours) => text.push_str(&Family::difference(name, theirs, ours)),
                None if is_left_out(name) => {}
                None => text.push_str(&format!("  {name} only with kube-proxy\n")),
            }
        }
        let more = ours.0.iter().filter(|(name, _)| !upstream.0.contains_key(*name));
        for (name, _) in more.filter(|(name, family)| !family.may_be_ours_alone(name)) {
            text.push_str(&format!("  {name} only with switchyard\n"));
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
            let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| {
                these.difference(those).map(String::as_str).collect::<Vec<_>>().join(" ")
            };
            differ("series", only(&theirs.series, &ours.series), only(&ours.counted, &theirs.series));
        }
        text
    }

    /// Our own, or a counter of kube-proxy's that has counted nothing yet: there it has no series until then.
    fn may_be_ours_alone(&self, name: &str) -> bool {
        let is_counter = matches!(self.kind.as_str(), "counter" | "histogram");
        let is_recorded = RECORDED.lines().any(|line| line.split(' ').next() == Some(name));
        name.starts_with(OURS) || (is_recorded && is_counter && self.counted.is_empty())
    }
}

/// Samples of a histogram belong to the family before their ending.
fn add_series(families: &mut BTreeMap<String, Family>, series: &str, value: &str) {
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
    let series = format!("{{{}}}", kept.join(","));
    if value.parse::<f64>() != Ok(0.0) {
        family.counted.insert(series.clone());
    }
    family.series.insert(series);
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
    fn values_and_what_is_ours_are_no_difference() {
        assert_eq!(difference(PAGE), "");
        assert_eq!(difference(&PAGE.replace("} 2", "} 3")), "");
        assert_eq!(difference(&format!("{PAGE}# TYPE switchyard_own gauge\nswitchyard_own 1\n")), "");
        assert_eq!(difference(&PAGE.replace("go_c", "switchyard_c")), "");
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
    fn what_only_we_have_is_told_unless_it_counted_nothing() {
        let family = |name: &str, kind: &str, value: u8| {
            difference(&format!("{PAGE}# TYPE {name} {kind}\n{name}{{f=\"6\"}} {value}\n"))
        };
        let real = "kubeproxy_sync_proxy_rules_iptables_restore_failures_total";
        assert_eq!(family(real, "counter", 0), "");
        for (name, kind, value) in [
            (real, "counter", 1),
            (real, "gauge", 0),
            ("kubeproxy_d", "counter", 0),
            ("process_d", "gauge", 1),
        ] {
            assert_eq!(family(name, kind, value), format!("  {name} only with switchyard\n"));
        }
        let series = |value: u8| {
            let more = format!(
                "kubeproxy_a_bucket{{f=\"6\",le=\"1\"}} 0\nkubeproxy_a_count{{f=\"6\"}} {value}\n# HELP b"
            );
            difference(&PAGE.replace("# HELP b", &more))
        };
        assert_eq!(series(0), "");
        assert!(series(1).contains("series of kubeproxy_a\n    kube-proxy: \n    switchyard: {f=\"6\"}\n"));
    }

    #[test]
    fn labels_are_read_as_a_scraper_does() {
        let labels = labels_of("a=\"x,y\",b=\"\\\"}\",c=\"\"");
        let expected = [("a", "x,y"), ("b", "\\\"}"), ("c", "")];
        assert_eq!(labels, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
