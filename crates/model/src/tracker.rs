//! Follows events and says which service ports changed.
//!
//! In: [`Event`]s in any order. Out: [`Changes`], once Services and EndpointSlices have both been listed.
//!
//! Cost: an event touches the Service it names and no other. A complete list touches every Service it differs in. Until both lists are
//! there nothing follows from either, so nothing is worked out twice.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ipnet::IpNet;

use crate::derive::service_ports;
use crate::slices::Slices;
use crate::{
    Changes, EndpointSlice, Event, Node, Pending, PortKey, Service, ServiceName, ServicePort, SliceName,
    Snapshot,
};

/// One Service, what the slices say of it, and the service ports that follow.
#[derive(Debug, Default)]
struct Tracked {
    service: Option<Arc<Service>>,
    slices: Slices,
    ports: Vec<Arc<ServicePort>>,
}

/// A slice in a set of slices that is asked by name: a map would hold every name again.
#[derive(Debug)]
struct ByName(Arc<EndpointSlice>);

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl Borrow<SliceName> for ByName {
    fn borrow(&self) -> &SliceName {
        &self.0.name
    }
}

/// Whether the first complete list of a kind of object has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listed {
    #[default]
    NotYet,
    Complete,
}

/// The state of the world as far as events told it.
#[derive(Debug, Default)]
pub struct Tracker {
    services: BTreeMap<ServiceName, Tracked>,
    /// Which Service each slice belongs to: a slice may change its label, and its old Service must lose it then.
    owners: HashSet<ByName>,
    node: Arc<Node>,
    service_cidrs: Arc<[IpNet]>,
    listed_services: Listed,
    listed_slices: Listed,
    listed_cidrs: Listed,
    changes: Changes,
}

impl Tracker {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True once both Services and EndpointSlices have been listed completely.
    pub fn is_complete(&self) -> bool {
        self.listed_services == Listed::Complete && self.listed_slices == Listed::Complete
    }

    /// Takes what changed since the last call. `None` while the first lists are not complete, because half a
    /// picture would look like a cluster without endpoints.
    pub fn take(&mut self) -> Option<Changes> {
        self.is_complete().then(|| std::mem::take(&mut self.changes))
    }

    /// True if [`Tracker::take`] would return something to act on.
    pub fn has_changes(&self) -> bool {
        self.is_complete() && !self.changes.is_empty()
    }

    /// True once the own Node, or at least its name, is known.
    pub fn knows_node(&self) -> bool {
        !self.node.name.is_empty()
    }

    /// True once the own Node has a range for its pods.
    pub fn knows_pod_ranges(&self) -> bool {
        !self.node.pod_cidrs.is_empty()
    }

    /// True once the ServiceCIDRs have been told, or that there are none.
    pub fn knows_service_cidrs(&self) -> bool {
        self.listed_cidrs == Listed::Complete
    }

    /// Changes that wait to be taken.
    pub fn pending(&self) -> Pending {
        self.changes.pending
    }

    /// A copy of everything. Costs a pass over the cluster: for start-up, tests and subcommands.
    pub fn snapshot(&self) -> Snapshot {
        let ports = self.services.values().flat_map(|t| &t.ports);
        Snapshot {
            ports: ports.map(|p| (PortKey::from(&**p), p.clone())).collect(),
            node: self.node.clone(),
            service_cidrs: self.service_cidrs.clone(),
        }
    }

