//! Accepting connections and keeping clients from holding the server.
//!
//! In: a listening socket and pages. Out: answers, until the future is dropped; its connections end with it.
//!
//! What a client cannot do
//! - send a head for longer than [`HEAD_TIMEOUT`] or larger than [`HEAD_BYTES`];
//! - make the server read a body: no page asks for one;
//! - keep others out by opening many connections: at the limit the oldest connection is closed for the new one.
//!   An honest probe is over within milliseconds, so the oldest one is a slow or an idle client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// How long a client may take for a request head, idle time between two requests included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request head.
const HEAD_BYTES: usize = 16 * 1024;
/// Most header lines of a request.
const HEADERS: usize = 64;
/// Pause after the system refused to give a connection, for example because descriptors ran out.
const PAUSE: Duration = Duration::from_millis(200);

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

/// Answers on a listener for as long as the future lives.
pub(crate) async fn serve_listener(
    listener: TcpListener,
    connections: Connections,
    pages: Router,
) -> Infallible {
    let mut tasks = JoinSet::new();
    let mut is_refused = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                is_refused = false;
                while tasks.try_join_next().is_some() {}
                connections.admit(tasks.spawn(answer(stream, connections.head_timeout, pages.clone())));
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

async fn answer(stream: TcpStream, head_timeout: Duration, pages: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .title_case_headers(true)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages));
    if let Err(cause) = connection.await {
        tracing::trace!(%cause, "HTTP connection ended early");
    }
}
