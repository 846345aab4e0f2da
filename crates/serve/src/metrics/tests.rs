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

/// A small strict parser of the classic format. Panics where a scraper would refuse or misread.
fn parse(page: &str) -> Parsed {
    let mut parsed = Parsed { types: Vec::new(), samples: BTreeMap::new() };
    let mut helped = None;
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split(' ').next();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(helped, Some(name), "HELP before TYPE");
            assert!(parsed.types.iter().all(|(other, _)| other != name), "{name} twice");
            parsed.types.push((name.to_owned(), kind.to_owned()));
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (family, kind) = parsed.types.last().expect("TYPE before samples");
            let name = series.split('{').next().unwrap();
            let suffix = name.strip_prefix(family.as_str()).expect("sample of its family");
            assert!(if kind == "histogram" { suffix.len() > 1 } else { suffix.is_empty() }, "{line}");
            let value = value.parse().unwrap();
            assert!(parsed.samples.insert(series.to_owned(), value).is_none(), "{series} twice");
        }
    }
    assert!(page.ends_with('\n'));
    parsed
}

fn touched(mode: Mode) -> Metrics {
    let metrics = Metrics::new(mode, &Family::ALL, "1.2.3");
    let time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
    for family in Family::ALL {
        metrics.sync_finished(family, SyncKind::Full, Duration::from_millis(2));
        metrics.sync_finished(family, SyncKind::Partial, Duration::from_secs(100));
        metrics.sync_succeeded(family, time);
        metrics.sync_queued(family, time);
        metrics.network_programmed(family, Duration::ZERO);
        metrics.no_local_endpoints(family, Scope::Internal, 3);
        metrics.iptables_rules(family, Table::Nat, 9, 4);
        metrics.restore_failed(family, SyncKind::Partial);
        metrics.conntrack_reconciled(family, Duration::from_millis(7), 5);
        metrics.rules_repaired(family, 1);
        metrics.kernel_ops(family, 12);
        metrics.nftables_sync_failed(family);
        metrics.nftables_cleanup_failed(family);
    }
    metrics.endpoints_changed(2);
    metrics.endpoint_changes_pending(1);
    metrics.services_changed(4);
    metrics.service_changes_pending(6);
    metrics.probed(Probe::Healthz, Verdict::Unavailable);
    metrics.probed(Probe::Livez, Verdict::Ok);
    metrics.frontend_conflicts(1);
    metrics.planned_service_ports(8);
    metrics
}

#[test]
fn names_and_types_in_iptables_mode() {
    let parsed = parse(&touched(Mode::Iptables).render());
    let names: Vec<_> = parsed.types.iter().map(|(name, kind)| format!("{name} {kind}\n")).collect();
    expect![[r#"
        kubeproxy_conntrack_reconciler_deleted_entries_total counter
        kubeproxy_conntrack_reconciler_sync_duration_seconds histogram
        kubeproxy_network_programming_duration_seconds histogram
        kubeproxy_proxy_healthz_total counter
        kubeproxy_proxy_livez_total counter
        kubeproxy_sync_full_proxy_rules_duration_seconds histogram
        kubeproxy_sync_partial_proxy_rules_duration_seconds histogram
        kubeproxy_sync_proxy_rules_duration_seconds histogram
        kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
        kubeproxy_sync_proxy_rules_endpoint_changes_total counter
        kubeproxy_sync_proxy_rules_iptables_last gauge
        kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total counter
        kubeproxy_sync_proxy_rules_iptables_restore_failures_total counter
        kubeproxy_sync_proxy_rules_iptables_total gauge
        kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge
        kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge
        kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge
        kubeproxy_sync_proxy_rules_service_changes_pending gauge
        kubeproxy_sync_proxy_rules_service_changes_total counter
        process_cpu_seconds_total counter
        process_max_fds gauge
        process_open_fds gauge
        process_resident_memory_bytes gauge
        process_start_time_seconds gauge
        process_virtual_memory_bytes gauge
        switchyard_build_info gauge
        switchyard_frontend_conflicts gauge
        switchyard_kernel_ops_total counter
        switchyard_planned_service_ports_total counter
        switchyard_quarantined_objects gauge
        switchyard_rules_repaired_total counter
    "#]]
    .assert_eq(&names.concat());
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
        kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1700000000.5
        kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1700000000.5
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
    for (name, _) in parsed.types.iter().filter(|(_, kind)| kind == "histogram") {
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
