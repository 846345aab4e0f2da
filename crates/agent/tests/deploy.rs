//! What `deploy/` holds is what the documentation says, and this program understands it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends at the first surprise")]

#[path = "deploy/expressions.rs"]
mod expressions;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::{Value, json};
use switchyard_model::Family;
use switchyard_serve::metrics::{Metrics, Mode, RelayCounts};

use expressions::{Known, selectors};

/// How alerts know our scrape job.
const JOB: &str = "switchyard";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// The documents of a manifest file.
fn documents(path: &str) -> Vec<Value> {
    let text = read(path);
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn the<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let mut found = documents.iter().filter(|document| document["kind"] == kind);
    let only = found.next().ok_or(kind).unwrap();
    assert!(found.next().is_none(), "more than one {kind}");
    only
}

/// What the program makes of a configuration file and further arguments.
fn understood(configuration: &str, arguments: &[String]) -> String {
    let place = tempfile::tempdir().unwrap();
    let (file, out) = (place.path().join("config.conf"), place.path().join("out"));
    fs::write(&file, configuration).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.arg("--config").arg(&file).args(arguments).arg("--write-config-to").arg(&out);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(out).unwrap()
}

#[test]
fn the_manifest_asks_for_what_is_needed_and_no_more() {
    let documents = documents("deploy/switchyard.yaml");
    let role = &the(&documents, "ClusterRoleBinding")["roleRef"];
    assert_eq!((&role["kind"], &role["name"]), (&json!("ClusterRole"), &json!("system:node-proxier")));
    let pod = &the(&documents, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    assert_eq!(pod["tolerations"], json!([{ "operator": "Exists" }]));
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert_eq!(pod["securityContext"], json!({ "seccompProfile": { "type": "RuntimeDefault" } }));
    assert_eq!(pod["serviceAccountName"], the(&documents, "ServiceAccount")["metadata"]["name"]);
    let proxy = &pod["containers"][0];
    let capabilities = json!({ "drop": ["ALL"], "add": ["NET_ADMIN"] });
    let context = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": capabilities,
    });
    assert_eq!(proxy["securityContext"], context);
    assert_eq!(proxy["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(proxy["readinessProbe"]["httpGet"]["path"], "/healthz");
}

#[test]
fn the_program_understands_the_manifest() {
    let documents = documents("deploy/switchyard.yaml");
    let pod = &the(&documents, "DaemonSet")["spec"]["template"]["spec"];
    let configuration = the(&documents, "ConfigMap")["data"]["config.conf"].as_str().unwrap();
    for container in [&pod["initContainers"][0], &pod["containers"][0]] {
        let arguments = container["args"].as_array().unwrap().iter().filter_map(Value::as_str);
        let arguments: Vec<String> =
            arguments.map(|argument| argument.replace("$(NODE_NAME)", "n1")).collect();
        assert_eq!(arguments[..2], ["--config=/etc/switchyard/config.conf", "--hostname-override=n1"]);
        let understood = understood(configuration, &arguments[1..2]);
        for line in
            ["mode: nftables\n", "clusterCIDR: 10.244.0.0/16\n", "metricsBindAddress: 0.0.0.0:10249\n"]
        {
            assert!(understood.contains(line), "{line:?} is not in {understood}");
        }
    }
}

#[test]
fn the_unit_gives_what_the_documentation_lists() {
    let unit = read("deploy/systemd/switchyard.service");
    let value =
        |name: &str| unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
    for name in ["CapabilityBoundingSet", "AmbientCapabilities"] {
        assert_eq!(value(name), "CAP_NET_ADMIN CAP_NET_RAW");
    }
    assert_eq!(value("ExecStart"), "/usr/local/bin/switchyard --config /etc/switchyard/config.conf");
}

#[test]
fn the_program_understands_the_sample_for_the_unit() {
    let sample = read("deploy/systemd/config.conf");
    let understood = understood(&sample, &[]);
    for line in ["mode: nftables\n", "  kubeconfig: /etc/switchyard/kubeconfig\n"] {
        assert!(understood.contains(line), "{line:?} is not in {understood}");
    }
    assert_eq!(sample.matches(" # set: ").count(), 3);
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let place = tempfile::tempdir().unwrap();
    let unit = place.path().join("switchyard.service");
    let here = env!("CARGO_BIN_EXE_switchyard");
    fs::write(&unit, read("deploy/systemd/switchyard.service").replace("/usr/local/bin/switchyard", here))
        .unwrap();
    match Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.is_empty(), "{text}");
        }
        Err(error) => {
            assert!(
                std::env::var("LAB").as_deref() != Ok("require"),
                "LAB=require, but systemd-analyze: {error}"
            );
            writeln!(std::io::stderr(), "SKIPPED: no systemd-analyze: {error}").unwrap();
        }
    }
}

