//! An API server of a few lines: each request is answered by a script.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// How a request is answered.
pub(super) enum Reply {
    /// A status and a body.
    Whole(u16, Value),
    /// Lines of a watch, which stays open until the sender is dropped.
    Stream(mpsc::UnboundedReceiver<Value>),
}

/// A stream that sends the given lines and then stays open as long as the other end is kept.
pub(super) fn stream(lines: Vec<Value>) -> (mpsc::UnboundedSender<Value>, Reply) {
    let (send, receive) = mpsc::unbounded_channel();
    for line in lines {
        send.send(line).expect("open");
    }
    (send, Reply::Stream(receive))
}

/// A failure as the API server words it.
pub(super) fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "", "code": code})
}

/// A whole answer that says no.
pub(super) fn refusal(code: u16) -> Reply {
    Reply::Whole(code, status(code))
}

/// A request: path and query.
pub(super) type Script = Arc<dyn Fn(&str, &str) -> Reply + Send + Sync>;

/// A server on loopback that answers by a script; requests are noted.
pub(super) struct FakeServer {
    pub(super) url: String,
    pub(super) requests: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeServer {
    pub(super) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        Self::on(listener, script)
    }

    pub(super) fn on(listener: TcpListener, script: Script) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let noted = requests.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(serve(connection, script.clone(), noted.clone()));
            }
        });
        Self { url, requests, task }
    }

    /// How many requests had this text in path or query.
    pub(super) fn count(&self, part: &str) -> usize {
        self.requests.lock().expect("a list").iter().filter(|request| request.contains(part)).count()
    }
}

/// Answers the requests of one connection.
async fn serve(mut connection: TcpStream, script: Script, noted: Arc<Mutex<Vec<String>>>) {
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
        match script(path, query) {
            Reply::Whole(code, body) => {
                let body = body.to_string();
                let head = format!(
                    "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                if connection.write_all((head + &body).as_bytes()).await.is_err() {
                    return;
                }
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
