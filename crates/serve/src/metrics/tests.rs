//! Names, types and values on the metrics page, and that text from outside cannot grow or break it.

use std::collections::BTreeSet;

use expect_test::expect;
use switchyard_model::Family::{V4, V6};

use super::*;

/// A page in pieces: sample lines under the name and type that announced them.
struct Parsed {
    types: Vec<(String, String)>,
    samples: BTreeMap<String, f64>,
}

/// A small strict parser of the classic format. Panics where a scraper would refuse or misread, and where `promtool
/// check metrics` would complain about the form.
fn parse(page: &str) -> Parsed {
    let mut parsed = Parsed { types: Vec::new(), samples: BTreeMap::new() };
    let mut helped = None;
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(
                !help.is_empty() && !help.replace("\\\\", "").replace("\\n", "").contains('\\'),
                "{line}"
            );
            helped = Some(name);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(helped, Some(name), "HELP before TYPE");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(parsed.types.iter().all(|(other, _)| other != name), "{name} twice");
            parsed.types.push((name.to_owned(), kind.to_owned()));
        } else {
            parsed.sample(line);
        }
    }
    assert!(page.ends_with('\n'));
    parsed
}

impl Parsed {
    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (family, kind) = self.types.last().expect("TYPE before samples");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte)),
            "{line}"
        );
        let suffix = name.strip_prefix(family.as_str()).expect("sample of its family");
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.contains(&suffix), "{line}");
        let names: Vec<_> =
            labels_of(labels.strip_suffix('}').unwrap()).into_iter().map(|(name, _)| name).collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{line}");
        let value = value.parse().unwrap();
        assert!(kind == "gauge" || value >= 0.0, "{line}");
        assert!(self.samples.insert(series.to_owned(), value).is_none(), "{series} twice");
    }
}

/// `a="b",c="d"` in pieces; values stay escaped.
fn labels_of(mut text: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap();
        assert!(
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{text}"
        );
        let mut is_escaped = false;
        let end = rest.find(|c| {
            let is_end = c == '"' && !is_escaped;
            assert!(!is_escaped || ['\\', '"', 'n'].contains(&c), "{text}");
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        let (value, rest) = rest.split_at(end.unwrap());
        labels.push((name.to_owned(), value.to_owned()));
        let rest = rest.strip_prefix('"').unwrap();
        text = rest.strip_prefix(',').unwrap_or(rest);
        assert!(rest.is_empty() || rest.len() > text.len(), "{rest}");
    }
    labels
}

/// Names, types, labels, help texts and buckets, as `testdata/metrics.txt` has them.
fn shapes(page: &str) -> BTreeMap<String, String> {
    let mut shapes: BTreeMap<String, (String, String, BTreeSet<String>, Vec<String>)> = BTreeMap::new();
    let mut help = "";
    let mut name = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            (name, help) = rest.split_once(' ').unwrap();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let kind = rest.split_once(' ').unwrap().1;
            shapes.insert(name.to_owned(), (kind.to_owned(), help.to_owned(), BTreeSet::new(), Vec::new()));
        } else if let Some((_, rest)) = line.split_once('{') {
            let shape = shapes.get_mut(name).unwrap();
            for (label, value) in labels_of(rest.rsplit_once('}').unwrap().0) {
                if label != "le" {
                    shape.2.insert(label);
                } else if !shape.3.contains(&value) {
                    shape.3.push(value);
                }
            }
        }
    }
    let text =
        |(name, (kind, help, labels, buckets)): (String, (String, String, BTreeSet<String>, Vec<String>))| {
            let labels = labels.into_iter().collect::<Vec<_>>().join(",");
            let buckets =
                if buckets.is_empty() { String::new() } else { format!("  {}\n", buckets.join(" ")) };
            (name.clone(), format!("{name} {kind} {{{labels}}} {help}\n{buckets}"))
        };
    shapes.into_iter().map(text).collect()
}

#[test]
fn every_metric_has_kube_proxys_name_type_labels_help_and_buckets() {
    let mut ours = shapes(&touched(Mode::Iptables).render());
    ours.extend(shapes(&touched(Mode::Nftables).render()));
    ours.retain(|name, _| !name.starts_with("switchyard_"));
    let recorded = include_str!("../../testdata/metrics.txt");
    assert_eq!(ours.into_values().collect::<String>(), recorded);
}

