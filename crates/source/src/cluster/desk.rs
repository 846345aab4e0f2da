//! Services, EndpointSlices and Endpoints: from objects to events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use switchyard_model::{Complaint, EndpointSlice, Event, ObjectName, Service, ServiceName, SliceName};

use super::Shared;
use super::follow::Collector;
use crate::Sink;
use crate::convert::{self, Converted, Interner};
use crate::ledger::Ledger;
use crate::wire::{self, Lax, Meta, Object};

/// A kind of object of which each becomes one value.
pub(super) trait Kind {
    /// The object.
    type Wire: Object;
    /// The value.
    type Value;
    /// The value's name.
    type Name;

    /// Converts an object.
    fn convert(wire: &Self::Wire, interner: &mut Interner) -> Converted<Self::Value>;
    /// The name of whatever value the object would become.
    fn name(meta: &Lax<Meta>) -> Option<Self::Name>;
    /// All values.
    fn all(values: Vec<Arc<Self::Value>>) -> Event;
    /// One value.
    fn one(value: Self::Value) -> Event;
    /// One value less.
    fn gone(name: Self::Name) -> Event;
}

/// Services.
pub(super) enum Services {}

impl Kind for Services {
    type Wire = wire::Service;
    type Value = Service;
    type Name = ServiceName;

    fn convert(wire: &wire::Service, interner: &mut Interner) -> Converted<Service> {
        convert::service(wire, interner)
    }

    fn name(meta: &Lax<Meta>) -> Option<ServiceName> {
        convert::service_name(meta)
    }

    fn all(values: Vec<Arc<Service>>) -> Event {
        Event::Services(values)
    }

    fn one(value: Service) -> Event {
        Event::Service(value.into())
    }

    fn gone(name: ServiceName) -> Event {
        Event::ServiceGone(name)
    }
}

/// EndpointSlices.
pub(super) enum Slices {}

impl Kind for Slices {
    type Wire = wire::EndpointSlice;
    type Value = EndpointSlice;
    type Name = SliceName;

    fn convert(wire: &wire::EndpointSlice, interner: &mut Interner) -> Converted<EndpointSlice> {
        convert::slice(wire, interner)
    }

    fn name(meta: &Lax<Meta>) -> Option<SliceName> {
        convert::slice_name(meta)
    }

    fn all(values: Vec<Arc<EndpointSlice>>) -> Event {
        Event::Slices(values)
    }

    fn one(value: EndpointSlice) -> Event {
        Event::Slice(value.into())
    }

    fn gone(name: SliceName) -> Event {
        Event::SliceGone(name)
    }
}

/// Where values, complaints and shared texts of one watch go.
pub(super) struct Outlet {
    pub(super) sink: Sink,
    interner: Arc<Mutex<Interner>>,
    ledger: Ledger,
    /// The objects of a list in progress that have complaints.
    listed: Option<BTreeSet<ObjectName>>,
}

impl Outlet {
    /// Nothing was said yet.
    pub(super) fn new(shared: &Shared) -> Self {
        Self {
            sink: shared.sink.clone(),
            interner: shared.interner.clone(),
            ledger: Ledger::new(shared.sink.clone()),
            listed: None,
        }
    }

    /// A list begins.
    pub(super) fn begin(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// A list is complete: complaints about objects that are not in it are void.
    pub(super) fn finish(&mut self) {
        self.ledger.keep_only(&self.listed.take().unwrap_or_default());
    }

    /// Converts an object and passes its complaints on.
    pub(super) fn convert<O: Object, T>(
        &mut self,
        wire: &O,
        convert: impl FnOnce(&O, &mut Interner) -> Converted<T>,
    ) -> Option<T> {
        let converted = {
            let mut interner = self.interner.lock().unwrap_or_else(PoisonError::into_inner);
            convert(wire, &mut interner)
        };
        self.report(wire, converted.complaints);
        converted.value
    }

    /// An object is gone, and with it what was wrong with it.
    pub(super) fn forget<O: Object>(&mut self, wire: &O) {
        self.report(wire, Vec::new());
    }

    fn report<O: Object>(&mut self, wire: &O, complaints: Vec<Complaint>) {
        if complaints.is_empty() && self.ledger.is_clear() {
            return;
        }
        let object = convert::object_name::<O>(wire.metadata());
        if let (Some(listed), false) = (&mut self.listed, complaints.is_empty()) {
            listed.insert(object.clone());
        }
        self.ledger.report(object, complaints);
    }
}

/// Turns objects that become one value each into events.
pub(super) struct Desk<K: Kind> {
    outlet: Outlet,
    list: Vec<Arc<K::Value>>,
}

impl<K: Kind> Desk<K> {
    /// No list yet.
    pub(super) fn new(shared: &Shared) -> Self {
        Self { outlet: Outlet::new(shared), list: Vec::new() }
    }
}

impl<K: Kind> Collector for Desk<K> {
    type Wire = K::Wire;

