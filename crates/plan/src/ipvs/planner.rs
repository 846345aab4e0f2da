//! What to write: what changed, or what differs from what the kernel holds.

use std::collections::{BTreeMap, BTreeSet};

use switchyard_model::{ServicePort, ServicePortName};

use super::base::{self, node_port_addresses};
use super::ownership::is_remembered;
use super::port::{Needs, needs};
use super::steps::{Op, Step, Steps};
use super::{Config, Content, Server};
use crate::book::{Book, PortChanges, Replaced};
use crate::nft::base::Chain;
use crate::nft::element::{Data, Key, Place};
use crate::nft::names::Set;
use crate::nft::ops::{Change, Op as RuleOp};
use crate::nft::planner::Ruleset;
use crate::nft::port::Silent;
use crate::nft::shared::Shared;
use crate::route::{Frontend, FrontendAddress, frontends};

mod means;
mod repair;
#[cfg(test)]
mod tests;

pub use repair::{Held, HeldDestination, HeldServer};

/// What a partial sync writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial {
    /// Changes, in order.
    pub steps: Steps,
    /// How many service ports were planned.
    pub planned: usize,
    /// What changed in the book.
    pub replaced: Vec<Replaced>,
}

/// Plans one family.
#[derive(Clone, Debug)]
pub struct Planner {
    config: Config,
    book: Book,
    /// How many service ports need each element that several may need.
    shared: Shared,
    silent: Silent,
}

impl Planner {
    /// A planner over a book. What is in the book already is not written yet.
    pub fn new(config: Config, book: Book) -> Self {
        let mut planner = Self { config, book, shared: Shared::default(), silent: Silent::default() };
        planner.recount();
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
        let mut affected = self.book.affected(&changes);
        affected.extend(self.crossed(&changes));
        let before = self.all_needs(&affected);
        let replaced = self.book.update(changes);
        if replaced.is_empty() {
            return Partial { steps: Steps::default(), planned: 0, replaced };
        }
        let after = self.all_needs(&affected);
        let steps = self.difference(&before, &after);
        Partial { steps, planned: affected.len(), replaced }
    }

    /// The whole table.
    pub fn ruleset(&self) -> Ruleset {
        let mut ruleset = Ruleset { chains: self.chains(), ..Ruleset::default() };
        self.elements(&mut |_, place, data| _ = ruleset.elements.insert(place, data));
        ruleset
    }

    /// All virtual servers, with the service port that each is for.
    pub fn servers(&self) -> BTreeMap<Server, (&ServicePortName, Content)> {
        let mut servers = BTreeMap::new();
        for (name, port) in self.book.ports() {
            servers.extend(self.needs(port).servers.into_iter().map(|(at, content)| (at, (name, content))));
        }
        servers
    }

    /// All chains of the table.
    pub fn chains(&self) -> BTreeMap<String, Chain> {
        let chains = base::chains(&self.config, self.book.settings());
        chains.into_iter().map(|chain| (chain.name.clone(), chain)).collect()
    }

    /// All elements, each once, with the service port that needs it.
    fn elements(&self, each: &mut dyn FnMut(Option<&ServicePortName>, Place, Data)) {
        let own: BTreeSet<_> = node_port_addresses(&self.config, self.book.settings()).collect();
        for ip in own {
            each(None, Place { set: Set::NodePortIps, key: Key::Address(ip) }, Data::None);
        }
        let mut seen: BTreeSet<Place> = BTreeSet::new();
        for (name, port) in self.book.ports() {
            for (place, data) in self.needs(port).elements {
                if !self.shared.is_needed_twice(&place) || seen.insert(place) {
                    each(Some(name), place, data);
                }
            }
        }
    }

    fn needs(&self, port: &ServicePort) -> Needs {
        let is_taken = |server: Server| {
            let Server { address, protocol, port } = server;
            self.book.owner(&Frontend { address: FrontendAddress::Ip(address), protocol, port }).is_some()
        };
        needs(&self.config, self.book.settings(), &self.book.routes(port), &is_taken)
    }

    fn all_needs(&self, names: &BTreeSet<ServicePortName>) -> BTreeMap<ServicePortName, Needs> {
        let found = names.iter().filter_map(|name| Some((name, self.book.ports().get(name)?)));
        found.map(|(name, port)| (name.clone(), self.needs(port))).collect()
    }

    /// Owners of node ports that meet an address of this node which a changing Service names, with the same number.
    fn crossed(&self, changes: &PortChanges) -> Vec<ServicePortName> {
        let own: BTreeSet<_> = node_port_addresses(&self.config, self.book.settings()).collect();
        let mut names = Vec::new();
        for (name, new) in changes {
            let values = self.book.ports().get(name).into_iter().chain(new);
            for (_, frontend) in values.flat_map(|port| frontends(port)) {
                let FrontendAddress::Ip(ip) = frontend.address else { continue };
                if own.contains(&ip) {
                    let address = FrontendAddress::Node(self.book.settings().family);
                    let owner = self.book.owner(&Frontend { address, ..frontend });
                    names.extend(owner.map(|port| port.name.clone()));
                }
            }
        }
        names
    }

