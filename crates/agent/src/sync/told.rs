//! What the operator has been told. Everything is said once, when it begins and when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use switchyard_model::{Complaint, Family, ObjectName, ServicePortName};
use switchyard_plan::book::Book;
use switchyard_serve::metrics::Metrics;

/// Lines per run; beyond that only the number is told.
const MAX_LINES: usize = 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Told {
    complaints: BTreeMap<ObjectName, Vec<Complaint>>,
    conflicts: BTreeSet<String>,
    refused: BTreeSet<String>,
    left_out: BTreeSet<String>,
}

impl Told {
    /// Complaints of the source: all of them.
    pub(super) fn complaints(&mut self, now: BTreeMap<ObjectName, Vec<Complaint>>) {
        let fresh = now.iter().filter(|(object, list)| self.complaints.get(*object) != Some(list));
        let fresh: Vec<&Complaint> = fresh.flat_map(|(_, list)| list).collect();
        for complaint in fresh.iter().take(MAX_LINES) {
            tracing::warn!(object = %complaint.object, problem = %complaint.problem, "an object is wrong; the others go on");
        }
        if fresh.len() > MAX_LINES {
            tracing::warn!(
                more = fresh.len() - MAX_LINES,
                "more objects are wrong; see the metric switchyard_quarantined_objects"
            );
        }
        self.complaints = now;
    }

    /// Service ports of each family with more endpoints than the mode can serve, and how many get no traffic.
    pub(super) fn left_out<'a>(
        &mut self,
        families: impl Iterator<Item = (Family, &'a BTreeMap<ServicePortName, usize>)>,
    ) {
        let line = |family: Family, (name, count): (&ServicePortName, &usize)| {
            format!(
                "{name} ({family}): {count} of its endpoints get no traffic; spread them over several Services"
            )
        };
        let now: BTreeSet<String> =
            families.flat_map(|(family, all)| all.iter().map(move |entry| line(family, entry))).collect();
        tell(&self.left_out, &now, "a service port has more endpoints than this mode can serve");
        self.left_out = now;
    }

    /// Conflicts and refused service ports of all books.
    pub(super) fn books<'a>(&mut self, books: impl Iterator<Item = &'a Book>, metrics: &Metrics) {
        let (mut conflicts, mut refused) = (BTreeSet::new(), BTreeSet::new());
        for book in books {
            let family = book.settings().family;
            for conflict in book.conflicts() {
                let losers: Vec<String> = conflict.losers.iter().map(|k| k.name.to_string()).collect();
                conflicts.insert(format!(
                    "{} belongs to {} (the older Service); {} asks for it too and keeps its other addresses",
                    conflict.frontend,
                    conflict.winner.name,
                    losers.join(", ")
                ));
            }
            for (name, entry) in book.quarantined() {
                refused.insert(format!("{name} ({family}): {}", entry.cause));
            }
        }
        tell(&self.conflicts, &conflicts, "two Services ask for one frontend");
        tell(
            &self.refused,
            &refused,
            "the kernel refuses a service port; it is set aside until it changes, the others go on",
        );
        self.count(metrics, conflicts.len(), refused.len());
        (self.conflicts, self.refused) = (conflicts, refused);
    }

    fn count(&self, metrics: &Metrics, conflicts: usize, refused: usize) {
        let mut kinds: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for object in self.complaints.keys() {
            *kinds.entry(object.kind.clone()).or_default() += 1;
        }
        if refused > 0 {
            kinds.insert("ServicePort".into(), refused);
        }
        metrics.quarantined(kinds);
        metrics.frontend_conflicts(conflicts);
    }
}

fn tell(before: &BTreeSet<String>, now: &BTreeSet<String>, what: &str) {
    for line in now.difference(before).take(MAX_LINES) {
        tracing::warn!("{what}: {line}");
    }
    for line in before.difference(now).take(MAX_LINES) {
        tracing::info!("no longer: {what}: {line}");
    }
}
