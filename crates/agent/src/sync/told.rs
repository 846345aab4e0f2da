//! What the operator has been told. Everything is said once, when it begins and when it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use switchyard_model::{Complaint, Family, ObjectName, ServiceName, ServicePortName};
use switchyard_plan::book::Book;
use switchyard_serve::metrics::Metrics;

use crate::notices::Notices;

/// Lines per run; beyond that only the number is told.
const MAX_LINES: usize = 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Told {
    complaints: BTreeMap<ObjectName, Vec<Complaint>>,
    conflicts: Lines,
    refused: Lines,
    left_out: Lines,
    set_aside: Lines,
}

/// What is said, and about which Services.
type Lines = BTreeMap<String, BTreeSet<ServiceName>>;

impl Told {
    /// What is wrong with objects.
    pub(super) fn wrong_objects(&self) -> &BTreeMap<ObjectName, Vec<Complaint>> {
        &self.complaints
    }

    /// Complaints of the source: all of them.
    pub(super) fn complaints(&mut self, now: BTreeMap<ObjectName, Vec<Complaint>>, notices: &Notices) {
        let fresh = now.iter().filter(|(object, list)| self.complaints.get(*object) != Some(list));
        let fresh = fresh.inspect(|(object, list)| notices.wrong(object, list));
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
        notices: &Notices,
    ) {
        let line = |family: Family, (name, count): (&ServicePortName, &usize)| {
            let line = format!(
                "{name} ({family}): {count} of its endpoints get no traffic; spread them over several Services"
            );
            (line, BTreeSet::from([name.service.clone()]))
        };
        let now: Lines =
            families.flat_map(|(family, all)| all.iter().map(move |entry| line(family, entry))).collect();
        let what = "a service port has more endpoints than this mode can serve";
        tell(&self.left_out, &now, what, |service, text| notices.left_out(service, text));
        self.left_out = now;
    }

    /// Service ports of each family of which something cannot be served, and why.
    pub(super) fn set_aside<'a>(
        &mut self,
        families: impl Iterator<Item = (Family, &'a BTreeMap<ServicePortName, String>)>,
        notices: &Notices,
    ) {
        let line = |family: Family, (name, cause): (&ServicePortName, &String)| {
            (format!("{name} ({family}): {cause}"), BTreeSet::from([name.service.clone()]))
        };
        let now: Lines =
            families.flat_map(|(family, all)| all.iter().map(move |entry| line(family, entry))).collect();
        let what = "something of a service port cannot be served; it is tried again with the next sync";
        tell(&self.set_aside, &now, what, |service, text| notices.set_aside(service, text));
        self.set_aside = now;
    }

    /// Conflicts and refused service ports of all books.
    pub(super) fn books<'a>(
        &mut self,
        books: impl Iterator<Item = &'a Book>,
        metrics: &Metrics,
        notices: &Notices,
    ) {
        let (mut conflicts, mut refused) = (Lines::new(), Lines::new());
        for book in books {
            let family = book.settings().family;
            for conflict in book.conflicts() {
                let losers: Vec<String> = conflict.losers.iter().map(|k| k.name.to_string()).collect();
                let line = format!(
                    "{} belongs to {} (the older Service); {} asks for it too and keeps its other addresses",
                    conflict.frontend,
                    conflict.winner.name,
                    losers.join(", ")
                );
                conflicts.insert(line, conflict.losers.iter().map(|k| k.name.service.clone()).collect());
            }
            for (name, entry) in book.quarantined() {
                let line = format!("{name} ({family}): {}", entry.cause);
                refused.insert(line, BTreeSet::from([name.service.clone()]));
            }
        }
        let what = "two Services ask for one frontend";
        tell(&self.conflicts, &conflicts, what, |service, text| notices.conflict(service, text));
        let what = "the kernel refuses a service port; it is set aside until it changes, the others go on";
        tell(&self.refused, &refused, what, |service, text| notices.refused(service, text));
        self.count(metrics, conflicts.len(), refused.len());
        (self.conflicts, self.refused) = (conflicts, refused);
    }

    fn count(&self, metrics: &Metrics, conflicts: usize, refused: usize) {
        let mut kinds: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for object in self.complaints.keys() {
            *kinds.entry(object.kind.clone()).or_default() += 1;
        }
        let refused = refused + self.set_aside.len();
        if refused > 0 {
            kinds.insert("ServicePort".into(), refused);
        }
        metrics.quarantined(kinds);
        metrics.frontend_conflicts(conflicts);
    }
}