/// A page of every mode, with every series that there can be but those of packets.
fn pages() -> Vec<String> {
    let modes = [Mode::Iptables, Mode::Nftables, Mode::Other];
    let page = |mode| {
        let metrics = Metrics::new(mode, &Family::ALL, "1");
        for family in Family::ALL {
            metrics.sync_queued(family, SystemTime::now());
            metrics.sync_succeeded(family, SystemTime::now());
        }
        metrics.relay_counted(Box::new(RelayCounts::default));
        metrics.render()
    };
    modes.into_iter().map(page).collect()
}

fn alerts() -> Vec<Value> {
    let file = &documents("deploy/helm/switchyard/alerts.yaml")[0];
    file["groups"][0]["rules"].as_array().unwrap().clone()
}

fn panels() -> Vec<Value> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana.json")).unwrap();
    dashboard["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row").cloned().collect()
}

fn expressions(of: &[Value]) -> Vec<&str> {
    of.iter().map(|one| one["expr"].as_str().unwrap()).collect()
}

#[test]
fn alerts_and_dashboard_ask_for_series_and_labels_that_exist() {
    let known = Known::of(&pages());
    let (alerts, panels) = (alerts(), panels());
    let targets: Vec<Value> =
        panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()).cloned().collect();
    let all = [expressions(&alerts), expressions(&targets)].concat();
    assert!(all.len() > 30, "{all:?}");
    let unknown: Vec<String> = all.iter().flat_map(|expression| known.unknown(expression)).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    let dashboard = read("deploy/grafana.json");
    assert!(dashboard.contains("label_values(switchyard_build_info, instance)"));
}

