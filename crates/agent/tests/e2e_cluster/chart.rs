//! The Helm chart, rendered by Helm, and the plain manifest: an API server takes every object of both, and they install the same thing.

#![expect(clippy::indexing_slicing, clippy::panic, reason = "a test ends at the first surprise")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::e2e::api::Api;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::programs::{CHART, find_or_skip};

/// What the manifest has where it says "set", but for the address of the API server, which it leaves open.
const HOST: &str = "192.0.2.10";

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("---\n").map(|document| serde_saphyr::from_str::<Value>(document).unwrap());
    documents.filter(|document| !document.is_null()).collect()
}

/// What `helm template` would print, or its complaint.
fn render(program: &Path, arguments: &[&str], values: &Value) -> Result<Vec<Value>, String> {
    let mut command = Command::new(program);
    command.args(arguments).arg(deploy().join("helm/switchyard"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(values.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(documents(&text(&output.stdout))) } else { Err(text(&output.stderr)) }
}

fn manifest() -> Vec<Value> {
    let text = fs::read_to_string(deploy().join("switchyard.yaml")).unwrap();
    documents(&text.replace("value: \"\" # set", &format!("value: {HOST} # set")))
}

/// Where objects of a kind are.
fn list_of(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    match object["kind"].as_str().unwrap() {
        "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
        "ConfigMap" => format!("/api/v1/namespaces/{namespace}/configmaps"),
        "Pod" => format!("/api/v1/namespaces/{namespace}/pods"),
        "DaemonSet" => format!("/apis/apps/v1/namespaces/{namespace}/daemonsets"),
        "ClusterRoleBinding" => "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(),
        other => panic!("nobody installs a {other}"),
    }
}

/// The object as the API server would keep it, with all defaults, if it has no unknown field and no wrong one.
fn accepted(api: &Api, object: &Value) -> Value {
    let list = format!("{}?dryRun=All&fieldValidation=Strict", list_of(object));
    api.create(&list, object).unwrap_or_else(|refused| panic!("{refused}\n{object:#}"))
}

/// The program must understand a configuration.
fn assert_understood(config_map: &Value) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("config.conf");
    fs::write(&file, config_map["data"]["config.conf"].as_str().unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.arg("--config").arg(&file).arg("--write-config-to").arg(place.path().join("out"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// All objects of a rendering or of the manifest, as they would be kept; of a DaemonSet its pods, too.
fn install(api: &Api, objects: &[Value]) -> Vec<Value> {
    let (mut kept, mut accounts) = (Vec::new(), Vec::new());
    for object in objects {
        kept.push(accepted(api, object));
        match object["kind"].as_str().unwrap() {
            "ConfigMap" => assert_understood(object),
            // A pod must find its account.
            "ServiceAccount" => {
                let list = list_of(object);
                let made = api.create(&list, object).unwrap();
                accounts.push(format!("{list}/{}", made["metadata"]["name"].as_str().unwrap()));
            }
            "DaemonSet" => {
                let mut pod = object["spec"]["template"].clone();
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                pod["metadata"]["name"] = json!("switchyard-x");
                pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
                let pod = accepted(api, &pod);
                // The number of the class system-node-critical: admission knows it.
                assert_eq!(pod["spec"]["priority"], 2_000_001_000);
            }
            _ => {}
        }
    }
    accounts.iter().for_each(|account| drop(api.delete(account).unwrap()));
    kept
}

/// What remains of an object without what the API server gives to each, and without what only Helm writes.
fn meaning(mut object: Value) -> Value {
    let name = object["metadata"]["name"].clone();
    object["metadata"] = json!({ "name": name, "namespace": object["metadata"]["namespace"] });
    for pointer in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        if let Some(labels) = object.pointer_mut(pointer) {
            *labels = labels["app.kubernetes.io/name"].clone();
        }
    }
    if let Some(metadata) = object.pointer_mut("/spec/template/metadata").and_then(Value::as_object_mut) {
        metadata.remove("annotations");
    }
    if let Some(configuration) = object.pointer_mut("/data/config.conf") {
        *configuration = serde_saphyr::from_str(configuration.as_str().unwrap()).unwrap();
    }
    object
}

#[test]
fn the_chart_and_the_manifest_install_the_same() {
    let Some(program) = find_or_skip(CHART) else { return };
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let api = control_plane.api();
    let values = json!({ "apiServer": { "host": HOST }, "config": { "clusterCIDR": "10.244.0.0/16" } });
    let [manifest, chart] = [manifest(), render(&program, &[], &values).unwrap()].map(|objects| {
        let mut kept: Vec<Value> = install(&api, &objects).into_iter().map(meaning).collect();
        kept.sort_by_key(|object| object["kind"].to_string());
        kept
    });
    assert_eq!((manifest.len(), chart.len()), (4, 4));
    for (plain, rendered) in manifest.iter().zip(&chart) {
        assert!(plain == rendered, "the manifest has\n{plain:#}\nand the chart\n{rendered:#}");
    }
    other_values_are_accepted(&program, &api);
}

/// Each of these is what somebody would set.
fn other_values_are_accepted(program: &Path, api: &Api) {
    let pod = |objects: &[Value]| {
        let daemon_set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
        daemon_set["spec"]["template"]["spec"].clone()
    };
    install(api, &render(program, &[], &json!({})).unwrap());
    let legacy = json!({
        "config": { "mode": "iptables" }, "capabilities": ["NET_ADMIN", "NET_RAW"], "extraArgs": ["--v=4"],
        "image": { "repository": "registry.example/switchyard", "tag": "1", "pullSecrets": [{ "name": "registry" }] },
        "podLabels": { "team": "network" }, "podAnnotations": { "note": "a: b" },
    });
    let legacy = pod(&install(api, &render(program, &["--name=proxy"], &legacy).unwrap()));
    let container = &legacy["containers"][0];
    assert_eq!(container["image"], "registry.example/switchyard:1");
    assert_eq!(container["args"][2], "--v=4");
    assert_eq!(container["securityContext"]["capabilities"]["add"], json!(["NET_ADMIN", "NET_RAW"]));
    assert_eq!(legacy["serviceAccountName"], "proxy");
    let bare = json!({
        "prepareKernel": false, "nodeSelector": { "proxy": "switchyard" }, "updateStrategy": { "type": "OnDelete", "rollingUpdate": null },
        "config": { "mode": "userspace", "healthzBindAddress": "[::]:10300", "conntrack": { "maxPerCore": 0 } },
    });
    let bare = pod(&install(api, &render(program, &["--kube-version=v1.21.0"], &bare).unwrap()));
    assert_eq!(bare["initContainers"], Value::Null);
    assert_eq!(bare["nodeSelector"], json!({ "proxy": "switchyard", "kubernetes.io/os": "linux" }));
    assert_eq!(bare["containers"][0]["ports"][1]["hostPort"], 10300);
}

/// The definitions of these kinds are the Prometheus operator's, so no API server here can judge them.
#[test]
fn monitoring_is_rendered_when_it_is_asked_for() {
    let Some(program) = find_or_skip(CHART) else { return };
    for (asked, kinds) in [("podMonitor", ["PodMonitor"]), ("alerts", ["PrometheusRule"])] {
        let rendered = render(&program, &[], &json!({ "monitoring": { asked: true } })).unwrap();
        let found: Vec<&Value> =
            rendered.iter().filter(|o| o["apiVersion"] == "monitoring.coreos.com/v1").collect();
        assert!(found.iter().map(|object| &object["kind"]).eq(kinds), "{found:?}");
    }
    let values = json!({ "monitoring": { "alerts": true, "podMonitor": true } });
    let rendered = render(&program, &["--name=proxy", "--namespace=net"], &values).unwrap();
    let the = |kind: &str| rendered.iter().find(|object| object["kind"] == kind).unwrap();
    // Alerts ask for this job, whatever the release is called.
    let label = the("PodMonitor")["spec"]["jobLabel"].as_str().unwrap();
    assert_eq!(the("DaemonSet")["spec"]["template"]["metadata"]["labels"][label], "switchyard");
    let endpoint = &the("PodMonitor")["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["relabelings"][0]["targetLabel"], "instance");
    let ports = &the("DaemonSet")["spec"]["template"]["spec"]["containers"][0]["ports"];
    assert_eq!(endpoint["port"], ports[0]["name"]);
    let rule = the("PrometheusRule");
    let alerts = fs::read_to_string(deploy().join("helm/switchyard/alerts.yaml")).unwrap();
    assert_eq!(rule["spec"], serde_saphyr::from_str::<Value>(&alerts).unwrap());
}

#[test]
fn wrong_values_are_refused_by_their_names() {
    let Some(program) = find_or_skip(CHART) else { return };
    let wrong = [
        (json!({ "config": { "mode": "ipvz" } }), "config.mode"),
        (json!({ "config": { "healthzBindAddress": "0.0.0.0" } }), "config.healthzBindAddress"),
        (json!({ "confg": {} }), "confg"),
        (json!({ "image": { "tag": 1.0 } }), "image.tag"),
        (json!({ "apiServer": { "host": "https://192.0.2.10" } }), "apiServer.host"),
        (json!({ "apiServer": { "port": "six" } }), "apiServer.port"),
        (json!({ "capabilities": ["SYS_ADMIN"] }), "capabilities"),
        (json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 1 } } }), "maxSurge"),
    ];
    for (values, name) in wrong {
        let complaint = render(&program, &[], &values).unwrap_err();
        assert!(complaint.contains(name) && complaint.contains("schema"), "{values}: {complaint}");
    }
    let complaint = render(&program, &["--kube-version=v1.20.0"], &json!({})).unwrap_err();
    assert!(complaint.contains("1.21"), "{complaint}");
}
