//! What Switchyard tells the outside over HTTP: proxy health, per-service health checks, metrics and a dashboard; and, on a Unix
//! socket, what the operator asks.
//!
//! In: facts that the loop reports (a change was queued, a sync succeeded, a service has n local endpoints).
//! Out: kube-proxy's health, metrics and health-check node ports, byte for byte where clients depend on bytes.
//!
//! Invariants
//! - This crate knows HTTP, JSON, HTML and Prometheus text, and nothing of kernels, plans or Kubernetes objects.
//! - Time enters the state as an argument ([`Moment`]); only the HTTP handlers read the clock.
//! - A client can neither hold a server nor grow it: heads, waiting time and connections are bounded, bodies are
//!   never read.

pub mod admin;
mod entity;
pub mod health;
pub mod metrics;
mod moment;
pub mod server;
pub mod service_health;
pub mod ui;

pub use moment::{Moment, machine_time};

#[cfg(test)]
mod test_client;
