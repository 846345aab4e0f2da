//! Alert rules and the dashboard's expressions, read and tried by Prometheus' own `promtool`. What series they may ask for is checked in
//! `deploy.rs`, with no other program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::e2e::programs::promtool_or_skip;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `promtool` prints, if it is content.
fn promtool(program: &Path, task: [&str; 2], file: &Path) -> String {
    let output = Command::new(program).args(task).arg(file).output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{task:?}: {text}");
    text
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let Some(program) = promtool_or_skip() else { return };
    let deploy = repository().join("deploy");
    let checked = promtool(&program, ["check", "rules"], &deploy.join("helm/switchyard/alerts.yaml"));
    assert!(checked.contains("10 rules found"), "{checked}");
    promtool(&program, ["test", "rules"], &deploy.join("alerts.test.yaml"));
}

/// Each expression of the dashboard as a rule, with what Grafana puts in place of its variables.
#[test]
fn the_dashboard_asks_in_prometheus_language() {
    let Some(program) = promtool_or_skip() else { return };
    let text = fs::read_to_string(repository().join("deploy/grafana.json")).unwrap();
    let text = text.replace("$instance", "n1|n2").replace("$__rate_interval", "2m");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let rules: Vec<Value> = targets
        .enumerate()
        .map(|(index, target)| json!({ "record": format!("panel:{index}"), "expr": target["expr"] }))
        .collect();
    assert!(rules.len() > 20);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("rules.yaml");
    fs::write(&file, json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string()).unwrap();
    promtool(&program, ["check", "rules"], &file);
}

/// For those who have no operator: the documentation's own lines.
#[test]
fn the_scrape_job_of_the_documentation_is_one() {
    let Some(program) = promtool_or_skip() else { return };
    let text = fs::read_to_string(repository().join("docs/install.md")).unwrap();
    let (_, rest) = text.split_once("```yaml\nscrape_configs:").unwrap();
    let (job, _) = rest.split_once("```").unwrap();
    assert!(job.contains("- job_name: switchyard\n"), "alerts know it by this name");
    // Debian builds Prometheus without knowledge of Kubernetes: the rest is looked at.
    let (before, after) = job.split_once("    kubernetes_sd_configs:").unwrap();
    let (_, after) = after.split_once("    relabel_configs:").unwrap();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("prometheus.yaml");
    fs::write(&file, format!("scrape_configs:{before}    relabel_configs:{after}")).unwrap();
    promtool(&program, ["check", "config"], &file);
}
