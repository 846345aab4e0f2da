//! Changes as operations of a batch.
//!
//! In: [`Op`]s, in order. Out: a [`Batch`]. Two ways: [`with_sources`] keeps track of which operation is whose, so that a
//! refusal can be blamed; [`Stream`] takes any number of changes one by one and joins the elements of a set, which is what
//! the kernel takes fastest.

use std::collections::BTreeMap;

use switchyard_model::Family;
use switchyard_netlink::nftables::{Batch, Comment, Element, Table, TableId};
use switchyard_plan::nft::element::{Data, Place};
use switchyard_plan::nft::names::Set;
use switchyard_plan::nft::ops::{Change, Op};

use super::{rules, sets};

/// Elements of one set that are kept until they are written together.
const JOINED: usize = 1000;

/// Writes changes into a batch as they come. Elements of different sets may change places; nothing else does.
pub(super) struct Stream {
    batch: Batch,
    family: Family,
    id: TableId,
    waiting: BTreeMap<Set, Vec<Element>>,
    changes: usize,
}

impl Stream {
    pub(super) fn new(batch: Batch, family: Family, id: TableId) -> Self {
        Self { batch, family, id, waiting: BTreeMap::new(), changes: 0 }
    }

    /// One more change. A first write deletes nothing but a whole table.
    pub(super) fn put(&mut self, change: &Change) {
        self.changes += 1;
        if let Change::AddElement(place, data) = change {
            let waiting = self.waiting.entry(place.set).or_default();
            waiting.push(sets::encode(place, data));
            if waiting.len() >= JOINED {
                self.batch.add_elements(&self.id, place.set.as_str(), &*waiting);
                waiting.clear();
            }
            return;
        }
        self.write_waiting();
        encode_one(change, self.family, &self.id, &mut self.batch);
    }

    fn write_waiting(&mut self) {
        for (set, waiting) in std::mem::take(&mut self.waiting) {
            self.batch.add_elements(&self.id, set.as_str(), &waiting);
        }
    }

    /// The batch, and how many changes are in it.
    pub(super) fn finish(mut self) -> (Batch, usize) {
        self.write_waiting();
        (self.batch, self.changes)
    }
}

/// Writes changes into a batch. Says for each operation of the batch which change it is for; if it is for several, for
/// the first of them.
pub(super) fn with_sources(ops: &[Op], family: Family, id: &TableId, batch: &mut Batch) -> Vec<usize> {
    let mut sources = Vec::new();
    let mut start = 0;
    let mut has_flushed = false;
    for group in ops.chunk_by(joins) {
        let Some(first) = group.first() else { continue };
        match &first.change {
            Change::AddElement(Place { set, .. }, _) => {
                let elements: Vec<Element> = group.iter().filter_map(element).collect();
                batch.add_elements(id, set.as_str(), &elements);
            }
            Change::DeleteElement(Place { set, .. }) => {
                let elements: Vec<Element> = group.iter().filter_map(element).collect();
                batch.delete_elements(id, set.as_str(), &elements);
            }
            Change::DeleteChain(name) => {
                // Chains that go may lead to each other: all are emptied before the first is deleted.
                if !std::mem::replace(&mut has_flushed, true) {
                    flush_all(ops, id, batch);
                }
                batch.delete_chain(id, name);
            }
            other => encode_one(other, family, id, batch),
        }
        sources.resize(batch.len(), start);
        start += group.len();
    }
    sources
}

/// True if the change after `op` may go into the same operation: elements of one set, of one owner, added or deleted
/// alike.
fn joins(op: &Op, next: &Op) -> bool {
    if op.owner != next.owner {
        return false;
    }
    match (&op.change, &next.change) {
        (Change::AddElement(a, _), Change::AddElement(b, _)) => a.set == b.set,
        (Change::DeleteElement(a), Change::DeleteElement(b)) => a.set == b.set,
        _ => false,
    }
}

fn flush_all(ops: &[Op], id: &TableId, batch: &mut Batch) {
    for op in ops {
        if let Change::DeleteChain(name) = &op.change {
            batch.flush_chain(id, name);
        }
    }
}

fn element(op: &Op) -> Option<Element> {
    match &op.change {
        Change::AddElement(place, data) => Some(sets::encode(place, data)),
        Change::DeleteElement(place) => Some(sets::encode(place, &Data::None)),
        _ => None,
    }
}

fn encode_one(change: &Change, family: Family, id: &TableId, batch: &mut Batch) {
    match change {
        Change::AddTable => {
            let comment = Comment::new("rules for Kubernetes Services, written by Switchyard");
            batch.add_table(&Table { comment, ..Table::new(id.clone()) });
        }
        Change::DeleteTable => {
            batch.delete_table(id);
        }
        Change::AddSet(set, size) => {
            batch.add_set(id, &sets::declare(*set, family, *size));
        }
        Change::DeleteSet(set) => {
            batch.delete_set(id, set.as_str());
        }
        Change::AddClients(set) => {
            batch.add_set(id, &sets::declare_clients(set, family));
        }
        Change::DeleteClients(name) => {
            batch.delete_set(id, name);
        }
        Change::AddChain(chain) => {
            batch.add_chain(id, &rules::chain(chain));
            rules::rules(chain, family).iter().for_each(|rule| _ = batch.add_rule(id, rule));
        }
        Change::ReplaceRules(chain) => {
            batch.flush_chain(id, &chain.name);
            rules::rules(chain, family).iter().for_each(|rule| _ = batch.add_rule(id, rule));
        }
        Change::AddElement(..) | Change::DeleteElement(_) | Change::DeleteChain(_) => {}
    }
}
