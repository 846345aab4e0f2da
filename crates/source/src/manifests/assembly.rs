//! What all files say together.
//!
//! In: the content of each file, in the order of their paths. Out: [`Lists`] without duplicates, complaints, and what differs
//! between two lists.
//!
//! Values are shared with the files that hold them and with whoever they were sent to; only a Service that gets a cluster IP
//! here is a value of its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::{Complaint, EndpointSlice, Event, Node, ObjectName, Service};

use super::allocate::{Allocator, Applicant};
use super::content::Content;

/// Complaints by object.
pub(super) type Complaints = BTreeMap<ObjectName, Vec<Complaint>>;

/// Everything that the files say, in the order of names.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) services: Vec<Arc<Service>>,
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    pub(super) node: Node,
    pub(super) cidrs: Vec<IpNet>,
}

/// Says something about an object.
pub(super) fn complain(object: ObjectName, problem: String, complaints: &mut Complaints) {
    complaints.entry(object.clone()).or_default().push(Complaint { object, problem });
}

/// An object and the file that it is in.
struct Found<'a, T> {
    value: T,
    path: &'a Path,
}

/// Puts the files together. Of two objects with one name the later one, in order of paths, is used.
pub(super) fn assemble<'a>(
    files: impl Iterator<Item = (&'a Path, &'a Content)> + Clone,
    node_name: &str,
    allocator: &mut Allocator,
    complaints: &mut Complaints,
) -> Lists {
    let services = files.clone().flat_map(|(path, content)| {
        content.services.iter().map(move |(service, wish)| Found {
            value: Applicant { service: service.clone(), wish: wish.as_deref() },
            path,
        })
    });
    let mut services = last_of_each(
        services.collect(),
        |applicant| &applicant.service.name,
        |name| ObjectName::from(name),
        complaints,
    );
    for (name, why) in allocator.assign(&mut services) {
        let problem =
            format!("spec.clusterIP is empty and {why}; the Service has no cluster IP until one is set");
        complain(ObjectName::from(&name), problem, complaints);
    }
    let slices = files.clone().flat_map(|(path, content)| {
        content.slices.iter().map(move |slice| Found { value: slice.clone(), path })
    });
    let slices =
        last_of_each(slices.collect(), |slice| &slice.name, |name| ObjectName::from(name), complaints);
    let nodes = files.clone().flat_map(|(path, content)| {
        let own = content.nodes.iter().filter(|node| *node.name == *node_name);
        own.map(move |node| Found { value: node.clone(), path })
    });
    let node = last_of_each(
        nodes.collect(),
        |node| &node.name,
        |name| ObjectName::new("Node", "", name),
        complaints,
    );
    let mut cidrs: Vec<IpNet> = files.flat_map(|(_, content)| content.cidrs.iter().copied()).collect();
    cidrs.sort_unstable();
    cidrs.dedup();
    Lists {
        services: services.into_iter().map(|applicant| applicant.service).collect(),
        slices,
        node: node.into_iter().next().unwrap_or_else(|| Node { name: node_name.into(), ..Node::default() }),
        cidrs,
    }
}

/// Sorted by name, each name once; complaints about the others.
fn last_of_each<T, N: Ord>(
    mut found: Vec<Found<'_, T>>,
    name: fn(&T) -> &N,
    object: fn(&N) -> ObjectName,
    complaints: &mut Complaints,
) -> Vec<T> {
    // Stable: the files stay in order.
    found.sort_by(|a, b| name(&a.value).cmp(name(&b.value)));
    let mut kept: Vec<Found<'_, T>> = Vec::with_capacity(found.len());
    for next in found {
        match kept.last_mut() {
            Some(last) if name(&last.value) == name(&next.value) => {
                let problem = format!(
                    "it is in {} and again in {}; the latter is used, remove one of them",
                    last.path.display(),
                    next.path.display()
                );
                complain(object(name(&next.value)), problem, complaints);
                *last = next;
            }
            _ => kept.push(next),
        }
    }
    kept.into_iter().map(|found| found.value).collect()
}

impl Lists {
    /// What has to be told to somebody who knows `before`. Values that are equal become those of `before`, so that they
    /// are not kept twice.
    pub(super) fn since(&mut self, before: &Self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.node != before.node {
            events.push(Event::Node(self.node.clone()));
        }
        if self.cidrs != before.cidrs {
            events.push(Event::ServiceCidrs(self.cidrs.clone()));
        }
        let services = differences(&before.services, &mut self.services, |service| &service.name);
        events.extend(services.gone.into_iter().map(Event::ServiceGone));
        events.extend(services.new.into_iter().map(Event::Service));
        let slices = differences(&before.slices, &mut self.slices, |slice| &slice.name);
        events.extend(slices.gone.into_iter().map(Event::SliceGone));
        events.extend(slices.new.into_iter().map(Event::Slice));
        events
    }
}

/// What differs between two lists.
struct Differences<T, N> {
    gone: Vec<N>,
    new: Vec<Arc<T>>,
}

/// Compares two lists that are in the order of names.
fn differences<T: PartialEq, N: Ord + Clone>(
    before: &[Arc<T>],
    now: &mut [Arc<T>],
    name: fn(&T) -> &N,
) -> Differences<T, N> {
    let mut differences = Differences { gone: Vec::new(), new: Vec::new() };
    let (mut old, mut now) = (before.iter().peekable(), now.iter_mut().peekable());
    loop {
        let order = match (old.peek(), now.peek()) {
            (Some(old), Some(now)) => name(old).cmp(name(now)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return differences,
        };
        let was = if order.is_le() { old.next() } else { None };
        let is = if order.is_ge() { now.next() } else { None };
        match (was, is) {
            (Some(was), Some(is)) if Arc::ptr_eq(was, is) => {}
            (Some(was), Some(is)) if was == is => *is = was.clone(),
            (_, Some(is)) => differences.new.push(is.clone()),
            (Some(was), None) => differences.gone.push(name(was).clone()),
            (None, None) => return differences,
        }
    }
}