    /// Takes in one event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Services(list) => self.replace_services(list),
            Event::Service(service) => self.put_service(service),
            Event::ServiceGone(name) => self.remove_service(&name),
            Event::Slices(list) => self.replace_slices(list),
            Event::Slice(slice) => self.put_slice(slice),
            Event::SliceGone(name) => self.remove_slice(&name),
            Event::Node(node) => self.put_node(node),
            // The rules of a node whose object is gone still carry traffic; kube-proxy keeps its last facts too.
            Event::NodeGone => {}
            Event::ServiceCidrs(list) => self.put_service_cidrs(list),
            Event::Together(events) => events.into_iter().for_each(|event| self.apply(event)),
            // Complaints are for whoever reports to the operator; no rule depends on them.
            Event::Complaints(..) => {}
        }
    }

    fn replace_services(&mut self, list: Vec<Arc<Service>>) {
        let known = self.services.iter().filter(|(_, t)| t.service.is_some()).map(|(name, _)| name);
        for name in missing(known, list.iter().map(|service| &service.name)) {
            self.remove_service(&name);
        }
        for service in list {
            self.put_service(service);
        }
        self.complete(|tracker| &mut tracker.listed_services);
    }

    fn put_service(&mut self, service: Arc<Service>) {
        self.changes.service_events += 1;
        let is_complete = self.is_complete();
        let tracked = self.services.entry(service.name.clone()).or_default();
        if tracked.service.as_ref() == Some(&service) {
            return;
        }
        tracked.service = Some(service);
        self.changes.pending.services += 1;
        if is_complete {
            tracked.derive(&mut self.changes);
        }
    }

    fn remove_service(&mut self, name: &ServiceName) {
        self.changes.service_events += 1;
        if let Some(tracked) = self.services.get_mut(name) {
            if tracked.service.take().is_some() {
                self.changes.pending.services += 1;
            }
            self.rederive(name);
        }
    }

    fn replace_slices(&mut self, list: Vec<Arc<EndpointSlice>>) {
        let known = self.owners.iter().map(|slice| &slice.0.name);
        for name in missing(known, list.iter().map(|slice| &slice.name)) {
            self.remove_slice(&name);
        }
        for slice in list {
            self.put_slice(slice);
        }
        self.complete(|tracker| &mut tracker.listed_slices);
    }

    /// A list is complete. With the last of them, everything can be worked out.
    fn complete(&mut self, list: impl FnOnce(&mut Self) -> &mut Listed) {
        let was_complete = self.is_complete();
        *list(self) = Listed::Complete;
        if !was_complete && self.is_complete() {
            let Self { services, changes, .. } = self;
            services.values_mut().for_each(|tracked| tracked.derive(changes));
        }
    }

    fn put_slice(&mut self, slice: Arc<EndpointSlice>) {
        self.changes.slice_events += 1;
        let is_complete = self.is_complete();
        let owner = slice.service.clone();
        match self.owners.replace(ByName(slice.clone())) {
            // The one that is held stays: nobody keeps two equal ones.
            Some(same) if same.0 == slice => {
                self.owners.replace(same);
                return;
            }
            Some(old) if old.0.service != owner => self.take_from_owner(&old.0),
            _ => {}
        }
        let tracked = self.services.entry(owner.clone()).or_default();
        if let Some(at) = slice.trigger {
            self.changes.add_trigger(&owner, slice.family, at);
        }
        tracked.slices.put(slice);
        self.changes.pending.slices += 1;
        if is_complete {
            tracked.derive(&mut self.changes);
        }
    }

    fn remove_slice(&mut self, name: &SliceName) {
        self.changes.slice_events += 1;
        self.detach_slice(name);
    }

    fn detach_slice(&mut self, name: &SliceName) {
        if let Some(ByName(slice)) = self.owners.take(name) {
            self.take_from_owner(&slice);
        }
    }

    /// Also forgets trigger times: they would measure the wrong thing once a slice of the Service is gone.
    fn take_from_owner(&mut self, slice: &EndpointSlice) {
        let owner = &slice.service;
        if let Some(tracked) = self.services.get_mut(owner) {
            tracked.slices.remove(&slice.name.name);
            self.changes.pending.slices += 1;
            self.changes.triggers.remove(owner);
            self.rederive(owner);
        }
    }

    fn put_node(&mut self, node: Node) {
        if *self.node != node {
            self.node = Arc::new(node);
            self.changes.node = Some(self.node.clone());
        }
    }

    fn put_service_cidrs(&mut self, mut list: Vec<IpNet>) {
        self.listed_cidrs = Listed::Complete;
        list.sort();
        list.dedup();
        if *self.service_cidrs != *list {
            self.service_cidrs = list.into();
            self.changes.service_cidrs = Some(self.service_cidrs.clone());
        }
    }

    /// One Service may have other service ports now.
    fn rederive(&mut self, name: &ServiceName) {
        let is_complete = self.is_complete();
        let Some(tracked) = self.services.get_mut(name) else { return };
        if is_complete {
            tracked.derive(&mut self.changes);
        }
        if tracked.service.is_none() && tracked.slices.is_empty() {
            self.services.remove(name);
        }
    }
}

impl Tracked {
    /// Works out the service ports again and records those that differ.
    fn derive(&mut self, changes: &mut Changes) {
        let derived = match &self.service {
            Some(service) => service_ports(service, &self.slices),
            None => Vec::new(),
        };
        let old = std::mem::replace(&mut self.ports, Vec::with_capacity(derived.len()));
        for gone in old.iter().filter(|o| !derived.iter().any(|d| d.family == o.family && d.name == o.name)) {
            changes.ports.insert(PortKey::from(&**gone), None);
        }
        for port in derived {
            let same = old.iter().find(|o| ***o == port);
            let port = same.cloned().unwrap_or_else(|| Arc::new(port));
            if same.is_none() {
                changes.ports.insert(PortKey::from(&*port), Some(port.clone()));
            }
            self.ports.push(port);
        }
    }
}

/// Names that are known and not listed any more.
fn missing<'a, N: Ord + Clone + 'a>(
    known: impl Iterator<Item = &'a N>,
    listed: impl Iterator<Item = &'a N>,
) -> Vec<N> {
    let mut known = known.peekable();
    if known.peek().is_none() {
        return Vec::new();
    }
    let listed: BTreeSet<&N> = listed.collect();
    known.filter(|name| !listed.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests;
