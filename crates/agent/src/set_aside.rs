//! What was set aside, for whoever lists it: `switchyard get quarantine` and the dashboard.
//!
//! In: what the loop knows, and from where on. Out: one item after another: wrong objects, service ports that the kernel refused, those that the
//! mode cannot serve, endpoints that are too many, frontends that another Service has.
//!
//! Invariants
//! - The order is that of the places, and an item keeps its place: a list can be read in parts, while others come and go.
//! - What is before a place costs nothing.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use switchyard_model::{Family, ObjectName, PortKey, Protocol, ServiceName, ServicePortName};
use switchyard_plan::route::Frontend;
use switchyard_serve::ui::{SetAside, SetAsideKind};

use crate::sync::{FamilySync, View};

/// Where an item stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The n-th problem of an object.
    Object(ObjectName, usize),
    /// A service port that the kernel refused.
    Refused(PortKey),
    /// One that the mode cannot serve, or not all of it.
    Unserved(PortKey),
    /// One with too many endpoints.
    LeftOut(PortKey),
    /// The n-th of those who asked for a frontend in vain.
    Conflict(Family, Frontend, usize),
}

/// One item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) place: Place,
    /// Of the object.
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) item: SetAside,
}

/// How much there is.
pub(crate) fn total(view: &View<'_>) -> usize {
    let objects: usize = view.complaints.values().map(Vec::len).sum();
    let ports = |sync: &FamilySync| {
        let book = sync.book();
        book.quarantined().len() + sync.set_aside().len() + sync.left_out().len() + book.lost()
    };
    objects + view.families.iter().map(ports).sum::<usize>()
}

/// Everything behind a place; without one, everything.
pub(crate) fn behind<'a>(view: &View<'a>, place: Option<&Place>) -> impl Iterator<Item = Listed> + use<'a> {
    let ports = |sync: &'a FamilySync| sync.book().quarantined();
    let refused =
        section(view, place, Place::Refused, ports, |entry| (SetAsideKind::Refused, entry.cause.clone()));
    let unserved = section(view, place, Place::Unserved, FamilySync::set_aside, |cause| {
        (SetAsideKind::Unserved, cause.clone())
    });
    let left_out = section(view, place, Place::LeftOut, FamilySync::left_out, |count| {
        let cause = "of its endpoints get no traffic: the mode holds no more";
        (SetAsideKind::LeftOut, format!("{count} {cause}; spread them over several Services"))
    });
    objects(view, place).chain(refused).chain(unserved).chain(left_out).chain(conflicts(view, place))
}

fn objects<'a>(view: &View<'a>, place: Option<&Place>) -> impl Iterator<Item = Listed> + use<'a> {
    let begin = match place {
        None => Some(Bound::Unbounded),
        Some(Place::Object(object, _)) => Some(Bound::Included(object.clone())),
        Some(_) => None,
    };
    let (complaints, place) = (view.complaints, place.cloned());
    let objects = begin.into_iter().flat_map(|begin| complaints.range((begin, Bound::Unbounded)));
    let problems = objects.flat_map(|(object, list)| {
        list.iter().enumerate().map(move |(n, complaint)| (Place::Object(object.clone(), n), complaint))
    });
    let problems = problems.skip_while(move |(here, _)| Some(here) <= place.as_ref());
    problems.map(|(place, complaint)| Listed {
        place,
        namespace: complaint.object.namespace.clone(),
        name: complaint.object.name.clone(),
        item: SetAside {
            kind: SetAsideKind::Object,
            object: complaint.object.to_string(),
            family: None,
            cause: complaint.problem.clone(),
        },
    })
}

/// What is kept by service port: in each family, and why.
fn section<'a, V: 'a>(
    view: &View<'a>,
    place: Option<&Place>,
    of: fn(PortKey) -> Place,
    ports: fn(&'a FamilySync) -> &'a BTreeMap<ServicePortName, V>,
    why: fn(&V) -> (SetAsideKind, String),
) -> impl Iterator<Item = Listed> + use<'a, V> {
    let place = place.cloned();
    let families = view.families.iter().filter_map(move |sync| {
        let begin = begin(place.as_ref(), of, sync.family())?;
        Some((sync.family(), ports(sync).range((begin, Bound::Unbounded))))
    });
    families.flat_map(move |(family, ports)| {
        ports.map(move |(name, value)| {
            let (kind, cause) = why(value);
            of_port(of(PortKey { family, name: name.clone() }), family, name, kind, cause)
        })
    })
}

