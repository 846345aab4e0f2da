//! Looking things up in files, and at a fake API server: what is found, what is asked for, and every way to fail.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::cluster::{ListFormat, Observer, ServiceCidrs};
use crate::fake_server::{FakeServer, Reply, Script, refusal};

fn endpoint(address: &str, kind: &str, namespace: &str, name: &str) -> Value {
    json!({ "addresses": [address, "10.9.9.9"], "targetRef": { "kind": kind, "namespace": namespace, "name": name } })
}

fn slice(namespace: &str, endpoints: &[Value]) -> Value {
    json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": { "namespace": namespace, "name": "s" },
            "addressType": "IPv4", "endpoints": endpoints })
}

fn service(namespace: &str, name: &str, labels: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": namespace, "name": name, "labels": labels } })
}

/// Slices with everything that may come.
fn slices() -> Vec<Value> {
    vec![
        slice(
            "shop",
            &[endpoint("10.1.0.1", "Pod", "shop", "web-0"), endpoint("10.1.0.2", "Pod", "shop", "web-1")],
        ),
        // The same pod behind another Service, and in the other family.
        slice(
            "shop",
            &[endpoint("10.1.0.1", "Pod", "shop", "web-0"), endpoint("fd00::1", "Pod", "", "web-0")],
        ),
        slice("test", &[endpoint("10.2.0.1", "Pod", "test", "web-0")]),
        // Nobody speaks for pods of others, and not everything is a pod.
        slice(
            "evil",
            &[endpoint("6.6.6.6", "Pod", "shop", "web-1"), endpoint("10.1.0.9", "Node", "shop", "web-1")],
        ),
        slice(
            "shop",
            &[
                json!({ "addresses": [7], "targetRef": [] }),
                json!(3),
                endpoint("nonsense", "Pod", "shop", "web-1"),
            ],
        ),
        json!({ "apiVersion": "v1", "kind": "Endpoints", "metadata": { "name": "old" }, "subsets": [{
            "addresses": [{ "ip": "10.3.0.1", "targetRef": { "kind": "Pod", "name": "old-0" } }],
            "notReadyAddresses": [{ "ip": "10.3.0.2", "targetRef": { "kind": "Pod", "namespace": "default", "name": "old-1" } }],
        }] }),
    ]
}

fn files(objects: &[Value]) -> (tempfile::TempDir, Origin) {
    let directory = tempfile::TempDir::new().expect("a directory");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    std::fs::write(directory.path().join("a.json"), list.to_string()).expect("written");
    let config = manifests::Config {
        path: directory.path().to_owned(),
        node_name: "n1".to_owned(),
        service_ranges: Vec::new(),
        max_file_bytes: manifests::MAX_FILE_BYTES,
    };
    (directory, Origin::Manifests(config))
}

fn at(url: &str) -> Origin {
    Origin::Cluster(cluster::Config {
        kubeconfig: None,
        master: Some(url.to_owned()),
        node_name: "n1".to_owned(),
        service_cidrs: ServiceCidrs::Ignored,
        list_format: ListFormat::Protobuf,
        observer: Observer::default(),
    })
}

async fn found(origin: &Origin, namespace: Option<&str>, name: &str) -> Vec<String> {
    let pods = pods(origin, namespace, name).await.expect("an answer");
    let line = |(namespace, addresses): (String, BTreeSet<IpAddr>)| {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        format!("{namespace} {}", addresses.join(" "))
    };
    pods.into_iter().map(line).collect()
}

#[tokio::test]
async fn pods_of_files_are_found_by_name() {
    let (_kept, origin) = files(&slices());
    assert_eq!(found(&origin, None, "web-0").await, ["shop 10.1.0.1 fd00::1", "test 10.2.0.1"]);
    assert_eq!(found(&origin, Some("test"), "web-0").await, ["test 10.2.0.1"]);
    assert_eq!(found(&origin, None, "web-1").await, ["shop 10.1.0.2"]);
    assert_eq!(found(&origin, None, "old-0").await, ["default 10.3.0.1"]);
    assert_eq!(found(&origin, None, "old-1").await, ["default 10.3.0.2"]);
    for (namespace, name) in [(None, "web"), (Some("evil"), "web-1"), (Some("../x"), "web-0")] {
        assert_eq!(found(&origin, namespace, name).await, [""; 0], "{namespace:?} {name}");
    }
}