/// Logs what is new and what is over; what is new is recorded for each Service that it is about.
fn tell(before: &Lines, now: &Lines, what: &str, record: impl Fn(&ServiceName, String)) {
    let fresh = || now.iter().filter(|(line, _)| !before.contains_key(*line));
    for (line, _) in fresh().take(MAX_LINES) {
        tracing::warn!("{what}: {line}");
    }
    for (line, services) in fresh() {
        services.iter().for_each(|service| record(service, format!("{what}: {line}")));
    }
    for line in before.keys().filter(|line| !now.contains_key(*line)).take(MAX_LINES) {
        tracing::info!("no longer: {what}: {line}");
    }
}

#[cfg(test)]
mod tests {
    use switchyard_source::events::{Recorded, Recorder};
    use tokio::sync::mpsc;

    use super::*;

    fn complaints(problems: &[&str]) -> BTreeMap<ObjectName, Vec<Complaint>> {
        let object = ObjectName::new("Service", "shop", "web");
        let complaint = |p: &&str| Complaint { object: object.clone(), problem: (*p).to_owned() };
        BTreeMap::from([(object.clone(), problems.iter().map(complaint).collect())])
    }

    /// Notices, and everything that was recorded with them so far: `reason object: note`.
    fn recording() -> (Notices, impl FnMut() -> Vec<String>) {
        let (send, mut receive) = mpsc::channel::<Recorded>(64);
        let mut recorded = move || {
            let notices = std::iter::from_fn(|| receive.try_recv().ok()).map(|recorded| recorded.notice);
            notices.map(|n| format!("{} {}: {}", n.reason, n.regarding, n.note)).collect()
        };
        let notices = Notices::new(Recorder::to(send), "n1");
        notices.starting(crate::flags::Mode::Iptables);
        assert_eq!(recorded(), ["Starting Node n1: "]);
        (notices, recorded)
    }

    #[test]
    fn an_object_is_an_event_when_its_complaints_change() {
        let (notices, mut recorded) = recording();
        let mut told = Told::default();
        told.complaints(complaints(&["port 0", "port 1"]), &notices);
        assert_eq!(recorded(), ["ObjectSetAside Service shop/web: port 0; port 1"]);
        told.complaints(complaints(&["port 0", "port 1"]), &notices);
        assert!(recorded().is_empty(), "nothing new");
        told.complaints(complaints(&["port 1"]), &notices);
        assert_eq!(recorded(), ["ObjectSetAside Service shop/web: port 1"]);
        told.complaints(BTreeMap::new(), &notices);
        assert!(recorded().is_empty(), "good again");
    }

    #[test]
    fn every_service_of_a_new_line_hears_of_it() {
        let (notices, mut recorded) = recording();
        let services = |names: &[&str]| names.iter().map(|name| ServiceName::new("shop", name)).collect();
        let before = Lines::from([("old".to_owned(), services(&["a"]))]);
        let mut now = before.clone();
        now.insert("new".to_owned(), services(&["b", "c"]));
        let tell =
            |before, now| tell(before, now, "trouble", |service, text| notices.conflict(service, text));
        tell(&before, &now);
        let want = ["b", "c"].map(|name| format!("FrontendConflict Service shop/{name}: trouble: new"));
        assert_eq!(recorded(), want);
        tell(&now, &before);
        assert!(recorded().is_empty(), "the end of a trouble is a log line only");
    }
}
