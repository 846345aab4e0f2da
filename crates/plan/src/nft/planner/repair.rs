//! From whatever the kernel holds to the whole ruleset: the first write, adoption of what an earlier run left, repair
//! after somebody else's changes, and what follows a refused transaction.
//!
//! In: the ruleset that was read back. Out: only what differs, in an order that the kernel takes.
//!
//! The first write of a large cluster has hundreds of thousands of changes. They are handed over one by one, so that
//! nobody ever holds them all.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

use switchyard_model::ServicePortName;

use super::{Planner, Ruleset};
use crate::nft::base::Chain;
use crate::nft::element::{Data, Key, Place};
use crate::nft::names::Set;
use crate::nft::ops::{Change, Op};
use crate::nft::port::elements_of;
use crate::nft::room::Rooms;
use crate::nft::rule::{SetName, Statement, Verdict};
use crate::nft::slots::Slots;
use crate::nft::sticky::ClientSet;
use crate::route::FrontendAddress;

/// Chains and sets of clients that are wanted, and whose they are.
#[derive(Default)]
struct Wanted<'a> {
    chains: BTreeMap<String, Chain>,
    clients: BTreeMap<String, u32>,
    owners: HashMap<String, &'a ServicePortName>,
}

impl Planner {
    /// Takes the slots over that an earlier run left, so that [`Self::repair`] moves as few endpoints as possible.
    pub fn adopt(&mut self, held: &Ruleset) {
        for port in self.book.ports().values() {
            let protocol = port.name.protocol;
            // All frontends of a port agree, but each has only the slots that it needs.
            let mut found: BTreeMap<u16, SocketAddr> = BTreeMap::new();
            // Only its own: where it lost a frontend, the slots are another Service's.
            for frontend in self.book.routes(port).routes.iter().map(|route| route.frontend) {
                let number = frontend.port;
                found.extend(match frontend.address {
                    FrontendAddress::Ip(ip) => {
                        slots(held, Set::Slots, |slot| Key::Slot(ip, protocol, number, slot))
                    }
                    FrontendAddress::Node(_) => {
                        slots(held, Set::NodePortSlots, |slot| Key::NodePortSlot(protocol, number, slot))
                    }
                });
            }
            if !found.is_empty() {
                self.slots.insert(port.name.clone(), Slots::left_behind(found));
            }
        }
        self.recount();
        self.rooms = self.counts.grown(held.rooms.clone());
    }

    /// The first write, where there is no table: `each` sees all changes, in order. Chains that packets enter at come
    /// last, so that nothing is served before everything is there, even if the changes do not fit into one transaction.
    pub fn everything(&self, each: &mut dyn FnMut(Option<&ServicePortName>, Change)) {
        let sets = Set::ALL.into_iter().map(|set| Change::AddSet(set, self.rooms.get(&set).copied()));
        [Change::AddTable].into_iter().chain(sets).for_each(|change| each(None, change));
        let wanted = self.wanted();
        for (name, seconds) in &wanted.clients {
            let set = ClientSet { name: name.clone(), seconds: *seconds };
            each(wanted.owner(name), Change::AddClients(set));
        }
        let chains: BTreeMap<&String, &Chain> = wanted.chains.iter().collect();
        let (entries, others): (Vec<&Chain>, Vec<&Chain>) =
            callees_first(&chains).into_iter().partition(|chain| chain.base.is_some());
        let owner = |chain: &Chain| wanted.owner(&chain.name);
        others.into_iter().for_each(|chain| each(owner(chain), Change::AddChain(chain.clone())));
        self.elements(&mut |owner, place, data| each(owner, Change::AddElement(place, data)));
        entries.into_iter().for_each(|chain| each(owner(chain), Change::AddChain(chain.clone())));
    }

    /// What turns the ruleset that the kernel holds into the one that is wanted; the shared sets must exist.
    pub fn repair(&self, mut held: Ruleset) -> Vec<Op> {
        let (mut ops, cleared) = self.replace_sets(&mut held);
        let wanted = self.wanted();
        // Should all this not fit into one transaction, nobody may look into a new set before its elements are there: a packet that finds
        // nothing is refused, and one that meets no rule is sent again.
        let looks_inside =
            |op: &Op| matches!(&op.change, Change::ReplaceRules(chain) if cleared.contains(&chain.name));
        let (late, early): (Vec<Op>, Vec<Op>) = come(&held, &wanted).into_iter().partition(looks_inside);
        ops.extend(early);
        let missing = self.repair_elements(&mut held.elements);
        // What is left is not wanted, or not with this value.
        ops.extend(held.elements.keys().map(|place| Op::everybodys(Change::DeleteElement(*place))));
        ops.extend(missing);
        ops.extend(late);
        ops.extend(go(&held, &wanted));
        ops
    }

