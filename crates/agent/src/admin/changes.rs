//! The change ledger as JSON.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use switchyard_apply::report::Kind;

use crate::ledger::{Entry, Ledger, Outcome};

/// Entries with greater numbers, oldest first.
pub(super) fn list(ledger: &Ledger, after: u64) -> Value {
    let items: Vec<Value> = ledger.entries().filter(|entry| entry.number > after).map(item).collect();
    json!({ "apiVersion": "v1", "kind": "ChangeList", "items": items, "last": ledger.count() })
}

fn item(entry: &Entry) -> Value {
    let services: Vec<String> = entry.subjects.services.iter().map(ToString::to_string).collect();
    let (outcome, cause) = match &entry.outcome {
        Outcome::Written => ("written", None),
        Outcome::SetAside(count) => ("set aside", Some(format!("{count} service ports were refused"))),
        Outcome::Failed(cause) => ("failed", Some(cause.clone())),
    };
    json!({
        "number": entry.number,
        "family": entry.family.to_string(),
        "kind": if entry.kind == Kind::Full { "full" } else { "partial" },
        "services": services,
        "serviceCount": entry.subjects.total,
        "seen": entry.seen.map(timestamp),
        "committed": timestamp(entry.committed),
        "latencySeconds": entry.latency.as_ref().map(Duration::as_secs_f64),
        "tookSeconds": entry.took.as_secs_f64(),
        "operations": entry.operations,
        "outcome": outcome,
        "cause": cause,
    })
}

/// Seconds since 1970; clocks may stand before that.
pub(super) fn timestamp(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs_f64()).unwrap_or_default()
}