fn touched(mode: Mode) -> Metrics {
    let metrics = Metrics::new(mode, &Family::ALL, "1.2.3");
    let time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
    for family in Family::ALL {
        metrics.sync_finished(family, SyncKind::Full, Duration::from_millis(2));
        metrics.sync_finished(family, SyncKind::Partial, Duration::from_secs(100));
        metrics.sync_succeeded(family, time);
        metrics.sync_recorded(family, SyncOutcome::Written, Some(Duration::from_millis(3)));
        metrics.sync_queued(family, time);
        metrics.network_programmed(family, Duration::ZERO);
        metrics.no_local_endpoints(family, Scope::Internal, 3);
        metrics.iptables_rules(family, Table::Nat, 9, 4);
        metrics.restore_failed(family, SyncKind::Partial);
        metrics.conntrack_reconciled(family, Duration::from_millis(7), 5);
        metrics.rules_repaired(family, 1);
        metrics.kernel_ops(family, 12);
        metrics.nftables_sync_failed(family);
    }
    metrics.endpoints_changed(2);
    metrics.endpoint_changes_pending(1);
    metrics.services_changed(4);
    metrics.service_changes_pending(6);
    metrics.probed(Probe::Healthz, Verdict::Unavailable);
    metrics.probed(Probe::Livez, Verdict::Ok);
    metrics.packets_counted(Box::new(move || PacketCounts {
        invalid_dropped: (mode == Mode::Iptables).then_some(3),
        loopback_accepted: (mode == Mode::Iptables).then_some(4),
    }));
    let gate = |name: &str, stage, is_enabled| Feature { name: name.to_owned(), stage, is_enabled };
    metrics.features(vec![gate("A", Stage::Alpha, false), gate("B", Stage::Stable, true)]);
    let took = Some(Duration::from_millis(3));
    metrics.api_answered(&ApiAnswer { host: "10.0.0.1:6443", method: "GET", status: Some(200), took });
    metrics.frontend_conflicts(1);
    metrics.planned_service_ports(8);
    metrics.events_lost(Box::new(|| 7));
    metrics
}

#[test]
fn our_own_metrics() {
    let ours = shapes(&touched(Mode::Iptables).render()).into_iter();
    let ours: String =
        ours.filter(|(name, _)| name.starts_with("switchyard_")).map(|(_, text)| text).collect();
    expect![[r#"
        switchyard_build_info gauge {version} The running version; always 1.
        switchyard_change_latency_seconds histogram {ip_family} From when the first change of a sync was seen to when the kernel had it.
          0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384 +Inf
        switchyard_events_lost_total counter {} Kubernetes Events lost because there were too many at once, or about one object.
        switchyard_frontend_conflicts gauge {} Frontends that more than one service port wants.
        switchyard_kernel_ops_total counter {ip_family} Changes written to the kernel.
        switchyard_planned_service_ports_total counter {} Service ports planned.
        switchyard_quarantined_objects gauge {kind} Objects set aside because something is wrong with them.
        switchyard_rules_repaired_total counter {ip_family} Rules found missing or altered and put right.
        switchyard_syncs_total counter {ip_family,outcome} Syncs that wrote to the kernel, by how they ended.
    "#]]
    .assert_eq(&ours);
}

#[test]
fn lost_events_are_counted_where_they_are_lost() {
    let page = touched(Mode::Iptables).render();
    assert!(page.contains("switchyard_events_lost_total 7\n"), "{page}");
    let page = Metrics::new(Mode::Iptables, &[V4], "1").render();
    assert!(
        page.contains("switchyard_events_lost_total 0\n"),
        "without an API server there are none: {page}"
    );
}

#[test]
fn gates_and_build() {
    let page = touched(Mode::Iptables).render();
    assert!(page.contains("kubernetes_feature_enabled{name=\"A\",stage=\"ALPHA\"} 0\n"));
    assert!(page.contains("kubernetes_feature_enabled{name=\"B\",stage=\"\"} 1\n"));
    assert!(
        page.contains("git_version=\"v1.36.4+switchyard.1.2.3\",go_version=\"\",major=\"1\",minor=\"36\"")
    );
}

#[test]
fn other_modes_have_their_own_failures_and_no_iptables() {
    let page = touched(Mode::Nftables).render();
    assert!(page.contains("kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 1\n"));
    assert!(!page.contains("iptables"), "{page}");
    let page = touched(Mode::Ipvs).render();
    assert!(page.contains("iptables_restore_failures_total"));
    assert!(!page.contains("sync_full_proxy_rules"));
}

#[test]
fn samples_without_buckets() {
    let page = touched(Mode::Iptables).render();
    let lines = page.lines().filter(|line| {
        line.starts_with("kubeproxy") && !line.contains("_bucket") && !line.contains("ip_family=\"IPv6\"")
    });
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    expect![[r#"
        kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"} 5
        kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"} 0.007
        kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} 1
        kubeproxy_iptables_ct_state_invalid_dropped_packets_total 3
        kubeproxy_iptables_localhost_nodeports_accepted_packets_total 4
        kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"} 0
        kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 1
        kubeproxy_proxy_healthz_total{code="200"} 0
        kubeproxy_proxy_healthz_total{code="503"} 1
        kubeproxy_proxy_livez_total{code="200"} 1
        kubeproxy_proxy_livez_total{code="503"} 0
        kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 0.002
        kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
        kubeproxy_sync_partial_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 100
        kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"} 1
        kubeproxy_sync_proxy_rules_duration_seconds_sum{ip_family="IPv4"} 100.002
        kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"} 2
        kubeproxy_sync_proxy_rules_endpoint_changes_pending 1
        kubeproxy_sync_proxy_rules_endpoint_changes_total 2
        kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="filter"} 0
        kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 4
        kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family="IPv4"} 1
        kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"} 1
        kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="filter"} 0
        kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 9
        kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.7000000005e+09
        kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.7000000005e+09
        kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 0
        kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 3
        kubeproxy_sync_proxy_rules_service_changes_pending 6
        kubeproxy_sync_proxy_rules_service_changes_total 4
    "#]]
    .assert_eq(&text);
}

