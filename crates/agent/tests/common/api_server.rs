//! An API server of a few lines, for changes that come one by one: files are read together a moment after they change.
//!
//! In: objects as JSON. Out: lists of all objects of a kind, and watches that go on with changes. It listens on the loopback address of a
//! node and never ends a watch.

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

/// Answers one request: a list or a watch.
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
    if !query.contains("watch=true") {
        return list(client, shared, plural);
    }
    let from = query.split('&').find_map(|word| word.strip_prefix("resourceVersion=")?.parse().ok());
    watch(client, shared, plural, from.unwrap_or_default())
}

fn list(mut client: TcpStream, shared: &Shared, plural: &str) -> std::io::Result<()> {
    let state = shared.state.lock().unwrap();
    let items: Vec<_> =
        state.objects.iter().filter(|((kind, _), _)| kind == plural).map(|(_, object)| object).collect();
    let meta = json!({ "resourceVersion": state.changes.len().to_string() });
    let body = json!({ "kind": "List", "apiVersion": "v1", "metadata": meta, "items": items }).to_string();
    drop(state);
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn watch(mut client: TcpStream, shared: &Shared, plural: &str, from: usize) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    client.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    let (mut seen, mut lines) = (from, String::new());
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