#[tokio::test]
async fn services_of_files_are_found_by_labels() {
    let (kept, origin) = files(&[
        service("shop", "web", &json!({ "app": "web", "tier": "front" })),
        service("shop", "db", &json!({ "app": "db", "odd": 3 })),
        service("shop", "bare", &Value::Null),
        service("shop", "no name", &json!({ "app": "web" })),
    ]);
    let names = async |selector: &str| {
        let found = services(&origin, None, &selector.parse().expect("a selector")).await.expect("an answer");
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(names("app in (web,db)").await, ["shop/db", "shop/web"]);
    assert_eq!(names("!app").await, ["shop/bare"]);
    assert_eq!(names("odd").await, [""; 0]);
    // Of two the later one is used.
    std::fs::write(kept.path().join("b.json"), service("shop", "web", &Value::Null).to_string())
        .expect("written");
    assert_eq!(names("app=web").await, [""; 0]);
    std::fs::write(kept.path().join("c.yaml"), "kind: [").expect("written");
    let error = services(&origin, None, &Selector::default()).await.expect_err("a broken file").to_string();
    assert!(error.contains("c.yaml cannot be looked into: the document at line 1"), "{error}");
    drop(kept);
    let error = pods(&origin, None, "x").await.expect_err("no files").to_string();
    assert!(error.contains("cannot be read; check the path"), "{error}");
}

/// A server with two pages of slices, and Services by selector.
fn server() -> Script {
    Arc::new(|path, query| {
        let slices = slices();
        let (first, rest) = slices.split_at(2);
        let (items, more) = match path {
            "/apis/discovery.k8s.io/v1/endpointslices" if query.contains("continue=next%2Fpage") => {
                (rest, "")
            }
            "/apis/discovery.k8s.io/v1/endpointslices" => (first, "next/page"),
            "/apis/discovery.k8s.io/v1/namespaces/test/endpointslices" => (rest, ""),
            "/apis/discovery.k8s.io/v1/namespaces/endless/endpointslices" => (rest, "again"),
            "/api/v1/services" => return services_by(query),
            _ => return refusal(403),
        };
        let meta = json!({ "resourceVersion": "7", "continue": more });
        Reply::Whole(200, json!({ "kind": "List", "metadata": meta, "items": items }))
    })
}

fn services_by(query: &str) -> Reply {
    let item = match query.split('&').find_map(|pair| pair.strip_prefix("labelSelector=")) {
        Some("app+in+%28db%2Cweb%29%2C%21legacy") => service("shop", "web", &Value::Null),
        None => service("shop", "any", &Value::Null),
        Some(_) => return refusal(400),
    };
    Reply::Whole(200, json!({ "kind": "List", "metadata": { "resourceVersion": "7" }, "items": [item] }))
}

#[tokio::test]
async fn an_api_server_is_asked_page_by_page_and_for_one_namespace_alone() {
    let server = FakeServer::start(server()).await;
    let origin = at(&server.url);
    assert_eq!(found(&origin, None, "web-0").await, ["shop 10.1.0.1 fd00::1", "test 10.2.0.1"]);
    assert_eq!((server.count("limit=250"), server.count("resourceVersion")), (2, 0));
    assert_eq!(found(&origin, Some("test"), "web-0").await, ["test 10.2.0.1"]);
    assert_eq!(server.count(""), 3, "one request for one page");
    assert_eq!(found(&origin, Some("../../nodes?"), "web-0").await, [""; 0]);
    assert_eq!(server.count(""), 3, "what is no name is not asked for");
}

#[tokio::test]
async fn an_api_server_selects_services_by_labels() {
    let server = FakeServer::start(server()).await;
    let origin = at(&server.url);
    for (selector, name) in [("app in (web, db),!legacy", "shop/web"), ("", "shop/any")] {
        let found = services(&origin, None, &selector.parse().expect("a selector")).await.expect("an answer");
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [name]);
    }
}

#[tokio::test]
async fn trouble_is_one_line_with_what_to_do() {
    let server = FakeServer::start(server()).await;
    let origin = at(&server.url);
    let forbidden = pods(&origin, Some("secret"), "web-0").await.expect_err("forbidden").to_string();
    assert!(forbidden.contains("(forbidden (403)); check that the cluster role"), "{forbidden}");
    let invalid = services(&origin, None, &"a=b".parse().expect("a selector")).await.expect_err("invalid");
    assert!(invalid.to_string().contains("request refused as invalid"), "{invalid}");
    let endless = pods(&origin, Some("endless"), "web-0").await.expect_err("no end").to_string();
    assert!(endless.contains("without an end") || endless.contains("longer than"), "{endless}");
    let refused = pods(&at("http://127.0.0.1:1"), None, "web-0").await.expect_err("nobody there").to_string();
    assert!(refused.contains("(connection refused); check that the server runs"), "{refused}");
    // A server that takes the question and says nothing.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = at(&format!("http://{}", listener.local_addr().expect("an address")));
    let late = pods(&silent, None, "web-0").await.expect_err("no answer").to_string();
    assert!(late.contains("took longer than"), "{late}");
    for line in [forbidden, invalid.to_string(), endless, refused, late] {
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
