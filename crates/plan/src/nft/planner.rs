//! What to write: everything, or only what changed.
//!
//! Order within a transaction: what is referred to comes before what refers to it, and goes after it. Elements that
//! keep their key but change their value are deleted and added: one transaction, so no packet sees the gap.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use switchyard_model::{Family, ServicePort, ServicePortName};

use super::Config;
use super::base::{self, Chain};
use super::element::{Data, Key, Place};
use super::names::Set;
use super::ops::{Change, Op};
use super::port::{Needs, Silent, elements_of, needs};
use super::room::{Counts, Rooms};
use super::shape::Shape;
use super::shared::Shared;
use super::slots::Slots;
use crate::book::{Book, PortChanges, Replaced};
use crate::settings::NodePortAddresses;

mod means;
mod repair;

/// What a partial sync writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Changes, in order.
    pub ops: Vec<Op>,
    /// How many service ports were planned.
    pub planned: usize,
    /// What changed in the book.
    pub replaced: Vec<Replaced>,
    /// True if a set is too small for the changes: a full sync makes a larger one.
    pub needs_room: bool,
}

/// The whole ruleset as values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// All chains by name.
    pub chains: BTreeMap<String, Chain>,
    /// All elements of shared sets.
    pub elements: BTreeMap<Place, Data>,
    /// Sets of sticky clients: name and seconds.
    pub clients: BTreeMap<String, u32>,
    /// Sizes of the shared sets that have one.
    pub rooms: Rooms,
}

/// Plans one family.
#[derive(Clone, Debug)]
pub struct Planner {
    config: Config,
    book: Book,
    slots: HashMap<ServicePortName, Slots>,
    /// How many frontends lead to each shape.
    shapes: BTreeMap<Shape, usize>,
    /// How many service ports need each element that several may need.
    shared: Shared,
    counts: Counts,
    /// What the sets are made for.
    rooms: Rooms,
    /// Service ports with more endpoints than slots, and how many were left out.
    left_out: BTreeMap<ServicePortName, usize>,
    silent: Silent,
}

impl Planner {
    /// A planner over a book. What is in the book already is not written yet.
    pub fn new(config: Config, book: Book) -> Self {
        let mut planner = Self {
            config,
            book,
            slots: HashMap::new(),
            shapes: BTreeMap::new(),
            shared: Shared::default(),
            counts: Counts::default(),
            rooms: Rooms::new(),
            left_out: BTreeMap::new(),
            silent: Silent::default(),
        };
        planner.recount();
        planner.make_room();
        planner
    }

    /// The book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What this mode alone needs to know.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Service ports with more endpoints than this mode has slots, and how many endpoints get no traffic for it.
    pub fn left_out(&self) -> &BTreeMap<ServicePortName, usize> {
        &self.left_out
    }

    /// Service ports that are silent on this node.
    pub fn silent(&self) -> Silent {
        self.silent
    }

    /// Changes the book or the configuration before a full sync.
    pub fn reset(&mut self, change: impl FnOnce(&mut Book, &mut Config)) {
        change(&mut self.book, &mut self.config);
        self.recount();
    }

    /// Writes changes into the book and plans what differs.
    pub fn partial(&mut self, changes: PortChanges) -> Partial {
        let affected = self.book.affected(&changes);
        let before = self.all_needs(&affected);
        let replaced = self.book.update(changes);
        if replaced.is_empty() {
            return Partial { ops: Vec::new(), planned: 0, replaced, needs_room: false };
        }
        self.settle_slots(&affected);
        let after = self.all_needs(&affected);
        let ops = self.difference(&before, &after);
        self.counts.follow(&ops);
        Partial { ops, planned: affected.len(), replaced, needs_room: !self.counts.fit(&self.rooms) }
    }

    /// Forgets the sizes that sets had: they are made anew, see [`Self::everything`].
    pub fn make_room(&mut self) {
        self.rooms = self.counts.rooms();
    }

