//! What another program may do to our table.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use switchyard_model::Family;
use switchyard_netlink::nftables::{
    Batch, Chain, DataType, Element, ElementData, Expression, Extent, Fields, Nft, Rule, Set, SetData, Table,
    TableId, Value, Verdict,
};

use super::dump::table;

/// One deed. An index picks its victim.
#[derive(Clone, Debug)]
pub(crate) enum Harm {
    /// The whole table goes.
    DeleteTable,
    /// The table stays, but is switched off.
    MakeDormant,
    /// A chain loses its rules.
    FlushChain(Index),
    /// A chain gets a rule more.
    AddRule(Index),
    /// A rule goes.
    DeleteRule(Index),
    /// A set loses an element.
    DeleteElement(Index, Index),
    /// A set gets an element more, next to one that it has.
    AddElement(Index, Index),
    /// An element leads elsewhere.
    TurnElement(Index, Index),
    /// A set loses all elements.
    FlushSet(Index),
    /// A chain appears that leads nowhere.
    AddChain,
    /// A set appears that nobody uses.
    AddSet,
}

/// Any deed.
pub(crate) fn harm() -> impl Strategy<Value = Harm> {
    let index = any::<Index>;
    prop_oneof![
        1 => Just(Harm::DeleteTable),
        1 => Just(Harm::MakeDormant),
        2 => index().prop_map(Harm::FlushChain),
        2 => index().prop_map(Harm::AddRule),
        2 => index().prop_map(Harm::DeleteRule),
        4 => (index(), index()).prop_map(|(set, element)| Harm::DeleteElement(set, element)),
        4 => (index(), index()).prop_map(|(set, element)| Harm::AddElement(set, element)),
        4 => (index(), index()).prop_map(|(set, element)| Harm::TurnElement(set, element)),
        2 => index().prop_map(Harm::FlushSet),
        1 => Just(Harm::AddChain),
        1 => Just(Harm::AddSet),
    ]
}

impl Harm {
    /// Does it, if there is a table to harm.
    pub(crate) fn do_to(&self, nft: &mut Nft, family: Family) {
        let id = table(family);
        if !nft.tables(id.family).unwrap().iter().any(|table| table.id == id) {
            return;
        }
        let mut batch = Batch::new();
        match self {
            Self::DeleteTable => _ = batch.delete_table(&id),
            Self::MakeDormant => _ = batch.add_table(&Table { is_dormant: true, ..Table::new(id.clone()) }),
            Self::FlushChain(index) => {
                let chains = nft.chains(&id).unwrap();
                batch.flush_chain(&id, &index.get(&chains).name);
            }
            Self::AddRule(index) => {
                let chains = nft.chains(&id).unwrap();
                let steps = vec![Expression::Counter, Expression::Verdict(Verdict::Drop)];
                batch.add_rule(&id, &Rule::new(index.get(&chains).name.clone(), steps));
            }
            Self::DeleteRule(index) => {
                let rules = nft.rules(&id).unwrap();
                let rule = index.get(&rules);
                batch.delete_rule(&id, &rule.chain, rule.handle.unwrap());
            }
            Self::DeleteElement(set, element) => {
                if let Some((set, element)) = pick(nft, &id, set, element) {
                    batch.delete_elements(&id, &set, [&element]);
                }
            }
            Self::AddElement(set, element) => {
                if let Some((set, element)) = pick(nft, &id, set, element) {
                    batch.add_elements(&id, &set, [&neighbour(element)]);
                }
            }
            Self::TurnElement(set, element) => {
                if let Some((set, element)) = pick(nft, &id, set, element) {
                    batch.delete_elements(&id, &set, [&element]);
                    batch.add_elements(&id, &set, [&turned(element)]);
                }
            }
            Self::FlushSet(index) => {
                let sets = nft.sets(&id).unwrap();
                batch.flush_set(&id, &index.get(&sets).name);
            }
            Self::AddSet => {
                let key = Fields::Type(vec![DataType::Port]);
                batch.add_set(&id, &Set::new("foreign", key, SetData::None));
            }
            Self::AddChain => _ = batch.add_chain(&id, &Chain::regular("foreign")),
        }
        nft.commit(&batch).unwrap();
    }
}

/// An element of a set, if it has any. Ranges are left alone: their neighbours overlap.
fn pick(nft: &mut Nft, id: &TableId, set: &Index, element: &Index) -> Option<(Arc<str>, Element)> {
    let sets = nft.sets(id).unwrap();
    let set = set.get(&sets);
    let mut elements: Vec<Element> = Vec::new();
    nft.elements(id, &set.name, &mut |found| elements.push(found)).unwrap();
    elements.retain(|element| element.extent == Extent::Key);
    elements.sort();
    (!elements.is_empty()).then(|| (set.name.clone(), element.get(&elements).clone()))
}

/// The same with another port, slot or address, whichever it ends with.
fn shifted(value: &Value) -> Value {
    let mut bytes = value.as_bytes().to_vec();
    bytes.iter_mut().rev().nth(2).into_iter().for_each(|byte| *byte ^= 0x40);
    Value::new(&bytes)
}

fn neighbour(element: Element) -> Element {
    Element { key: shifted(&element.key), ..element }
}

/// The same key, leading to another port or to no chain; a set has nothing to turn.
fn turned(element: Element) -> Element {
    let data = match element.data {
        ElementData::Value(value) => ElementData::Value(shifted(&value)),
        ElementData::Verdict(Verdict::Drop) => ElementData::Verdict(Verdict::Return),
        ElementData::Verdict(_) => ElementData::Verdict(Verdict::Drop),
        other => other,
    };
    Element { data, ..element }
}
