//! The change ledger: what the last syncs did, for which Services, and how long each took from the moment it was seen.
//!
//! In: one [`Entry`] per sync of a family. Out: the last [`ENTRIES`] of them, oldest first. Bounded in entries and in names per entry, so
//! it costs the same in a small and in a large cluster.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime};

use switchyard_apply::report::Kind;
use switchyard_model::{Family, ServiceName};
use switchyard_plan::book::PortChanges;
use switchyard_serve::metrics::SyncOutcome;

/// Syncs that are remembered.
pub const ENTRIES: usize = 512;

/// Names per sync; of more only the number is kept.
const NAMES: usize = 16;

/// When something was first seen that waits for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// By a clock that never jumps.
    pub monotonic: Instant,
    /// For people.
    pub wall: SystemTime,
}

impl Seen {
    /// At this moment.
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }
}

/// What a sync was about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subjects {
    /// Some of the Services, in order.
    pub services: Vec<ServiceName>,
    /// How many there are.
    pub total: usize,
}

impl Subjects {
    /// The Services whose service ports changed.
    pub fn of(changes: &PortChanges) -> Self {
        let mut subjects = Self::default();
        let mut last: Option<&ServiceName> = None;
        // Ports of one Service stand beside each other.
        for service in changes.keys().map(|name| &name.service) {
            if last == Some(service) {
                continue;
            }
            last = Some(service);
            subjects.total += 1;
            if subjects.services.len() < NAMES {
                subjects.services.push(service.clone());
            }
        }
        subjects
    }
}

/// How a sync ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel holds what was planned.
    Written,
    /// The same, but for this many service ports that it refused.
    SetAside(usize),
    /// It does not, because of this; it is tried again.
    Failed(String),
}

impl Outcome {
    /// As metrics count it.
    pub fn kind(&self) -> SyncOutcome {
        match self {
            Self::Written => SyncOutcome::Written,
            Self::SetAside(_) => SyncOutcome::SetAside,
            Self::Failed(_) => SyncOutcome::Failed,
        }
    }
}

/// One sync of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts all syncs since the start, from 1.
    pub number: u64,
    /// Which family.
    pub family: Family,
    /// Which Services changed.
    pub subjects: Subjects,
    /// How much was written.
    pub kind: Kind,
    /// When the first of the changes was seen; absent for a sync without changes.
    pub seen: Option<SystemTime>,
    /// When the sync was over.
    pub committed: SystemTime,
    /// From seen to committed.
    pub latency: Option<Duration>,
    /// What planning and writing took.
    pub took: Duration,
    /// Lines or messages that were sent.
    pub operations: usize,
    /// How it ended.
    pub outcome: Outcome,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: VecDeque<Entry>,
    count: u64,
}

impl Ledger {
    /// Adds an entry and gives it its number.
    pub fn add(&mut self, mut entry: Entry) {
        self.count += 1;
        entry.number = self.count;
        if self.entries.len() >= ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// What is remembered, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The number of the last sync.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use switchyard_model::{Protocol, ServicePortName};

    use super::*;

    fn changes(names: impl Iterator<Item = String>) -> PortChanges {
        let port = |name: &str, port: &str| ServicePortName {
            service: ServiceName::new("ns", name),
            port: port.into(),
            protocol: Protocol::Tcp,
        };
        names.flat_map(|name| [port(&name, "a"), port(&name, "b")]).map(|name| (name, None)).collect()
    }

    fn entry(subjects: Subjects) -> Entry {
        Entry {
            number: 0,
            family: Family::V4,
            subjects,
            kind: Kind::Partial,
            seen: None,
            committed: SystemTime::UNIX_EPOCH,
            latency: None,
            took: Duration::ZERO,
            operations: 2,
            outcome: Outcome::Written,
        }
    }

    #[test]
    fn services_are_counted_once_and_names_are_bounded() {
        let subjects = Subjects::of(&changes((0..40).map(|n| format!("s{n:02}"))));
        assert_eq!((subjects.total, subjects.services.len()), (40, NAMES));
        assert_eq!(subjects.services[1], ServiceName::new("ns", "s01"));
        assert_eq!(Subjects::of(&PortChanges::new()), Subjects::default());
    }

    #[test]
    fn the_oldest_entries_go() {
        let mut ledger = Ledger::default();
        for _ in 0..ENTRIES + 5 {
            ledger.add(entry(Subjects::default()));
        }
        let numbers: Vec<u64> = ledger.entries().map(|entry| entry.number).collect();
        assert_eq!((numbers.len(), numbers[0], *numbers.last().unwrap()), (ENTRIES, 6, ledger.count()));
    }
}
