//! What another program may do to our table.

use proptest::prelude::*;
use proptest::sample::Index;
use switchyard_model::Family;
use switchyard_netlink::nftables::{Batch, Chain, Element, Expression, Nft, Rule, Verdict};

use super::dump::table;

/// One deed. An index picks its victim.
#[derive(Clone, Debug)]
pub(crate) enum Harm {
    /// The whole table goes.
    DeleteTable,
    /// A chain loses its rules.
    FlushChain(Index),
    /// A chain gets a rule more.
    AddRule(Index),
    /// A rule goes.
    DeleteRule(Index),
    /// A set loses an element.
    DeleteElement(Index, Index),
    /// A set loses all elements.
    FlushSet(Index),
    /// A chain appears that leads nowhere.
    AddChain,
}

/// Any deed.
pub(crate) fn harm() -> impl Strategy<Value = Harm> {
    let index = any::<Index>;
    prop_oneof![
        1 => Just(Harm::DeleteTable),
        2 => index().prop_map(Harm::FlushChain),
        2 => index().prop_map(Harm::AddRule),
        2 => index().prop_map(Harm::DeleteRule),
        4 => (index(), index()).prop_map(|(set, element)| Harm::DeleteElement(set, element)),
        2 => index().prop_map(Harm::FlushSet),
        1 => Just(Harm::AddChain),
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
                let sets = nft.sets(&id).unwrap();
                let set = set.get(&sets);
                let mut elements: Vec<Element> = Vec::new();
                nft.elements(&id, &set.name, &mut |element| elements.push(element)).unwrap();
                elements.sort();
                if !elements.is_empty() {
                    batch.delete_elements(&id, &set.name, [element.get(&elements)]);
                }
            }
            Self::FlushSet(index) => {
                let sets = nft.sets(&id).unwrap();
                batch.flush_set(&id, &index.get(&sets).name);
            }
            Self::AddChain => _ = batch.add_chain(&id, &Chain::regular("foreign")),
        }
        nft.commit(&batch).unwrap();
    }
}
