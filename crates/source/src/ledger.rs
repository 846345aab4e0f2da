//! Who was complained about: what lets a complaint be taken back.

use std::collections::{BTreeMap, BTreeSet};

use switchyard_model::{Complaint, Event, ObjectName};

use crate::Sink;

/// Passes complaints on, each once, and clears them when their object is good again or gone.
pub(crate) struct Ledger {
    sink: Sink,
    open: BTreeMap<ObjectName, Vec<Complaint>>,
}

impl Ledger {
    /// Nobody was complained about yet.
    pub(crate) fn new(sink: Sink) -> Self {
        Self { sink, open: BTreeMap::new() }
    }

    /// True if nobody is complained about.
    pub(crate) fn is_clear(&self) -> bool {
        self.open.is_empty()
    }

    /// Everything that is wrong with one object now.
    pub(crate) fn report(&mut self, object: ObjectName, complaints: Vec<Complaint>) {
        if complaints.is_empty() {
            if self.open.remove(&object).is_some() {
                (self.sink)(Event::Complaints(object, complaints));
            }
        } else if self.open.get(&object) != Some(&complaints) {
            self.open.insert(object.clone(), complaints.clone());
            (self.sink)(Event::Complaints(object, complaints));
        }
    }

    /// Clears the complaints about all objects that are not listed any more.
    pub(crate) fn keep_only(&mut self, listed: &BTreeSet<ObjectName>) {
        let gone: Vec<_> = self.open.keys().filter(|object| !listed.contains(object)).cloned().collect();
        for object in gone {
            self.report(object, Vec::new());
        }
    }

    /// Replaces everything that was said before.
    pub(crate) fn replace(&mut self, complaints: BTreeMap<ObjectName, Vec<Complaint>>) {
        self.keep_only(&complaints.keys().cloned().collect());
        for (object, complaints) in complaints {
            self.report(object, complaints);
        }
    }
}
