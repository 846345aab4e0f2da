//! Pages against what kube-proxy 1.36.4 said when it was given these flags.

use serde_json::Value;

use super::*;
use crate::flags::Flags;

const RECORDED: &str = include_str!("../../../serve/testdata/pages.txt");

const FLAGS: [&str; 13] = [
    "kube-proxy",
    "--master=http://127.0.0.1:8001",
    "--kube-api-content-type=application/json",
    "--hostname-override=n1",
    "--proxy-mode=iptables",
    "--cluster-cidr=10.1.0.0/16,fd00:10:1::/48",
    "--conntrack-max-per-core=0",
    "--conntrack-tcp-timeout-established=0",
    "--conntrack-tcp-timeout-close-wait=0",
    "--profiling",
    "--iptables-sync-period=30s",
    "--iptables-min-sync-period=100ms",
    "-v=2",
];

fn config(more: &[&str]) -> Config {
    let flags = FLAGS.iter().chain(more).map(Into::into);
    Flags::read(flags).expect("flags parse").check().expect("flags are right")
}

fn recorded(start: &str) -> &'static str {
    RECORDED.lines().find(|line| line.starts_with(start)).expect("recorded")
}

#[test]
fn the_configuration_is_kube_proxys_byte_by_byte() {
    let text = format!("{{\"kubeproxy.config.k8s.io\":{}}}", pages(&config(&[])).config);
    assert_eq!(text, recorded("{\"kubeproxy.config.k8s.io\":"));
}

#[test]
fn flags_have_kube_proxys_names_and_values() {
    let object: Value = serde_json::from_str(recorded("{\"kind\":\"Flagz\"")).expect("JSON");
    let theirs = object["flags"].as_object().expect("flags");
    let Flagz(ours) = pages(&config(&[])).flags.expect("a page");
    assert!(theirs.len() > 50);
    for (name, value) in theirs {
        assert_eq!(ours.get(name).map(String::as_str), value.as_str(), "--{name}");
    }
}

#[test]
fn gates_turn_pages_off_and_profiling_turns_pages_on() {
    let all = pages(&config(&[]));
    assert!(all.flags.is_some() && all.status.is_some() && all.profiling.is_some());
    let gates = "--feature-gates=ComponentFlagz=false,ComponentStatusz=false";
    let none = pages(&config(&[gates, "--profiling=false"]));
    assert!(none.flags.is_none() && none.status.is_none() && none.profiling.is_none());
}

#[test]
fn every_gate_of_kubernetes_is_a_metric() {
    let page = metrics(&config(&["--feature-gates=ComponentFlagz=false"]), &Family::ALL).render();
    assert!(page.contains("\nkubernetes_feature_enabled{name=\"ComponentFlagz\",stage=\"BETA\"} 0\n"));
    assert!(page.contains("\nkubernetes_feature_enabled{name=\"NFTablesProxyMode\",stage=\"\"} 1\n"));
}