    /// The whole ruleset.
    pub fn ruleset(&self) -> Ruleset {
        let mut ruleset = Ruleset { rooms: self.rooms.clone(), ..self.without_ports() };
        for port in self.book.ports().values() {
            let needs = self.needs(port);
            ruleset.elements.extend(needs.elements);
            ruleset.clients.extend(needs.sticky.sets.into_iter().map(|set| (set.name, set.seconds)));
            ruleset.chains.extend(needs.sticky.chains.into_iter().map(|chain| (chain.name.clone(), chain)));
        }
        ruleset
    }

    /// What is nobody's own: static chains, shapes and the node's addresses.
    fn without_ports(&self) -> Ruleset {
        let settings = self.book.settings();
        let mut ruleset = Ruleset::default();
        let statics = base::chains(&self.config, settings);
        let shapes = self.shapes.keys().map(|shape| self.shape_chain(*shape));
        for chain in statics.into_iter().chain(shapes) {
            ruleset.chains.insert(chain.name.clone(), chain);
        }
        if let NodePortAddresses::Only(addresses) = &settings.node_ports {
            // This mode never serves node ports on loopback addresses.
            let is_served = |ip: &&IpAddr| Family::of(**ip) == settings.family && !ip.is_loopback();
            for ip in addresses.iter().filter(is_served) {
                ruleset.elements.insert(Place { set: Set::NodePortIps, key: Key::Address(*ip) }, Data::None);
            }
        }
        ruleset
    }

    fn shape_chain(&self, shape: Shape) -> Chain {
        Chain { name: shape.name(), base: None, rules: shape.rules(&self.config, self.book.settings()) }
    }

    /// All chains of the ruleset.
    pub fn chains(&self) -> BTreeMap<String, Chain> {
        let mut chains = self.without_ports().chains;
        for (_, port) in self.sticky_ports() {
            let own = self.needs(port).sticky.chains;
            chains.extend(own.into_iter().map(|chain| (chain.name.clone(), chain)));
        }
        chains
    }

    /// Only they have chains and sets of their own.
    fn sticky_ports(&self) -> impl Iterator<Item = (&ServicePortName, &ServicePort)> {
        let all = self.book.ports().iter().map(|(name, port)| (name, &**port));
        all.filter(|(_, port)| port.affinity.is_some())
    }

    fn needs(&self, port: &ServicePort) -> Needs {
        needs(&self.config, self.book.settings(), &self.book.routes(port), self.slots_of(port))
    }

    fn slots_of(&self, port: &ServicePort) -> &Slots {
        static NONE: Slots = Slots::NONE;
        self.slots.get(&port.name).unwrap_or(&NONE)
    }

    fn all_needs(&self, names: &BTreeSet<ServicePortName>) -> BTreeMap<ServicePortName, Needs> {
        let found = names.iter().filter_map(|name| Some((name, self.book.ports().get(name)?)));
        found.map(|(name, port)| (name.clone(), self.needs(port))).collect()
    }

    fn settle_slots(&mut self, names: &BTreeSet<ServicePortName>) {
        for name in names {
            let old = self.slots.remove(name).unwrap_or_default();
            self.left_out.remove(name);
            let Some(port) = self.book.ports().get(name) else { continue };
            let settled = old.settle(&self.book.routes(port));
            note_left_out(&mut self.left_out, name, &settled);
            self.slots.insert(name.clone(), settled);
        }
    }

    /// Works out slots, shapes, shared elements and silent service ports from the book.
    fn recount(&mut self) {
        let Self { config, rooms: _, book, slots, shapes, shared, counts, left_out, silent } = self;
        let mut old = std::mem::take(slots);
        slots.reserve(book.ports().len());
        left_out.clear();
        shapes.clear();
        *shared = Shared::default();
        *counts = Counts::default();
        *silent = Silent::default();
        for (name, port) in book.ports() {
            let routes = book.routes(port);
            let settled = old.remove(name).unwrap_or_default().settle(&routes);
            let needs = elements_of(config, book.settings(), &routes, &settled, &mut |place, _| {
                if shared.count(place) {
                    counts.add(place.set);
                }
            });
            note_left_out(left_out, name, &settled);
            slots.insert(name.clone(), settled);
            *silent += needs.silent;
            for shape in needs.shapes {
                *shapes.entry(shape).or_default() += 1;
            }
        }
    }

