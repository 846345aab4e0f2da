//! The own Node and the ServiceCIDRs: a handful of objects that become one value.

use std::collections::BTreeMap;

use ipnet::IpNet;
use switchyard_model::{Event, Node};

use super::Shared;
use super::desk::Outlet;
use super::follow::Collector;
use crate::convert;
use crate::wire::{self, Object};

/// Turns the own Node into events.
pub(super) struct NodeDesk {
    outlet: Outlet,
    name: String,
    listed: Option<Node>,
    is_known: bool,
}

impl NodeDesk {
    /// No list yet.
    pub(super) fn new(name: &str, shared: &Shared) -> Self {
        Self { outlet: Outlet::new(shared), name: name.to_owned(), listed: None, is_known: false }
    }

    /// The own Node; another one, which the selector should have kept out, is none.
    fn own(&mut self, wire: &wire::Node) -> Option<Node> {
        self.outlet.convert(wire, convert::node).filter(|node| *node.name == *self.name)
    }

    fn send(&mut self, node: Option<Node>) {
        let was_known = std::mem::replace(&mut self.is_known, node.is_some());
        match node {
            Some(node) => (self.outlet.sink)(Event::Node(node)),
            None if was_known => (self.outlet.sink)(Event::NodeGone),
            None => {}
        }
    }
}

impl Collector for NodeDesk {
    type Wire = wire::Node;

    fn begin(&mut self) {
        self.outlet.begin();
        self.listed = None;
    }

    fn add(&mut self, wire: &wire::Node) {
        let node = self.own(wire);
        self.listed = node.or(self.listed.take());
    }

    fn finish(&mut self) {
        self.outlet.finish();
        let node = self.listed.take();
        self.send(node);
    }

    fn apply(&mut self, wire: &wire::Node) {
        if let Some(node) = self.own(wire) {
            self.send(Some(node));
        }
    }

    fn delete(&mut self, wire: &wire::Node) {
        self.outlet.forget(wire);
        if wire.metadata.as_ref().is_some_and(|meta| meta.name.text() == self.name) {
            self.send(None);
        }
    }
}

/// Turns ServiceCIDRs into their union.
pub(super) struct CidrDesk {
    outlet: Outlet,
    ranges: BTreeMap<String, Vec<IpNet>>,
}

impl CidrDesk {
    /// No list yet.
    pub(super) fn new(shared: &Shared) -> Self {
        Self { outlet: Outlet::new(shared), ranges: BTreeMap::new() }
    }

    fn send(&self) {
        let mut union: Vec<IpNet> = self.ranges.values().flatten().copied().collect();
        union.sort_unstable();
        union.dedup();
        (self.outlet.sink)(Event::ServiceCidrs(union));
    }
}

fn name<O: Object>(wire: &O) -> String {
    let name = wire.metadata().as_ref().map(|meta| &meta.name);
    name.map(|name| name.text().to_owned()).unwrap_or_default()
}

impl Collector for CidrDesk {
    type Wire = wire::ServiceCidr;

    fn begin(&mut self) {
        self.outlet.begin();
        self.ranges.clear();
    }

    fn add(&mut self, wire: &wire::ServiceCidr) {
        let ranges = self.outlet.convert(wire, |wire, _| convert::service_cidr(wire));
        self.ranges.insert(name(wire), ranges.unwrap_or_default());
    }

    fn finish(&mut self) {
        self.outlet.finish();
        self.send();
    }

    fn apply(&mut self, wire: &wire::ServiceCidr) {
        self.add(wire);
        self.send();
    }

    fn delete(&mut self, wire: &wire::ServiceCidr) {
        self.outlet.forget(wire);
        self.ranges.remove(&name(wire));
        self.send();
    }
}
