//! An API server of a few lines: each request is answered by a script.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// How a request is answered.
pub(crate) enum Reply {
    /// A status and a body.
    Whole(u16, Value),
    /// A body of which the end is missing.
    Cut(Value),
    /// A body in protobuf.
    Protobuf(Vec<u8>),
    /// Lines of a watch, which stays open until the sender is dropped.
    Stream(mpsc::UnboundedReceiver<Value>),
}

/// A stream that sends the given lines and then stays open as long as the other end is kept.
pub(crate) fn stream(lines: Vec<Value>) -> (mpsc::UnboundedSender<Value>, Reply) {
    let (send, receive) = mpsc::unbounded_channel();
    for line in lines {
        send.send(line).expect("open");
    }
    (send, Reply::Stream(receive))
}

/// A failure as the API server words it.
pub(crate) fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "", "code": code})
}

/// A whole answer that says no.
pub(crate) fn refusal(code: u16) -> Reply {
    Reply::Whole(code, status(code))
}

/// A request: path and query.
pub(crate) type Script = Arc<dyn Fn(&str, &str) -> Reply + Send + Sync>;

/// Methods, paths and bodies of requests.
pub(crate) type Bodies = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A server on loopback that answers by a script; requests are noted.
pub(crate) struct FakeServer {
    pub(crate) url: String,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    /// Requests with a body: method, path and body.
    pub(crate) bodies: Bodies,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeServer {
    /// Writes a kubeconfig that leads here.
    pub(crate) fn write_kubeconfig(&self, path: &std::path::Path) {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: k, cluster: {{server: '{}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n",
            self.url
        );
        std::fs::write(path, text).expect("a file");
    }

    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::on(listener, script)
    }

    pub(crate) fn on(listener: TcpListener, script: Script) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (noted, bodies) = (requests.clone(), Bodies::default());
        let kept = bodies.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, script.clone(), noted.clone(), kept.clone()));
            }
        });
        Self { url, requests, bodies, task }
    }

    /// How many requests had this text in path or query.
    pub(crate) fn count(&self, part: &str) -> usize {
        self.requests.lock().expect("a list").iter().filter(|request| request.contains(part)).count()
    }
}

/// Answers the requests of one connection.
async fn serve(mut connection: TcpStream, script: Script, noted: Arc<Mutex<Vec<String>>>, bodies: Bodies) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match connection.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let target = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        noted.lock().expect("a list").push(target.clone());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let lower = head.to_lowercase();
        let length = lower.split_once("content-length:").and_then(|(_, rest)| rest.lines().next());
        let mut body = vec![0; length.and_then(|text| text.trim().parse().ok()).unwrap_or_default()];
        if connection.read_exact(&mut body).await.is_err() {
            return;
        }
        if let Ok(body) = serde_json::from_slice(&body) {
            let method = head.split_whitespace().next().unwrap_or_default().to_owned();
            bodies.lock().expect("a list").push((method, path.to_owned(), body));
        }
        match script(path, query) {
            Reply::Whole(code, body) => {
                let body = body.to_string();
                if answer(&mut connection, code, JSON, body.len(), body.as_bytes()).await.is_err() {
                    return;
                }
            }
            Reply::Protobuf(body) => {
                if answer(&mut connection, 200, PROTOBUF, body.len(), &body).await.is_err() {
                    return;
                }
            }
            Reply::Cut(body) => {
                let body = body.to_string();
                let _ = answer(&mut connection, 200, JSON, body.len() + 1, body.as_bytes()).await;
                return;
            }
            Reply::Stream(mut lines) => {
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
                let _ = connection.write_all(head.as_bytes()).await;
                while let Some(line) = lines.recv().await {
                    let line = format!("{line}\n");
                    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
                    if connection.write_all(chunk.as_bytes()).await.is_err() {
                        return;
                    }
                }
                let _ = connection.write_all(b"0\r\n\r\n").await;
            }
        }
    }
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn answer(
    connection: &mut TcpStream,
    code: u16,
    kind: &str,
    length: usize,
    body: &[u8],
) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 {code} x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body).await
}
