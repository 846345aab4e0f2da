//! An API server of a few lines, for changes that come one by one: files are read together a moment after they change.
//!
//! In: objects as JSON. Out: watches that begin with all objects of a kind (streamed lists) and go on with changes. It listens on the
//! loopback address of a node and never ends a watch.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use switchyard_lab::Host;

/// Where it listens, inside the namespace.
const ADDRESS: &str = "127.0.0.1:8001";

#[derive(Default)]
struct State {
    /// By plural and name.
    objects: BTreeMap<(String, String), Value>,
    /// Plural and event.
    changes: Vec<(String, Value)>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// See the module. Its threads end with the test program.
pub(crate) struct ApiServer {
    shared: Arc<Shared>,
}

impl ApiServer {
    /// Listens on a node, with no objects.
    pub(crate) fn start(host: &Host) -> Self {
        let shared = Arc::<Shared>::default();
        let listener = host.run(|| TcpListener::bind(ADDRESS)).unwrap().unwrap();
        let for_clients = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = for_clients.clone();
                // A client that goes away ends its watch.
                std::thread::spawn(move || drop(serve(client, &shared)));
            }
        });
        Self { shared }
    }

    /// A kubeconfig that leads here.
    pub(crate) fn kubeconfig() -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: k, cluster: {{server: 'http://{ADDRESS}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
        )
    }

    /// Adds an object, or replaces it.
    pub(crate) fn put(&self, mut object: Value) {
        let mut state = self.shared.state.lock().unwrap();
        let key = key(&object);
        let kind = if state.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        object["metadata"]["resourceVersion"] = json!((state.changes.len() + 1).to_string());
        state.changes.push((key.0.clone(), json!({ "type": kind, "object": object })));
        state.objects.insert(key, object);
        self.shared.changed.notify_all();
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, object: &Value) {
        let mut state = self.shared.state.lock().unwrap();
        let key = key(object);
        let Some(mut object) = state.objects.remove(&key) else { panic!("{key:?} is not there") };
        object["metadata"]["resourceVersion"] = json!((state.changes.len() + 1).to_string());
        state.changes.push((key.0, json!({ "type": "DELETED", "object": object })));
        self.shared.changed.notify_all();
    }
}

fn key(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let plural = format!("{}s", text(&object["kind"]).to_lowercase());
    (plural, format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"])))
}

/// Answers one request, which must be a watch.
fn serve(client: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(client.try_clone()?);
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let target = request.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let plural = path.rsplit('/').next().unwrap_or_default();
    let version = query.split('&').find_map(|word| word.strip_prefix("resourceVersion=")?.parse().ok());
    watch(client, shared, plural, version.filter(|_| !query.contains("sendInitialEvents=true")))
}

/// `from` is where to resume; without it all objects come first.
fn watch(mut client: TcpStream, shared: &Shared, plural: &str, from: Option<usize>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    client.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let (mut seen, mut lines) = (from.unwrap_or_default(), String::new());
    if from.is_none() {
        let state = shared.state.lock().unwrap();
        seen = state.changes.len();
        for (_, object) in state.objects.iter().filter(|((kind, _), _)| kind == plural) {
            lines.push_str(&format!("{}\n", json!({ "type": "ADDED", "object": object })));
        }
        let end = json!({ "type": "BOOKMARK", "object": { "kind": plural, "apiVersion": "v1", "metadata": {
            "resourceVersion": seen.to_string(), "annotations": { "k8s.io/initial-events-end": "true" },
        } } });
        lines.push_str(&format!("{end}\n"));
    }
    loop {
        if !lines.is_empty() {
            write!(client, "{:x}\r\n{lines}\r\n", lines.len())?;
            lines.clear();
        }
        let mut state = shared.state.lock().unwrap();
        while state.changes.len() == seen {
            state = shared.changed.wait(state).unwrap();
        }
        for (_, event) in state.changes.iter().skip(seen).filter(|(kind, _)| kind == plural) {
            lines.push_str(&format!("{event}\n"));
        }
        seen = state.changes.len();
    }
}