    /// Makes those sets anew, without elements, that have another size than they need. What refers to them loses its rules first, and
    /// in `held`, too: the repair of chains writes them again. Also the names of those chains.
    fn replace_sets(&self, held: &mut Ruleset) -> (Vec<Op>, BTreeSet<String>) {
        let is_other = |(set, size): &(&Set, &u32)| held.rooms.get(set) != Some(*size);
        let sets: Rooms = self.rooms.iter().filter(is_other).map(|(set, size)| (*set, *size)).collect();
        let (mut ops, mut cleared) = (Vec::new(), BTreeSet::new());
        if sets.is_empty() {
            return (ops, cleared);
        }
        // Of a chain with other rules than ours, only that is known.
        for chain in
            held.chains.values_mut().filter(|chain| chain.rules.is_empty() || refers_to(chain, &sets))
        {
            chain.rules.clear();
            cleared.insert(chain.name.clone());
            ops.push(Op::everybodys(Change::ReplaceRules(chain.clone())));
        }
        for (set, size) in &sets {
            ops.push(Op::everybodys(Change::DeleteSet(*set)));
            ops.push(Op::everybodys(Change::AddSet(*set, Some(*size))));
        }
        held.elements.retain(|place, _| !sets.contains_key(&place.set));
        (ops, cleared)
    }

    /// The same for chains and sets of clients alone.
    pub fn repair_objects(&self, held: &Ruleset) -> Vec<Op> {
        let wanted = self.wanted();
        let mut ops = come(held, &wanted);
        ops.extend(go(held, &wanted));
        ops
    }

    /// What is missing among these elements, or has another value. What is as it should be is taken out of them.
    pub fn repair_elements(&self, held: &mut BTreeMap<Place, Data>) -> Vec<Op> {
        let mut missing = Vec::new();
        self.elements(&mut |owner, place, data| match held.entry(place) {
            Entry::Occupied(same) if *same.get() == data => _ = same.remove(),
            _ => missing.push(Op { change: Change::AddElement(place, data), owner: owner.cloned() }),
        });
        missing
    }

    fn wanted(&self) -> Wanted<'_> {
        let mut wanted = Wanted { chains: self.without_ports().chains, ..Wanted::default() };
        for (name, port) in self.sticky_ports() {
            let own = self.needs(port).sticky;
            for set in own.sets {
                wanted.owners.insert(set.name.clone(), name);
                wanted.clients.insert(set.name, set.seconds);
            }
            for chain in own.chains {
                wanted.owners.insert(chain.name.clone(), name);
                wanted.chains.insert(chain.name.clone(), chain);
            }
        }
        wanted
    }

    /// All elements, each once, with the service port that needs it.
    fn elements(&self, each: &mut dyn FnMut(Option<&ServicePortName>, Place, Data)) {
        self.without_ports().elements.into_iter().for_each(|(place, data)| each(None, place, data));
        let mut seen: HashSet<Place> = HashSet::new();
        for (name, port) in self.book.ports() {
            let mut once = |place, data| {
                if !self.shared.is_needed_twice(&place) || seen.insert(place) {
                    each(Some(name), place, data);
                }
            };
            let (config, settings) = (&self.config, self.book.settings());
            elements_of(config, settings, &self.book.routes(port), self.slots_of(port), &mut once);
        }
    }
}

impl Wanted<'_> {
    /// Whose a chain or a set of clients is.
    fn owner(&self, object: &str) -> Option<&ServicePortName> {
        self.owners.get(object).copied()
    }

    /// A change of a chain or a set of clients.
    fn op(&self, object: &str, change: Change) -> Op {
        Op { change, owner: self.owner(object).cloned() }
    }
}