/// Where a family's part of a section begins, if any of it is behind the place.
fn begin(place: Option<&Place>, of: fn(PortKey) -> Place, family: Family) -> Option<Bound<ServicePortName>> {
    let first = || {
        let service = ServiceName::new("", "");
        PortKey { family, name: ServicePortName { service, port: "".into(), protocol: Protocol::Tcp } }
    };
    match place {
        Some(Place::Refused(key) | Place::Unserved(key) | Place::LeftOut(key))
            if key.family == family && place == Some(&of(key.clone())) =>
        {
            Some(Bound::Excluded(key.name.clone()))
        }
        _ => (Some(&of(first())) > place).then_some(Bound::Unbounded),
    }
}

fn conflicts<'a>(view: &View<'a>, place: Option<&Place>) -> impl Iterator<Item = Listed> + use<'a> {
    let place = place.cloned();
    let first = match place {
        Some(Place::Conflict(family, frontend, _)) => Some((family, frontend)),
        _ => None,
    };
    let books = view.families.iter().map(FamilySync::book).filter_map(move |book| {
        let family = book.settings().family;
        match first {
            Some((behind, _)) if family < behind => None,
            Some((same, frontend)) if family == same => Some((family, book.conflicts_from(Some(frontend)))),
            _ => Some((family, book.conflicts_from(None))),
        }
    });
    let lost = books.flat_map(|(family, conflicts)| {
        conflicts.flat_map(move |conflict| {
            let cause = format!("{} belongs to {}", conflict.frontend, conflict.winner.name);
            conflict.losers.into_iter().enumerate().map(move |(n, key)| {
                let place = Place::Conflict(family, conflict.frontend, n);
                of_port(place, family, &key.name, SetAsideKind::Conflict, cause.clone())
            })
        })
    });
    lost.skip_while(move |listed| Some(&listed.place) <= place.as_ref())
}

fn of_port(
    place: Place,
    family: Family,
    name: &ServicePortName,
    kind: SetAsideKind,
    cause: String,
) -> Listed {
    Listed {
        place,
        namespace: name.service.namespace.clone(),
        name: name.service.name.clone(),
        item: SetAside { kind, object: name.to_string(), family: Some(family), cause },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shelf::{Troubles, World, port};

    fn world() -> World {
        let at = |name: &str, n: u8| {
            let mut port = port(&format!("shop/{name}"), &format!("10.96.0.{n}"), &[]);
            port.external_ips = vec!["203.0.113.1".parse().unwrap(), "203.0.113.2".parse().unwrap()];
            port
        };
        let six = |name: &str, n: u8| port(&format!("shop/{name}"), &format!("fd00::{n}"), &[]);
        let all = ["big", "big-2", "odd", "sctp", "winner"];
        let ports: Vec<_> = (1..).zip(all).flat_map(|(n, name)| [at(name, n), six(name, n)]).collect();
        let troubles = Troubles { refused: &["odd"], unserved: &["sctp"], left_out: &["big", "big-2"] };
        let mut world = World::troubled(&ports, troubles);
        world.complain(&ObjectName::new("EndpointSlice", "shop", "a"), &["one", "two", "three"]);
        world.complain(&ObjectName::new("Service", "shop", "b"), &["four"]);
        world
    }

    fn lines(view: &View<'_>) -> Vec<String> {
        let line = |Listed { item, .. }: Listed| {
            format!(
                "{:?} {} {}: {}",
                item.kind,
                item.object,
                item.family.map_or("-", Family::as_str),
                item.cause
            )
        };
        behind(view, None).map(line).collect()
    }

    #[test]
    fn everything_is_there_and_counted() {
        let world = world();
        let lines = lines(&world.view());
        assert_eq!(lines.len(), total(&world.view()));
        for part in [
            "Object EndpointSlice shop/a -: two",
            "Refused shop/odd IPv6: no room",
            "Unserved shop/sctp IPv4: its port is taken",
            "LeftOut shop/big-2 IPv4: 3 of its endpoints get no traffic",
            "Conflict shop/winner IPv4: 203.0.113.2:80/tcp belongs to shop/big",
        ] {
            assert!(lines.iter().any(|line| line.starts_with(part)), "{part}: {lines:#?}");
        }
        // Both addresses, and everybody but one who wants them and is not refused.
        let conflicts = lines.iter().filter(|line| line.starts_with("Conflict")).count();
        assert_eq!((conflicts, lines.len()), (2 * 3, 4 + 2 + 2 + 4 + 2 * 3), "{lines:#?}");
    }

    #[test]
    fn a_list_goes_on_behind_any_place() {
        let world = world();
        let all: Vec<Listed> = behind(&world.view(), None).collect();
        assert!(all.is_sorted_by(|a, b| a.place < b.place), "{all:#?}");
        for (n, listed) in all.iter().enumerate() {
            let rest: Vec<Listed> = behind(&world.view(), Some(&listed.place)).collect();
            assert_eq!(rest, all[n + 1..], "{:?}", listed.place);
        }
    }
}
