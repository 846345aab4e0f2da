//! What was set aside, for its page: the first of it, and how much there is.

use switchyard_serve::ui::{SetAside, SetAsideKind, SetAsidePage};

use crate::sync::{FamilySync, View};

/// Rows that a page holds.
const ROWS: usize = 200;

/// How much there is.
pub(super) fn total(view: &View<'_>) -> usize {
    let objects: usize = view.complaints.values().map(Vec::len).sum();
    let ports = |sync: &FamilySync| {
        let losers: usize = sync.book().conflicts().iter().map(|conflict| conflict.losers.len()).sum();
        sync.book().quarantined().len() + sync.set_aside().len() + sync.left_out().len() + losers
    };
    objects + view.families.iter().map(ports).sum::<usize>()
}

/// See the module.
pub(super) fn page(view: &View<'_>) -> SetAsidePage {
    let objects = view.complaints.iter().flat_map(|(object, complaints)| {
        complaints.iter().map(move |complaint| SetAside {
            kind: SetAsideKind::Object,
            object: object.to_string(),
            family: None,
            cause: complaint.problem.clone(),
        })
    });
    let items = objects.chain(view.families.iter().flat_map(of_family)).take(ROWS).collect();
    SetAsidePage { items, total: total(view) }
}

fn of_family(sync: &FamilySync) -> impl Iterator<Item = SetAside> {
    let family = Some(sync.family());
    let item = move |kind, object: String, cause: String| SetAside { kind, object, family, cause };
    let refused = sync.book().quarantined().iter();
    let refused =
        refused.map(move |(name, entry)| item(SetAsideKind::Refused, name.to_string(), entry.cause.clone()));
    let unserved = sync.set_aside().iter();
    let unserved =
        unserved.map(move |(name, cause)| item(SetAsideKind::Unserved, name.to_string(), cause.clone()));
    let left_out = sync.left_out().iter().map(move |(name, count)| {
        item(
            SetAsideKind::LeftOut,
            name.to_string(),
            format!("{count} endpoints are more than the mode can hold"),
        )
    });
    let conflicts = sync.book().conflicts().into_iter().flat_map(move |conflict| {
        let cause = format!("{} belongs to {}", conflict.frontend, conflict.winner.name);
        let item = move |name: String| item(SetAsideKind::Conflict, name, cause.clone());
        conflict.losers.into_iter().map(move |key| item(key.name.to_string()))
    });
    refused.chain(unserved).chain(left_out).chain(conflicts)
}