    /// Works out shared elements and silent service ports from the book.
    fn recount(&mut self) {
        let mut shared = Shared::default();
        let mut silent = Silent::default();
        for port in self.book.ports().values() {
            let needs = self.needs(port);
            silent += needs.silent;
            needs.elements.keys().for_each(|place| _ = shared.count(*place));
        }
        (self.shared, self.silent) = (shared, silent);
    }

    fn difference(
        &mut self,
        before: &BTreeMap<ServicePortName, Needs>,
        after: &BTreeMap<ServicePortName, Needs>,
    ) -> Steps {
        after.values().for_each(|needs| self.silent += needs.silent);
        before.values().for_each(|needs| self.silent -= needs.silent);
        let mut steps = Steps::default();
        server_steps(before, after, &mut steps);
        let mut rules = Vec::new();
        let none = Needs::default();
        let names: BTreeSet<&ServicePortName> = before.keys().chain(after.keys()).collect();
        let pair = |name| (before.get(name).unwrap_or(&none), after.get(name).unwrap_or(&none));
        // All deletions before all additions: a frontend may pass from one service port to another.
        for name in &names {
            let (old, new) = pair(name);
            self.shared.delete(name, &old.elements, &new.elements, &mut rules);
        }
        for name in &names {
            let (old, new) = pair(name);
            self.shared.add(name, &old.elements, &new.elements, &mut rules);
        }
        put_rules(rules, &mut steps);
        steps
    }
}

type Owned<'a> = BTreeMap<Server, (&'a ServicePortName, &'a Content)>;

fn servers(needs: &BTreeMap<ServicePortName, Needs>) -> Owned<'_> {
    needs
        .iter()
        .flat_map(|(name, needs)| needs.servers.iter().map(move |(at, content)| (*at, (name, content))))
        .collect()
}

fn server_steps(
    before: &BTreeMap<ServicePortName, Needs>,
    after: &BTreeMap<ServicePortName, Needs>,
    steps: &mut Steps,
) {
    let (before, after) = (servers(before), servers(after));
    for (server, (name, new)) in &after {
        let old = before.get(server).map(|(_, content)| *content);
        match old {
            None => steps.grow.push(owned(name, Step::AddServer(*server, new.options.clone()))),
            Some(old) if old.options != new.options => {
                steps.grow.push(owned(name, Step::SetServer(*server, new.options.clone())));
            }
            Some(_) => {}
        }
        let empty = BTreeSet::new();
        let held = old.map_or(&empty, |old| &old.destinations);
        let grow = new.destinations.difference(held);
        steps.grow.extend(grow.map(|to| owned(name, Step::AddDestination(*server, *to))));
        let shrink = held.difference(&new.destinations);
        steps.shrink.extend(shrink.map(|to| nobodys(Step::Retire(*server, *to))));
    }
    let gone = before.keys().filter(|server| !after.contains_key(server));
    steps.shrink.extend(gone.map(|server| nobodys(Step::DeleteServer(*server))));
}

fn owned(name: &ServicePortName, step: Step) -> Op {
    Op { step, owner: Some(name.clone()) }
}

fn nobodys(step: Step) -> Op {
    Op { step, owner: None }
}

/// Rules that come first, rules that come last, and the addresses that follow from both.
fn put_rules(rules: Vec<RuleOp>, steps: &mut Steps) {
    let mut deleted: BTreeSet<Place> = BTreeSet::new();
    let mut added: BTreeSet<Place> = BTreeSet::new();
    for op in &rules {
        match &op.change {
            Change::AddElement(place, _) => _ = added.insert(*place),
            Change::DeleteElement(place) => _ = deleted.insert(*place),
            _ => {}
        }
    }
    for op in rules {
        match &op.change {
            // Passed on from one service port to another: it stays.
            Change::AddElement(place, _) if place.set.is_shared_by_ports() && deleted.contains(place) => {
                continue;
            }
            Change::DeleteElement(place) if place.set.is_shared_by_ports() && added.contains(place) => {
                continue;
            }
            Change::AddElement(Place { set: Set::VirtualIps, key: Key::Address(ip) }, _) => {
                steps.grow.push(Op { step: Step::AddAddress(*ip), owner: op.owner.clone() });
            }
            Change::DeleteElement(place) if is_remembered(place.set) && !added.contains(place) => {
                if let Place { set: Set::VirtualIps, key: Key::Address(ip) } = place {
                    steps.shrink.push(nobodys(Step::RemoveAddress(*ip)));
                }
                steps.forget.push(op);
                continue;
            }
            _ => {}
        }
        steps.rules.push(op);
    }
}