    fn difference(
        &mut self,
        before: &BTreeMap<ServicePortName, Needs>,
        after: &BTreeMap<ServicePortName, Needs>,
    ) -> Vec<Op> {
        after.values().for_each(|needs| self.silent += needs.silent);
        before.values().for_each(|needs| self.silent -= needs.silent);
        let (new_shapes, old_shapes) = self.count_shapes(before, after);
        let mut ops: Vec<Op> = Vec::new();
        for shape in new_shapes {
            ops.push(Op::everybodys(Change::AddChain(self.shape_chain(shape))));
        }
        let none = Needs::default();
        let names: BTreeSet<&ServicePortName> = before.keys().chain(after.keys()).collect();
        let pair = |name| (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
        for name in &names {
            let (old, new) = pair(name);
            add_sticky(name, old, new, &mut ops);
        }
        // All deletions before all additions: a frontend may pass from one service port to another.
        for name in &names {
            let (old, new) = pair(name);
            self.shared.delete(name, &old.elements, &new.elements, &mut ops);
        }
        for name in &names {
            let (old, new) = pair(name);
            self.shared.add(name, &old.elements, &new.elements, &mut ops);
        }
        for name in &names {
            let (old, new) = pair(name);
            delete_sticky(name, old, new, &mut ops);
        }
        for shape in old_shapes {
            ops.push(Op::everybodys(Change::DeleteChain(shape.name())));
        }
        ops
    }

    /// Shapes that come, and shapes that go.
    fn count_shapes(
        &mut self,
        before: &BTreeMap<ServicePortName, Needs>,
        after: &BTreeMap<ServicePortName, Needs>,
    ) -> (Vec<Shape>, Vec<Shape>) {
        let mut users: BTreeMap<Shape, (usize, usize)> = BTreeMap::new();
        before.values().flat_map(|needs| &needs.shapes).for_each(|s| users.entry(*s).or_default().0 += 1);
        after.values().flat_map(|needs| &needs.shapes).for_each(|s| users.entry(*s).or_default().1 += 1);
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for (shape, (fewer, more)) in users {
            let had = self.shapes.get(&shape).copied().unwrap_or_default();
            let has = had.saturating_sub(fewer) + more;
            match (had, has) {
                (0, 1..) => new.push(shape),
                (1.., 0) => old.push(shape),
                _ => {}
            }
            if has > 0 {
                self.shapes.insert(shape, has);
            } else {
                self.shapes.remove(&shape);
            }
        }
        (new, old)
    }
}

fn note_left_out(all: &mut BTreeMap<ServicePortName, usize>, name: &ServicePortName, slots: &Slots) {
    if slots.left_out() > 0 {
        all.insert(name.clone(), slots.left_out());
    }
}

fn add_sticky(name: &ServicePortName, old: &Needs, new: &Needs, ops: &mut Vec<Op>) {
    for set in new.sticky.sets.iter().filter(|set| !old.sticky.sets.contains(set)) {
        ops.push(Op::of(name, Change::AddClients(set.clone())));
    }
    for chain in &new.sticky.chains {
        match old.sticky.chains.iter().find(|c| c.name == chain.name) {
            None => ops.push(Op::of(name, Change::AddChain(chain.clone()))),
            Some(same) if same == chain => {}
            Some(_) => ops.push(Op::of(name, Change::ReplaceRules(chain.clone()))),
        }
    }
}

/// Callers first: chains in reverse order, then the sets that they used.
fn delete_sticky(name: &ServicePortName, old: &Needs, new: &Needs, ops: &mut Vec<Op>) {
    for chain in old.sticky.chains.iter().rev() {
        if !new.sticky.chains.iter().any(|c| c.name == chain.name) {
            ops.push(Op::of(name, Change::DeleteChain(chain.name.clone())));
        }
    }
    for set in &old.sticky.sets {
        if !new.sticky.sets.iter().any(|s| s.name == set.name) {
            ops.push(Op::of(name, Change::DeleteClients(set.name.clone())));
        }
    }
}

#[cfg(test)]
mod tests;