    fn begin(&mut self) {
        self.outlet.begin();
        self.list.clear();
    }

    fn add(&mut self, wire: &K::Wire) {
        self.list.extend(self.outlet.convert(wire, K::convert).map(Arc::new));
    }

    fn finish(&mut self) {
        self.outlet.finish();
        (self.outlet.sink)(K::all(std::mem::take(&mut self.list)));
    }

    fn apply(&mut self, wire: &K::Wire) {
        match self.outlet.convert(wire, K::convert) {
            Some(value) => (self.outlet.sink)(K::one(value)),
            // It may have been one of ours before, or a good one.
            None => K::name(wire.metadata()).into_iter().for_each(|name| (self.outlet.sink)(K::gone(name))),
        }
    }

    fn delete(&mut self, wire: &K::Wire) {
        self.outlet.forget(wire);
        K::name(wire.metadata()).into_iter().for_each(|name| (self.outlet.sink)(K::gone(name)));
    }
}

/// Turns Endpoints objects, each of which becomes any number of slices, into events.
pub(super) struct EndpointsDesk {
    outlet: Outlet,
    list: BTreeMap<ServiceName, Vec<EndpointSlice>>,
    /// The slices that were sent for each object.
    sent: BTreeMap<ServiceName, BTreeSet<SliceName>>,
}

impl EndpointsDesk {
    /// No list yet.
    pub(super) fn new(shared: &Shared) -> Self {
        Self { outlet: Outlet::new(shared), list: BTreeMap::new(), sent: BTreeMap::new() }
    }

    /// Replaces the slices of one object.
    fn replace(&mut self, name: ServiceName, slices: Vec<EndpointSlice>) {
        let now: BTreeSet<_> = slices.iter().map(|slice| slice.name.clone()).collect();
        let before = self.sent.remove(&name).unwrap_or_default();
        for slice in slices {
            (self.outlet.sink)(Event::Slice(slice.into()));
        }
        for gone in before.difference(&now) {
            (self.outlet.sink)(Event::SliceGone(gone.clone()));
        }
        if !now.is_empty() {
            self.sent.insert(name, now);
        }
    }
}

impl Collector for EndpointsDesk {
    type Wire = wire::Endpoints;

    fn begin(&mut self) {
        self.outlet.begin();
        self.list.clear();
    }

    fn add(&mut self, wire: &wire::Endpoints) {
        let slices = self.outlet.convert(wire, convert::endpoints).unwrap_or_default();
        if let Some(name) = convert::service_name(&wire.metadata) {
            self.list.insert(name, slices);
        }
    }

    fn finish(&mut self) {
        self.outlet.finish();
        let list = std::mem::take(&mut self.list);
        let names = |slices: &Vec<EndpointSlice>| slices.iter().map(|slice| slice.name.clone()).collect();
        self.sent = list.iter().map(|(name, slices)| (name.clone(), names(slices))).collect();
        (self.outlet.sink)(Event::Slices(list.into_values().flatten().map(Arc::new).collect()));
    }

    fn apply(&mut self, wire: &wire::Endpoints) {
        let slices = self.outlet.convert(wire, convert::endpoints).unwrap_or_default();
        if let Some(name) = convert::service_name(&wire.metadata) {
            self.replace(name, slices);
        }
    }

    fn delete(&mut self, wire: &wire::Endpoints) {
        self.outlet.forget(wire);
        if let Some(name) = convert::service_name(&wire.metadata) {
            self.replace(name, Vec::new());
        }
    }
}
