//! The change ledger for pages.

use switchyard_apply::report::Kind;
use switchyard_serve::ui::{Change, ChangeKind, Changes, Outcome};

use crate::ledger::{self, Entry, Ledger};

/// Entries with greater numbers, oldest first.
pub(super) fn list(ledger: &Ledger, after: u64) -> Changes {
    let entries = ledger.entries().filter(|entry| entry.number > after).map(change).collect();
    Changes { entries, last: ledger.count() }
}

fn change(entry: &Entry) -> Change {
    Change {
        number: entry.number,
        family: entry.family,
        kind: if entry.kind == Kind::Full { ChangeKind::Full } else { ChangeKind::Partial },
        services: entry.subjects.services.clone(),
        service_count: entry.subjects.total,
        seen: entry.seen,
        committed: entry.committed,
        latency: entry.latency,
        took: entry.took,
        operations: entry.operations,
        outcome: match &entry.outcome {
            ledger::Outcome::Written => Outcome::Written,
            ledger::Outcome::SetAside(ports) => Outcome::SetAside(*ports),
            ledger::Outcome::Failed(cause) => Outcome::Failed(cause.clone()),
        },
    }
}
