//! The health server and the metrics server.
//!
//! In: where to listen and the shared state. Out: kube-proxy's pages, on its paths, until the future is dropped.
//!
//! | server | paths |
//! |---|---|
//! | health | `/healthz`, `/livez` |
//! | metrics | `/metrics`, `/metrics/slis`, `/healthz`, `/healthz/ping` (both always `ok`), `/proxyMode`, `/configz`, `/flagz`, `/statusz`; with `--profiling` `/debug/pprof/` and `/debug/flags/`; with `--enable-ui` `/ui/` |
//!
//! Invariants
//! - Status, headers and their order, and bodies are those of kube-proxy 1.36; recorded answers are in `testdata`.
//! - Paths are exact, methods do not matter unless a page says so, everything else is 404. The health server sends
//!   clients of unclean paths (`//healthz`) to the clean one, the metrics server does not.
//! - An address that cannot be had is reported once and tried again every five seconds, unless a hard failure was
//!   asked for ([`Listen::OrFail`]).
//! - A client is cut off after 30 s without a complete head or with a head above 16 KiB; bodies are not read, but for
//!   one page and then 4 KiB of them; at 256 connections the oldest makes room for the newest.

mod ask;
mod connections;
mod health_site;
mod listen;
mod metrics_site;
mod profiling;
mod reply;
mod zpages;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;

pub(crate) use ask::Ask;
pub(crate) use connections::{Connections, Site, serve_listener};
pub(crate) use health_site::status;
pub use listen::{Listen, ListenError};
pub(crate) use listen::{V6, open};
pub use metrics_site::Pages;
pub use profiling::{Amount, Function, Heap, Profiling, SetVerbosity, Stack, TakeHeap};
pub(crate) use reply::{JSON, NOSNIFF, Reply};
pub use zpages::{Flagz, Statusz};

use crate::health::ProxyHealth;
use crate::metrics::Metrics;
use health_site::HealthSite;
use metrics_site::MetricsSite;

/// Connections that one server keeps at a time.
const CONNECTIONS: usize = 256;

/// Serves health. Returns only if the address could not be had and that was to be an error.
pub async fn serve_health(
    listen: Listen,
    health: Arc<ProxyHealth>,
    metrics: Arc<Metrics>,
) -> Result<Infallible, ListenError> {
    let site = HealthSite { health, metrics };
    serve(listen, "health server", "--healthz-bind-address", site).await
}

/// Serves metrics and [`Pages`]. Returns only if the address could not be had and that was to be an error.
pub async fn serve_metrics(
    listen: Listen,
    metrics: Arc<Metrics>,
    pages: Pages,
) -> Result<Infallible, ListenError> {
    let site = MetricsSite::new(metrics, pages);
    serve(listen, "metrics server", "--metrics-bind-address", site).await
}

async fn serve<S: Site>(
    listen: Listen,
    server: &'static str,
    flag: &'static str,
    site: S,
) -> Result<Infallible, ListenError> {
    let listener = listen.listener(server, flag).await?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "{server} is listening");
    }
    Ok(serve_listener(listener, Connections::new(CONNECTIONS), Arc::new(site)).await)
}
