//! Accepting connections and keeping clients from holding the server.
//!
//! In: a listening socket and a [`Site`]. Out: answers, until the future is dropped; its connections end with it.
//!
//! What a client cannot do
//! - send a head for longer than [`HEAD_TIMEOUT`] or larger than [`HEAD_BYTES`];
//! - make the server read more than a few kilobytes of a body: only one page asks for one at all;
//! - read an answer for ever: a connection is told to end after [`LIFETIME`] and cut [`LAST_WORDS`] later;
//! - keep others out by opening many connections: at the limit the oldest connection is closed for the new one.
//!   An honest probe is over within milliseconds, so the oldest one is a slow or an idle client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};

use super::ask::Ask;
use super::reply::Reply;

/// How long a client may take for a request head, idle time between two requests included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request head.
const HEAD_BYTES: usize = 16 * 1024;
/// Most header lines of a request.
const HEADERS: usize = 64;
/// How long a client may keep a connection. Longer than any page takes, and than the idle time that is allowed anyway.
const LIFETIME: Duration = Duration::from_secs(600);
/// What is left for an answer that is under way when the lifetime is over.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// Pause after the system refused to give a connection, for example because descriptors ran out.
const PAUSE: Duration = Duration::from_millis(200);

/// What answers requests.
pub(crate) trait Site: Send + Sync + 'static {
    /// The answer to one request.
    fn answer(&self, ask: Ask) -> impl Future<Output = Reply> + Send;
}

/// The connections of one server, or of several that share a limit.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    limit: usize,
    head_timeout: Duration,
    /// In the order in which they came; some may be over already.
    live: Arc<Mutex<VecDeque<AbortHandle>>>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, head_timeout: HEAD_TIMEOUT, live: Arc::default() }
    }

    #[cfg(test)]
    pub(super) fn with_head_timeout(self, head_timeout: Duration) -> Self {
        Self { head_timeout, ..self }
    }

    fn admit(&self, connection: AbortHandle) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.len() >= self.limit {
            live.retain(|other| !other.is_finished());
        }
        while live.len() >= self.limit {
            let Some(oldest) = live.pop_front() else { break };
            oldest.abort();
        }
        live.push_back(connection);
    }
}

/// A socket that connections come in on.
pub(crate) trait Accept: Sync {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next one.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Answers on a listener for as long as the future lives.
pub(crate) async fn serve_listener<S: Site>(
    listener: impl Accept,
    connections: Connections,
    site: Arc<S>,
) -> Infallible {
    let mut tasks = JoinSet::new();
    let mut is_refused = false;
    loop {
        match listener.next().await {
            Ok(stream) => {
                is_refused = false;
                while tasks.try_join_next().is_some() {}
                connections.admit(tasks.spawn(answer(stream, connections.head_timeout, site.clone())));
            }
            Err(cause) => {
                if !is_refused {
                    tracing::warn!(%cause, "cannot accept an HTTP connection, trying again; check the limit of open files");
                }
                is_refused = true;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn answer<S: Site>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin,
    head_timeout: Duration,
    site: Arc<S>,
) {
    let service = service_fn(move |request| {
        let site = site.clone();
        async move {
            let reply = match Ask::new(request) {
                Ok(ask) => site.answer(ask).await,
                Err(refusal) => refusal,
            };
            Ok::<_, Infallible>(reply.respond(SystemTime::now()))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .title_case_headers(true)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let end = match tokio::time::timeout(LIFETIME, connection.as_mut()).await {
        Ok(end) => end,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_WORDS, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(cause) = end {
        tracing::trace!(%cause, "HTTP connection ended early");
    }
}
