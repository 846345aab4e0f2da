//! The source against a fake API server: which events come, and above all which do not.
#![expect(clippy::needless_pass_by_value, reason = "rows of tables are written in place")]

mod scenarios;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_model::Event;
use tokio::sync::mpsc;

use super::{Answered, Config, ListFormat, Observer, ServiceCidrs, run};
use crate::fake_server::{FakeServer, Reply, Script, refusal, stream};

/// An event as one line.
fn show(event: &Event) -> String {
    match event {
        Event::Services(list) => {
            let names: Vec<_> = list.iter().map(|s| s.name.to_string()).collect();
            format!("services {}", names.join(" "))
        }
        Event::Service(service) => format!("service {}", service.name),
        Event::ServiceGone(name) => format!("service gone {name}"),
        Event::Slices(list) => {
            let names: Vec<_> = list.iter().map(|s| s.name.to_string()).collect();
            format!("slices {}", names.join(" "))
        }
        Event::Slice(slice) => format!("slice {}", slice.name),
        Event::SliceGone(name) => format!("slice gone {name}"),
        Event::Node(node) => format!("node {} {:?}", node.name, node.addresses),
        Event::NodeGone => "node gone".to_owned(),
        Event::ServiceCidrs(list) => format!("cidrs {list:?}"),
        Event::Together(list) => list.iter().map(show).collect::<Vec<_>>().join(" + "),
        Event::Complaints(object, list) => format!("complaints {object}: {}", list.len()),
    }
}

fn service(name: &str, version: u32) -> Value {
    json!({
        "metadata": {"namespace": "ns", "name": name, "resourceVersion": version.to_string()},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
    })
}

fn slice(name: &str, version: u32) -> Value {
    let labels = json!({"kubernetes.io/service-name": "a"});
    json!({
        "metadata": {"namespace": "ns", "name": name, "resourceVersion": version.to_string(), "labels": labels},
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.1"]}],
    })
}

fn line(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn list(items: Vec<Value>, version: u32) -> Reply {
    let meta = json!({"resourceVersion": version.to_string()});
    Reply::Whole(200, json!({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items}))
}

/// Answers of one kind of object, one per request; then nothing more happens.
struct Answers {
    path: &'static str,
    replies: Mutex<VecDeque<Reply>>,
    open: Mutex<Vec<mpsc::UnboundedSender<Value>>>,
}

impl Answers {
    /// Replies to the requests of a path, in order. After the last one, watches stay open and silent.
    fn new(path: &'static str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Mutex::new(replies.into_iter().collect());
        Self { path, replies, open: Mutex::default() }
    }

    fn next(&self) -> Reply {
        if let Some(reply) = self.replies.lock().expect("a list").pop_front() {
            return reply;
        }
        let (keep, silent) = stream(Vec::new());
        self.open.lock().expect("a list").push(keep);
        silent
    }
}

const SERVICES: &str = "/api/v1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const NODES: &str = "/api/v1/nodes";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

const NO_CIDRS: &str = "cidrs []";

/// A script of answers by path; every other path is unknown to the server.
fn script(answers: Vec<Answers>) -> Script {
    Arc::new(move |path, _| {
        answers.iter().find(|a| a.path == path).map_or_else(|| refusal(404), Answers::next)
    })
}

/// A running source.
struct Running {
    events: mpsc::UnboundedReceiver<String>,
    /// Methods and statuses of its requests.
    answers: Arc<Mutex<BTreeSet<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// A source whose news that there are no ServiceCIDRs are left out: most servers here have none.
    fn on(url: &str) -> Self {
        Self::hearing(url, ServiceCidrs::Watched, |event| event != NO_CIDRS)
    }

    fn hearing(url: &str, service_cidrs: ServiceCidrs, is_heard: fn(&str) -> bool) -> Self {
        let (send, events) = mpsc::unbounded_channel();
        let master = Some(url.to_owned());
        let answers = Arc::<Mutex<BTreeSet<String>>>::default();
        let heard = answers.clone();
        let observer = Observer::new(move |answered| {
            let Answered { host, method, status, took } = answered;
            assert!(host.starts_with("127.0.0.1:"), "{host}");
            heard.lock().expect("whole").insert(format!("{method} {status:?} timed: {}", took.is_some()));
        });
        let (node_name, list_format) = ("n1".to_owned(), ListFormat::Protobuf);
        let config = Config { kubeconfig: None, master, node_name, service_cidrs, list_format, observer };
        let task = tokio::spawn(async move {
            let sink = Arc::new(move |event| {
                let _ = Some(show(&event)).filter(|text| is_heard(text)).map(|text| send.send(text));
            });
            panic!("the source ended: {:?}", run(config, sink).await.err());
        });
        Self { events, answers, task }
    }

    /// The next events, sorted because the watches run side by side.
    async fn next(&mut self, count: usize) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..count {
            let event = tokio::time::timeout(Duration::from_secs(8), self.events.recv()).await;
            events.push(event.unwrap_or_else(|_| panic!("only {events:?} came")).expect("an event"));
        }
        events.sort();
        events
    }

    /// Fails if anything comes.
    async fn nothing(&mut self) {
        let event = tokio::time::timeout(Duration::from_millis(250), self.events.recv()).await;
        assert!(event.is_err(), "{event:?}");
    }
}