#[test]
fn what_does_not_exist_is_noticed() {
    let known = Known::of(&pages());
    for (expression, complaint) in [
        ("sum(switchyard_sync_total)", "no series switchyard_sync_total"),
        (r#"switchyard_syncs_total{result="failed"}"#, "has no label result"),
        (r#"switchyard_syncs_total{outcome="fails"}"#, r#"outcome="fails""#),
        ("sum by (node) (switchyard_syncs_total)", "the label node"),
    ] {
        let wrong = known.unknown(expression);
        assert!(wrong.len() == 1 && wrong[0].contains(complaint), "{expression}: {wrong:?}");
    }
}

/// kube-proxy's names alone could be those of a kube-proxy on another node.
#[test]
fn alerts_are_about_our_job() {
    for selector in expressions(&alerts()).iter().flat_map(|expression| selectors(expression)) {
        let jobs: Vec<_> = selector.matchers.iter().filter(|(label, ..)| label == "job").collect();
        assert!(jobs.iter().all(|(.., value)| value == JOB), "{selector:?}");
        assert!(selector.name.starts_with("switchyard_") || jobs.len() == 1, "{selector:?}");
    }
}

/// `e2e_cluster` runs the tests of alerts: what goes in must be what the program shows.
#[test]
fn every_alert_is_tried_with_series_that_exist() {
    let text = read("deploy/alerts.test.yaml");
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(text.contains(&format!("alertname=\"{name}\"")), "{name} is never tried");
    }
    let known = Known::of(&pages());
    let mut count = 0;
    for test in documents("deploy/alerts.test.yaml")[0]["tests"].as_array().unwrap() {
        for input in test["input_series"].as_array().unwrap() {
            let wrong = known.unknown(input["series"].as_str().unwrap());
            assert!(wrong.is_empty(), "{}: {wrong:?}", test["name"]);
            count += 1;
        }
    }
    assert!(count > 40);
}

#[test]
fn the_dashboard_and_the_alerts_are_complete() {
    for panel in panels() {
        let targets = panel["targets"].as_array().unwrap();
        assert!(targets.iter().all(|target| !target["expr"].as_str().unwrap().is_empty()), "{panel}");
    }
    for alert in alerts() {
        assert!(alert["alert"].is_string() && alert["expr"].is_string(), "{alert}");
        assert!(
            alert["annotations"]["summary"].is_string() && alert["labels"]["severity"].is_string(),
            "{alert}"
        );
    }
}

/// Templates are no YAML before they are rendered; what can be checked is that every value they ask for has a default.
#[test]
fn every_value_that_the_chart_asks_for_has_a_default() {
    let chart = repository().join("deploy/helm/switchyard");
    let defaults = &documents("deploy/helm/switchyard/values.yaml")[0];
    let mut asked = 0;
    for entry in fs::read_dir(chart.join("templates")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for path in text.split(".Values.").skip(1) {
            let end = path.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.').unwrap();
            let (path, _) = path.split_at(end);
            assert!(
                !path.split('.').fold(defaults, |value, name| &value[name]).is_null(),
                "no default of {path}"
            );
            asked += 1;
        }
    }
    assert!(asked > 15);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(documents("deploy/helm/switchyard/Chart.yaml")[0]["appVersion"], version);
}

/// The READMEs and the installation page install with one command; the manifest has as many lines to set.
#[test]
fn the_one_command_sets_what_the_manifest_marks() {
    let defaults = &documents("deploy/helm/switchyard/values.yaml")[0];
    for file in ["README.md", "README.zh.md", "docs/install.md"] {
        let text = read(file).replace("\\\n", " ");
        let command = text.lines().find(|line| line.starts_with("$ helm install ")).ok_or(file).unwrap();
        let words: Vec<&str> = command.split_whitespace().collect();
        assert_eq!(words[..6], ["$", "helm", "install", "switchyard", "deploy/helm/switchyard", "-n"]);
        let settings = command.split(" --set ").skip(1).map(|setting| setting.split_once('=').unwrap().0);
        let is_value = |path: &str| path.split('.').fold(defaults, |value, name| &value[name]).is_string();
        assert_eq!(settings.filter(|path| is_value(path)).count(), 3, "{file}: {command}");
    }
    assert_eq!(read("deploy/switchyard.yaml").matches(" # set: ").count(), 3);
}

#[test]
fn the_three_commands_are_those_of_the_page() {
    let (readme, page) = (read("README.md"), read("docs/debugging.md"));
    let (_, section) = readme.split_once("## Debug a Service in three commands\n").unwrap();
    let commands: Vec<&str> = section
        .lines()
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("# "))
        .collect();
    assert_eq!(commands.len(), 3);
    assert!(commands.iter().all(|line| page.contains(line)), "{commands:?}");
}

/// The chart and the plain manifest install the same thing.
#[test]
fn the_chart_asks_for_no_more_than_the_manifest() {
    let defaults = &documents("deploy/helm/switchyard/values.yaml")[0];
    let manifest = documents("deploy/switchyard.yaml");
    let daemon_set = &the(&manifest, "DaemonSet")["spec"];
    let pod = &daemon_set["template"]["spec"];
    assert_eq!(defaults["capabilities"], pod["containers"][0]["securityContext"]["capabilities"]["add"]);
    assert_eq!(defaults["tolerations"], pod["tolerations"]);
    assert_eq!(defaults["priorityClassName"], pod["priorityClassName"]);
    assert_eq!(defaults["resources"], pod["containers"][0]["resources"]);
    assert_eq!(defaults["updateStrategy"], daemon_set["updateStrategy"]);
    assert!(read("deploy/helm/switchyard/templates/rbac.yaml").contains("name: system:node-proxier\n"));
}
