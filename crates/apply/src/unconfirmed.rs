//! What changed since the last sync that succeeded, and whether the kernel can be trusted to hold what was planned.

use std::sync::Arc;

use switchyard_model::{ServicePort, ServicePortName};
use switchyard_plan::book::Replaced;

use crate::report::Report;

/// Whether what the kernel holds is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It holds what the planner's book says.
    Known,
    /// It may hold anything.
    Unknown,
}

impl Trust {
    /// After a sync.
    pub(crate) fn after(report: &Report) -> Self {
        if report.failure.is_some() { Self::Unknown } else { Self::Known }
    }
}

/// Changes that no sync has confirmed yet.
#[derive(Debug, Default)]
pub(crate) struct Unconfirmed(Vec<Replaced>);

impl Unconfirmed {
    /// These are in the book now.
    pub(crate) fn add(&mut self, replaced: impl IntoIterator<Item = Replaced>) {
        self.0.extend(replaced);
    }

    /// What a service port was when the kernel last took all of it: what it goes back to if it is refused now.
    pub(crate) fn last_good(&self, name: &ServicePortName) -> Option<Arc<ServicePort>> {
        self.0.iter().find(|replaced| replaced.name == *name)?.old.clone()
    }

    /// A sync that did not fail confirms everything.
    pub(crate) fn confirm(&mut self, report: &mut Report) {
        if report.failure.is_none() {
            report.confirmed = std::mem::take(&mut self.0);
        }
    }
}
