//! The health server and the metrics server.
//!
//! In: where to listen and the shared state. Out: kube-proxy's pages, on its paths, until the future is dropped.
//!
//! | server | paths |
//! |---|---|
//! | health | `/healthz`, `/livez` |
//! | metrics | `/metrics`, `/healthz`, `/healthz/ping` (both always `ok`), `/proxyMode` |
//!
//! Invariants
//! - Paths are exact, methods do not matter, everything else is 404.
//! - An address that cannot be had is reported once and tried again every five seconds, unless a hard failure was
//!   asked for ([`Listen::OrFail`]).
//! - A client is cut off after 30 s without a complete head or with a head above 16 KiB; bodies are not read; at 256
//!   connections the oldest makes room for the newest.

mod connections;
mod listen;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

pub use axum::Router;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;

pub(crate) use connections::{Connections, serve_listener};
pub use listen::{Listen, ListenError};
pub(crate) use listen::{V6, open};

use crate::Moment;
use crate::health::{Probe, ProxyHealth, Verdict};
use crate::metrics::Metrics;

const NOSNIFF: (HeaderName, &str) = (header::X_CONTENT_TYPE_OPTIONS, "nosniff");
const JSON: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
const PLAIN: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
const EXPOSITION: (HeaderName, &str) = (header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");

/// Connections that one server keeps at a time.
const CONNECTIONS: usize = 256;

/// Serves [`health_pages`]. Returns only if the address could not be had and that was to be an error.
pub async fn serve_health(
    listen: Listen,
    health: Arc<ProxyHealth>,
    metrics: Arc<Metrics>,
) -> Result<Infallible, ListenError> {
    serve(listen, "health server", "--healthz-bind-address", health_pages(health, metrics)).await
}

/// Serves [`metrics_pages`], and `more` pages beside them. Returns only if the address could not be had and that was
/// to be an error.
///
/// # Panics
/// If `more` has a path of ours or a fallback of its own: a mistake in the program, seen at its first start.
pub async fn serve_metrics(
    listen: Listen,
    metrics: Arc<Metrics>,
    mode: &'static str,
    more: Router,
) -> Result<Infallible, ListenError> {
    let pages = metrics_pages(metrics, mode).merge(more).fallback(not_found);
    serve(listen, "metrics server", "--metrics-bind-address", pages).await
}

/// The pages of the health server.
pub fn health_pages(health: Arc<ProxyHealth>, metrics: Arc<Metrics>) -> Router {
    let page = move |probe| {
        let (health, metrics) = (health.clone(), metrics.clone());
        any(move || async move {
            let answer = health.answer(probe, Moment::now());
            metrics.probed(probe, answer.verdict);
            (status(answer.verdict), HEALTH_HEADERS, answer.body)
        })
    };
    Router::new()
        .route("/healthz", page(Probe::Healthz))
        .route("/livez", page(Probe::Livez))
        .fallback(not_found)
}

/// The pages of the metrics server. `mode` is the text that `/proxyMode` answers. There is no fallback, so that
/// pages of others can be merged.
pub fn metrics_pages(metrics: Arc<Metrics>, mode: &'static str) -> Router {
    Router::new()
        .route("/metrics", any(move || async move { ([EXPOSITION], metrics.render()) }))
        .route("/healthz", any(ping))
        .route("/healthz/ping", any(ping))
        .route("/proxyMode", any(move || async move { ([PLAIN, NOSNIFF], mode) }))
}

async fn ping() -> Response {
    ([PLAIN, NOSNIFF], "ok").into_response()
}

async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, [PLAIN, NOSNIFF], "404 page not found\n").into_response()
}

pub(crate) fn status(verdict: Verdict) -> StatusCode {
    match verdict {
        Verdict::Ok => StatusCode::OK,
        Verdict::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The headers of every health answer.
pub(crate) const HEALTH_HEADERS: [(HeaderName, &str); 2] = [JSON, NOSNIFF];

async fn serve(
    listen: Listen,
    server: &'static str,
    flag: &'static str,
    pages: Router,
) -> Result<Infallible, ListenError> {
    let listener = listen.listener(server, flag).await?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "{server} is listening");
    }
    Ok(serve_listener(listener, Connections::new(CONNECTIONS), pages).await)
}
