//! A table as the kernel tells it, in a form that does not depend on history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use switchyard_model::Family;
use switchyard_netlink::nftables::{
    Chain, Element, ElementData, Expression, Nft, Rule, Set, Table, TableId, Value, Verdict,
};

/// From each map of frontends to the map of their slots.
const SLOTS: [(&str, &str); 2] = [("frontends", "slots"), ("nodeports", "nodeport-slots")];

/// Our table of a family.
pub(crate) fn table(family: Family) -> TableId {
    let family = match family {
        Family::V4 => switchyard_netlink::Family::V4,
        Family::V6 => switchyard_netlink::Family::V6,
    };
    TableId::new(family, "switchyard")
}

/// Consecutive slots that a rule picks from: the first one, and how many.
type Window = (u32, u32);

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dump {
    table: Table,
    chains: BTreeSet<Chain>,
    /// With elements; those of slots are in `slots` and `pools`.
    sets: BTreeMap<Set, BTreeSet<Element>>,
    rules: BTreeMap<Arc<str>, Vec<Rule>>,
    /// The numbers of the slots of each frontend.
    slots: BTreeMap<(&'static str, Value), BTreeSet<u32>>,
    /// What each window of each frontend leads to.
    pools: BTreeMap<(&'static str, Value, Window), Vec<Option<ElementData>>>,
}

impl Dump {
    /// Reads the table.
    pub(crate) fn read(nft: &mut Nft, family: Family) -> Self {
        let id = table(family);
        let table = nft.tables(id.family).unwrap().into_iter().find(|table| table.id == id).unwrap();
        let chains = nft.chains(&id).unwrap().into_iter().collect();
        let mut rules: BTreeMap<Arc<str>, Vec<Rule>> = BTreeMap::new();
        for rule in nft.rules(&id).unwrap() {
            rules.entry(rule.chain.clone()).or_default().push(rule.without_handle());
        }
        let mut sets = BTreeMap::new();
        for set in nft.sets(&id).unwrap() {
            let mut elements = BTreeSet::new();
            nft.elements(&id, &set.name, &mut |element| assert!(elements.insert(element))).unwrap();
            sets.insert(set, elements);
        }
        let mut dump = Self { table, chains, sets, rules, slots: BTreeMap::new(), pools: BTreeMap::new() };
        for (frontends, slots) in SLOTS {
            dump.fold_slots(frontends, slots);
        }
        dump
    }

    /// Everything in it as text, so that a difference can be told in few words.
    pub(crate) fn facts(&self) -> BTreeSet<String> {
        let elements = self.sets.iter().flat_map(|(set, list)| list.iter().map(move |e| (&set.name, e)));
        let mut facts: BTreeSet<String> =
            elements.map(|(set, element)| format!("{set}: {element:?}")).collect();
        facts.insert(format!("{:?}", self.table));
        facts.extend(self.chains.iter().map(|chain| format!("{chain:?}")));
        facts.extend(self.sets.keys().map(|set| format!("{set:?}")));
        facts.extend(self.rules.values().map(|rules| format!("{rules:?}")));
        facts.extend(self.slots.iter().map(|entry| format!("{entry:?}")));
        facts.extend(self.pools.iter().map(|entry| format!("{entry:?}")));
        facts
    }

    /// Frontends whose rules may pick a slot that leads nowhere.
    pub(crate) fn gaps(&self) -> Vec<&Value> {
        let has_gap = |pool: &Vec<Option<ElementData>>| pool.contains(&None);
        self.pools.iter().filter(|(_, pool)| has_gap(pool)).map(|((_, frontend, _), _)| frontend).collect()
    }

    /// Replaces the elements of a map of slots by what does not depend on who got which.
    fn fold_slots(&mut self, frontends: &str, map: &'static str) {
        let mut by_frontend: BTreeMap<Value, BTreeMap<u32, ElementData>> = BTreeMap::new();
        for element in self.take(map) {
            let (frontend, slot) = split(element.key);
            by_frontend.entry(frontend).or_default().insert(slot, element.data);
        }
        for (frontend, slots) in &by_frontend {
            self.slots.insert((map, *frontend), slots.keys().copied().collect());
        }
        for element in self.elements(frontends).clone() {
            let ElementData::Verdict(Verdict::Goto(chain)) = element.data else { continue };
            for (first, count) in self.windows(&chain, map) {
                let slots = by_frontend.get(&element.key);
                let at = |slot| slots.and_then(|slots| slots.get(&slot)).cloned();
                let mut pool: Vec<Option<ElementData>> = (first..first + count).map(at).collect();
                pool.sort();
                self.pools.insert((map, element.key, (first, count)), pool);
            }
        }
    }

    fn elements(&mut self, set: &str) -> &mut BTreeSet<Element> {
        self.sets.iter_mut().find(|(found, _)| *found.name == *set).unwrap().1
    }

    fn take(&mut self, set: &str) -> BTreeSet<Element> {
        std::mem::take(self.elements(set))
    }

    /// The windows of slots that a chain picks from, by its rules.
    fn windows(&self, chain: &str, map: &str) -> BTreeSet<Window> {
        let rules = self.rules.get(chain).into_iter().flatten();
        let picks = rules.filter(|rule| {
            let is_lookup =
                |step: &Expression| matches!(step, Expression::Lookup { set, .. } if **set == *map);
            rule.expressions.iter().any(is_lookup)
        });
        picks
            .flat_map(|rule| &rule.expressions)
            .filter_map(|step| match step {
                Expression::Random { modulus, offset, .. } => Some((*offset, *modulus)),
                _ => None,
            })
            .collect()
    }
}

/// The key of a frontend, and a slot of it.
fn split(key: Value) -> (Value, u32) {
    let (frontend, slot) = key.as_bytes().split_last_chunk::<4>().unwrap();
    (Value::new(frontend), u32::from_ne_bytes(*slot))
}