/// Chains and sets of clients that are missing or differ; before elements, which may lead to them.
fn come(held: &Ruleset, wanted: &Wanted<'_>) -> Vec<Op> {
    let mut ops = Vec::new();
    for (name, seconds) in wanted.clients.iter().filter(|(name, _)| !held.clients.contains_key(*name)) {
        let set = ClientSet { name: name.clone(), seconds: *seconds };
        ops.push(wanted.op(name, Change::AddClients(set)));
    }
    write_chains(held, wanted, &mut ops);
    ops
}

/// Chains and sets of clients that nobody wants; after elements.
fn go(held: &Ruleset, wanted: &Wanted<'_>) -> Vec<Op> {
    let gone: BTreeMap<&String, &Chain> =
        held.chains.iter().filter(|(name, _)| !wanted.chains.contains_key(*name)).collect();
    let callers_first = callees_first(&gone).into_iter().rev();
    let chains = callers_first.map(|chain| Op::everybodys(Change::DeleteChain(chain.name.clone())));
    let clients = held.clients.keys().filter(|name| !wanted.clients.contains_key(*name));
    chains.chain(clients.map(|name| Op::everybodys(Change::DeleteClients(name.clone())))).collect()
}

/// The slots of one frontend.
fn slots(held: &Ruleset, set: Set, key: impl Fn(u16) -> Key) -> Vec<(u16, SocketAddr)> {
    let at = |slot| Place { set, key: key(slot) };
    let slot = |(place, data): (&Place, &Data)| match (place.key, data) {
        (Key::Slot(.., slot) | Key::NodePortSlot(.., slot), Data::Endpoint(at)) => Some((slot, *at)),
        _ => None,
    };
    held.elements.range(at(0)..=at(u16::MAX)).filter_map(slot).collect()
}

/// New chains, each before those that lead to it; then the rules of chains that differ.
fn write_chains(held: &Ruleset, wanted: &Wanted<'_>, ops: &mut Vec<Op>) {
    let new: BTreeMap<&String, &Chain> =
        wanted.chains.iter().filter(|(name, _)| !held.chains.contains_key(*name)).collect();
    for chain in callees_first(&new) {
        ops.push(wanted.op(&chain.name, Change::AddChain(chain.clone())));
    }
    for chain in wanted.chains.values() {
        match held.chains.get(&chain.name) {
            Some(old) if old.base != chain.base => {
                // A base chain cannot move to another hook; nothing leads to it, so it can be made anew.
                ops.push(Op::everybodys(Change::DeleteChain(chain.name.clone())));
                ops.push(Op::everybodys(Change::AddChain(chain.clone())));
            }
            Some(old) if old.rules != chain.rules => {
                ops.push(wanted.op(&chain.name, Change::ReplaceRules(chain.clone())));
            }
            _ => {}
        }
    }
}

/// True if a rule looks something up in one of these sets.
fn refers_to(chain: &Chain, sets: &Rooms) -> bool {
    chain.rules.iter().flat_map(|rule| &rule.statements).any(|statement| match statement {
        Statement::In(_, _, SetName::Shared(set))
        | Statement::Lookup(_, SetName::Shared(set))
        | Statement::DnatByMap(_, SetName::Shared(set)) => sets.contains_key(set),
        _ => false,
    })
}

/// Chains of a group, each before those of the group that lead to it.
fn callees_first<'a>(group: &BTreeMap<&String, &'a Chain>) -> Vec<&'a Chain> {
    let mut ordered = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for chain in group.values() {
        // What the kernel holds may lead anywhere, so there is a list of what is left to do instead of recursion.
        let mut open: Vec<(&Chain, bool)> = vec![(chain, false)];
        while let Some((chain, are_callees_done)) = open.pop() {
            if are_callees_done {
                ordered.push(chain);
            } else if seen.insert(&chain.name) {
                open.push((chain, true));
                open.extend(callees(chain).filter_map(|name| Some((*group.get(name)?, false))));
            }
        }
    }
    ordered
}

/// The chains that a chain leads to.
pub(super) fn callees(chain: &Chain) -> impl Iterator<Item = &String> {
    let statements = chain.rules.iter().flat_map(|rule| &rule.statements);
    let verdicts = statements.flat_map(|statement| match statement {
        Statement::Verdict(verdict) => std::slice::from_ref(verdict),
        Statement::RandomVerdict(verdicts) => verdicts,
        _ => &[],
    });
    verdicts.filter_map(|verdict| match verdict {
        Verdict::Goto(name) | Verdict::Jump(name) => Some(name),
        Verdict::Drop | Verdict::Return => None,
    })
}
