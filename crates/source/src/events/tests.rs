//! The recorder against a fake API server: bodies, refusals, floods.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_model::ObjectName;

use super::{Notice, QUEUE, Recorder, Severity, recorder};
use crate::cluster::{Config, ListFormat, ServiceCidrs};
use crate::fake_server::{FakeServer, Reply, refusal};

const PATIENCE: Duration = Duration::from_secs(8);

fn notice(object: ObjectName, note: &str) -> Notice {
    Notice {
        regarding: object,
        severity: Severity::Warning,
        reason: "Because",
        action: "Act",
        note: note.to_owned(),
    }
}

fn web(note: &str) -> Notice {
    notice(ObjectName::new("Service", "shop", "web"), note)
}

/// A recorder whose Events go to a server.
fn recording(server: &FakeServer) -> Recorder {
    let (recorder, poster) = recorder("kube-proxy-host\n");
    let config = Config {
        kubeconfig: None,
        master: Some(server.url.clone()),
        node_name: "n1".to_owned(),
        service_cidrs: ServiceCidrs::Ignored,
        list_format: ListFormat::Protobuf,
        observer: crate::cluster::Observer::default(),
    };
    tokio::spawn(poster.run(config));
    recorder
}

/// Everything that was written so far: method, path without its end, body without what differs from run to run.
async fn written(server: &FakeServer, recorder: &Recorder) -> Vec<(String, String, Value)> {
    recorder.settle(PATIENCE).await;
    let mut all = server.bodies.lock().expect("a list").clone();
    for (_, path, body) in &mut all {
        let path_end = path.rsplit('.').next().unwrap_or_default().to_owned();
        if u128::from_str_radix(&path_end, 16).is_ok() {
            path.truncate(path.len() - path_end.len());
        }
        let time = body.pointer_mut("/eventTime").map(Value::take);
        let last = body.pointer_mut("/series/lastObservedTime").map(Value::take);
        for time in [time, last].into_iter().flatten() {
            let time = time.as_str().expect("a time").to_owned();
            assert!(time.len() == 27 && time.parse::<jiff::Timestamp>().is_ok(), "{time}");
        }
        if let Some(name) = body.pointer_mut("/metadata/name") {
            let text = name.as_str().expect("a name");
            let (stem, number) = text.rsplit_once('.').expect("a number");
            assert!(u128::from_str_radix(number, 16).is_ok(), "{text}");
            *name = json!(stem);
        }
    }
    all
}

fn well() -> Reply {
    Reply::Whole(201, json!({}))
}

#[tokio::test]
async fn bodies_are_those_of_kube_proxy() {
    let server = FakeServer::start(Arc::new(|_, _| well())).await;
    let recorder = recording(&server);
    recorder.record(Notice {
        regarding: ObjectName::new("Node", "", "n1"),
        severity: Severity::Normal,
        reason: "Starting",
        action: "StartKubeProxy",
        note: String::new(),
    });
    recorder.record(web("it is wrong"));
    for _ in 0..5 {
        recorder.record(web("it is wrong"));
    }
    let event = |namespace: &str, name: &str, rest: Value| {
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null,
            "metadata": {"name": name, "namespace": namespace},
            "reportingController": "kube-proxy", "reportingInstance": "kube-proxy-host\\n",
        });
        let rest = rest.as_object().expect("an object").clone();
        event.as_object_mut().expect("an object").extend(rest);
        event
    };
    let post = |namespace: &str| {
        ("POST".to_owned(), format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"))
    };
    let (method, path) = post("default");
    let starting = event(
        "default",
        "n1",
        json!({
            "action": "StartKubeProxy", "reason": "Starting", "note": "", "type": "Normal",
            "regarding": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"},
        }),
    );
    let first = (method, path, starting);
    let (method, path) = post("shop");
    let wrong = event(
        "shop",
        "web",
        json!({
            "action": "Act", "reason": "Because", "note": "it is wrong", "type": "Warning",
            "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web"},
        }),
    );
    let second = (method, path.clone(), wrong);
    let series = json!({"series": {"count": 2, "lastObservedTime": null}});
    let third = ("PATCH".to_owned(), path + "/web.", series);
    assert_eq!(written(&server, &recorder).await, [first, second, third]);
    assert_eq!(recorder.lost(), 0, "the others are counted, not lost");
}

