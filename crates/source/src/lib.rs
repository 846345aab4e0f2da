//! Kubernetes objects, from an API server or from files, as model events.
//!
//! In: a running API server ([`cluster`]) or YAML and JSON files ([`manifests`]). Out: [`Event`]s into a [`Sink`];
//! the other way, what operators should know becomes Kubernetes Events ([`events`]).
//!
//! Invariants
//! - A complete list is sent only when it is complete: no outage, broken file or failed request ever looks like
//!   "everything was deleted".
//! - One bad object never stops the others; it becomes complaints, and an empty list of complaints when it is good
//!   again or gone.
//! - No input can panic a source or inject text: names are checked, quoted text is cut.

pub mod cluster;
mod convert;
mod error;
pub mod events;
#[cfg(test)]
mod fake_server;
mod ledger;
pub mod lookup;
pub mod manifests;
pub mod selector;
mod wire;

use std::sync::Arc;

pub use error::SourceError;
use switchyard_model::Event;

/// Where a source puts its events. It is called from any thread, also from async code, and must not block for long.
pub type Sink = Arc<dyn Fn(Event) + Send + Sync>;
