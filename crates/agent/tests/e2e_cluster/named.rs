//! Pods by name and Services by labels, which the agent does not keep: it asks the API server when somebody wants to know.

use std::process::Output;

use serde_json::{Value, json};
use switchyard_model::Family;

use crate::common::looking::{eventually, ip};
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::e2e::bulk::{Request, send_all};
use crate::on_cluster::{OnCluster, WEB};

/// More slices than a page of the list has.
const SLICES: u32 = 300;

/// More Services than a page of the agent's list has, and than two of the API server's.
const CROWD: usize = 600;

fn ask(world: &World, arguments: &[&str]) -> Output {
    let socket = world.path("admin.sock");
    let all = [arguments, &["-o", "json", "--admin-socket", socket.to_str().unwrap()]].concat();
    world.n1().exec(env!("CARGO_BIN_EXE_switchyard"), &all).unwrap()
}

fn found(world: &World, arguments: &[&str]) -> Value {
    let output = ask(world, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(world: &World, arguments: &[&str], said: &str) {
    let output = ask(world, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
    assert!(error.contains(said) && error.lines().count() == 1, "{arguments:?}: {error}");
}

/// One slice for each pod `web-n`, of a Service without a cluster IP; the last one is the pod n1.9.
fn write_slices(cluster: &OnCluster) {
    let real = ip(&cluster.world.pod("n1.9"), Family::V4).to_string();
    for n in 1..=SLICES {
        let address = if n == SLICES { real.clone() } else { format!("10.200.{}.{}", n / 250, n % 250 + 1) };
        let target = json!({ "kind": "Pod", "namespace": "default", "name": format!("web-{n}") });
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "name": format!("pods-{n}"), "labels": { "kubernetes.io/service-name": "pods" } },
            "ports": [{ "name": "", "port": 8080 }],
            "endpoints": [{ "addresses": [address], "targetRef": target }],
        });
        cluster.api().create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).unwrap();
    }
}

/// Names of the Services that a selector lists.
fn selected(world: &World, selector: &str) -> Vec<String> {
    let listed = found(world, &["get", "services", "-l", selector]);
    let items = listed.get("items").and_then(Value::as_array).unwrap().iter();
    let mut names: Vec<String> =
        items.map(|item| item.pointer("/name").and_then(Value::as_str).unwrap().to_owned()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_api_server_is_asked_for_pods_and_labels_only_when_somebody_wants_to_know() {
    let Some(cluster) = OnCluster::unstarted(Variant::Nftables) else { return };
    let world = &cluster.world;
    cluster.write(&format!("{WEB}\nservice db cluster.2:80/tcp\nendpoint db n1.1:8080"));
    write_slices(&cluster);
    let label = |name: &str, labels: Value| {
        let path = format!("/api/v1/namespaces/default/services/{name}");
        cluster.api().patch(&path, &json!({ "metadata": { "labels": labels } })).unwrap();
    };
    label("web", json!({ "app": "web", "example.com/tier": "front" }));
    label("db", json!({ "app": "db" }));
    cluster.start(&["--admin-socket", world.path("admin.sock").to_str().unwrap()]);
    cluster.expect("cluster.1:80", &["n1.1"]);

    let (last, pod) = (format!("web-{SLICES}"), ip(&world.pod("n1.9"), Family::V4));
    let requests = || world.metric("rest_client_requests_total", "method=\"GET\"");
    // A list and a watch of Services, EndpointSlices, the Node and ServiceCIDRs.
    eventually("all watches run", || requests() == 8.0);
    let before = requests();
    found(world, &["explain", "--from", &pod.to_string(), "--to", "web"]);
    found(world, &["get", "services"]);
    assert_eq!(requests(), before, "nothing is asked for what is known");
    found(world, &["explain", "--from", &last, "--to", "web"]);
    assert_eq!(requests(), before + 2.0, "one request for each page");
    for from in [last.clone(), format!("default/{last}")] {
        let answer = found(world, &["explain", "--from", &from, "--to", "web"]);
        assert_eq!(answer.get("from"), Some(&json!(pod)), "{answer}");
        assert_eq!(answer.get("fromPod"), Some(&json!(format!("default/{last}"))), "{answer}");
    }
    let first = found(world, &["explain", "--from", "web-1", "--to", "web"]);
    assert_eq!(first.get("from"), Some(&json!("10.200.0.2")), "{first}");
    refused(
        world,
        &["explain", "--from", "kube-system/web-1", "--to", "web"],
        "no pod kube-system/web-1 is known",
    );

    for (selector, names) in [
        ("app", &["db", "web"] as &[&str]),
        ("app=web", &["web"]),
        ("app in (db, other)", &["db"]),
        ("app notin (web),app", &["db"]),
        ("example.com/tier=front,!legacy", &["web"]),
        ("app=", &[]),
    ] {
        assert_eq!(selected(world, selector), names, "{selector}");
    }
    label("db", json!({ "app": "web" }));
    assert_eq!(selected(world, "app=web"), ["db", "web"], "labels are as of now");
    refused(world, &["get", "services", "-l", "app=web&watch=1"], "the selector is wrong at character 5");

    let crowd = |n: usize| {
        let metadata = json!({ "name": format!("crowd-{n}"), "labels": { "crowd": "yes" } });
        let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": { "ports": [{ "port": 80 }] } });
        Request::create("/api/v1/namespaces/default/services", service)
    };
    send_all(&cluster.control_plane.path("api.sock"), CROWD, crowd).unwrap();
    eventually("all are served", || selected(world, "crowd=yes").len() == CROWD);
    let before = requests();
    assert_eq!(selected(world, "crowd").len(), CROWD);
    assert_eq!(requests(), before + 3.0, "labels are looked up once for the whole list");

    cluster.control_plane.kill();
    refused(world, &["explain", "--from", &last, "--to", "web"], "; or give the pod's IP address");
    refused(world, &["get", "services", "-l", "app"], "the API server cannot tell (");
    // What is known needs no API server.
    found(world, &["explain", "--from", &pod.to_string(), "--to", "web"]);
}