#[test]
fn histograms_are_cumulative_and_end_with_inf() {
    let page = touched(Mode::Iptables).render();
    let parsed = parse(&page);
    let ours = |(name, kind): &&(String, String)| name.starts_with("kubeproxy_") && kind == "histogram";
    for (name, _) in parsed.types.iter().filter(ours) {
        for family in ["IPv4", "IPv6"] {
            let prefix = format!("{name}_bucket{{ip_family=\"{family}\",le=\"");
            let buckets: Vec<(f64, f64)> = page
                .lines()
                .filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "))
                .map(|(bound, value)| (bound.parse().unwrap(), value.parse().unwrap()))
                .collect();
            assert!(buckets.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1), "{name}");
            let (bound, last) = *buckets.last().unwrap();
            assert!(bound.is_infinite());
            assert_eq!(parsed.samples[&format!("{name}_count{{ip_family=\"{family}\"}}")], last);
            assert_eq!(buckets.len(), if name.contains("programming") { 82 } else { 16 }, "{name}");
        }
    }
    assert!(page.contains("sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.002\"} 1\n"));
    assert!(page.contains("programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0\"} 1\n"));
    assert!(page.contains("le=\"16.384\""));
}

#[test]
fn untouched_metrics_are_there_but_times_are_not() {
    let metrics = Metrics::new(Mode::Iptables, &[V4], "1");
    metrics.sync_succeeded(V6, UNIX_EPOCH);
    let page = metrics.render();
    parse(&page);
    assert!(page.contains("restore_failures_total{ip_family=\"IPv4\"} 0\n"));
    assert!(page.contains("duration_seconds_count{ip_family=\"IPv4\"} 0\n"));
    assert!(!page.contains("timestamp_seconds") && !page.contains("IPv6"), "{page}");
}

#[test]
fn text_from_outside_cannot_make_lines_or_many_series() {
    let metrics = Metrics::new(Mode::Other, &[V4], "1\"\\\n# TYPE x counter");
    let evil = (0..1000).map(|n| (Arc::from(format!("k{n}\"}} 1\nevil\r{}", "x".repeat(500))), n));
    metrics.quarantined(evil.chain([(Arc::from("Service"), 7)]).collect());
    let page = metrics.render();
    let parsed = parse(&page);
    assert!(page.contains(r#"switchyard_build_info{version="1\"\\\n# TYPE x counter"} 1"#), "{page}");
    assert!(page.contains("switchyard_quarantined_objects{kind=\"Service\"} 7\n"));
    let kinds: BTreeSet<_> = parsed.samples.keys().filter(|name| name.contains("quarantined")).collect();
    assert_eq!(kinds.len(), KINDS.len() + MAX_KINDS);
    assert!(page.lines().all(|line| line.chars().count() < 400));
}