#[tokio::test]
async fn hostile_text_is_printable_and_short_and_gets_into_no_url() {
    let server = FakeServer::start(Arc::new(|_, _| well())).await;
    let recorder = recording(&server);
    recorder.record(web(&format!("\u{1b}[2J\n{}", "ä".repeat(3000))));
    recorder.record(notice(ObjectName::new("Service", "shop", "../x y"), ""));
    recorder.record(notice(ObjectName::new("Service", "../../api", "web"), ""));
    recorder.record(notice(ObjectName::new("file", "", "/etc/passwd"), ""));
    let written = written(&server, &recorder).await;
    assert_eq!(written.len(), 2, "{written:?}");
    let note = written[0].2["note"].as_str().expect("a note");
    assert!(note.starts_with(r"\u{1b}[2J\nää") && note.ends_with("ä…") && note.len() <= 1024, "{note}");
    assert_eq!(
        (&written[1].2["metadata"]["name"], &written[1].2["regarding"]["name"]),
        (&json!("object"), &json!("../x y"))
    );
}

#[tokio::test]
async fn a_refusal_is_not_tried_again_and_trouble_is_for_a_while() {
    for (code, requests) in [(401, 2), (403, 1), (404, 1), (422, 1), (409, 1), (500, 12), (429, 12)] {
        let server = FakeServer::start(Arc::new(move |_, _| refusal(code))).await;
        let recorder = recording(&server);
        recorder.record(web("x"));
        assert_eq!(written(&server, &recorder).await.len(), requests, "{code}");
    }
}

#[tokio::test]
async fn a_series_outlives_its_event() {
    let answer = |path: &str, _: &str| if path.ends_with("/events") { well() } else { refusal(404) };
    let server = FakeServer::start(Arc::new(answer)).await;
    let recorder = recording(&server);
    recorder.record(web("x"));
    recorder.record(web("x"));
    let written = written(&server, &recorder).await;
    let methods: Vec<&str> = written.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST"]);
    assert_eq!(written[2].2["series"]["count"], 2);
}

#[tokio::test]
async fn a_flood_is_bounded_and_never_waits() {
    let server = FakeServer::start(Arc::new(|_, _| well())).await;
    let recorder = recording(&server);
    for n in 0..2000 {
        recorder.record(web(&n.to_string()));
    }
    assert_eq!(written(&server, &recorder).await.len(), 25);
    assert_eq!(recorder.lost(), 2000 - 25);

    // Nobody writes: the queue is all that is kept.
    let (stuck, _poster) = recorder_without_server();
    for n in 0..2000 {
        stuck.record(web(&n.to_string()));
    }
    assert_eq!(stuck.lost(), 2000 - u64::try_from(QUEUE).expect("small"));
    let silent = Recorder::silent();
    silent.record(web("x"));
    silent.settle(PATIENCE).await;
    assert_eq!(silent.lost(), 0);
}

fn recorder_without_server() -> (Recorder, super::Poster) {
    recorder("kube-proxy-host")
}

#[tokio::test]
async fn an_event_whose_credentials_are_refused_is_written_with_new_ones() {
    let new = FakeServer::start(Arc::new(|_, _| well())).await;
    let dir = tempfile::tempdir().expect("a directory");
    let kubeconfig = dir.path().join("kubeconfig");
    let (draft, file) = (dir.path().join("draft"), kubeconfig.clone());
    new.write_kubeconfig(&draft);
    // They are replaced just before they would be used.
    let refuse = move |_: &str, _: &str| {
        std::fs::copy(&draft, &file).expect("a file");
        refusal(401)
    };
    let old = FakeServer::start(Arc::new(refuse)).await;
    old.write_kubeconfig(&kubeconfig);
    let (recorder, poster) = recorder("kube-proxy-host");
    let config = Config {
        kubeconfig: Some(kubeconfig),
        master: None,
        node_name: "n1".to_owned(),
        service_cidrs: ServiceCidrs::Ignored,
        list_format: ListFormat::Protobuf,
        observer: crate::cluster::Observer::default(),
    };
    let task = tokio::spawn(poster.run(config));
    recorder.record(web("first"));
    assert_eq!(written(&new, &recorder).await.len(), 1);
    assert_eq!(old.bodies.lock().expect("whole").len(), 1);
    task.abort();
}
