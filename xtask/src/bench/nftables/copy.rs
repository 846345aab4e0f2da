//! What a kernel holds, read back and written again: the limit to compare with.
//!
//! In: the table that a sync left in one namespace. Out: one prepared batch with the very same objects, and the batches
//! that undo single changes, to be committed in another namespace. Nothing of the mode's own planner or encoder is used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use switchyard_netlink::Family;
use switchyard_netlink::nftables::{Batch, Chain, Element, Nft, Rule, Set, Table, TableId};
use switchyard_plan::nft::names::TABLE;

/// The table that is read and written.
pub(super) fn table() -> TableId {
    TableId::new(Family::V4, TABLE)
}

/// All elements of a set, sorted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elements {
    set: Arc<str>,
    all: Vec<Element>,
}

impl Elements {
    pub(super) fn set(&self) -> &Arc<str> {
        &self.set
    }
}

/// Everything in the table.
pub(super) struct Copy {
    table: Table,
    sets: Vec<Set>,
    chains: Vec<Chain>,
    rules: Vec<Rule>,
    pub(super) elements: Vec<Elements>,
}

impl Copy {
    /// Reads the table.
    pub(super) fn read(nft: &mut Nft) -> Result<Self> {
        let id = table();
        let table = nft.tables(id.family)?.into_iter().find(|table| table.id == id);
        let table = table.context("there is no table to be read")?;
        let sets = nft.sets(&id)?;
        let elements = read_elements(nft, sets.iter().map(|set| &set.name))?;
        Ok(Self { table, sets, chains: nft.chains(&id)?, rules: nft.rules(&id)?, elements })
    }

    /// All of it as one transaction.
    pub(super) fn batch(&self) -> Batch {
        let id = &self.table.id;
        let mut batch = Batch::new();
        batch.add_table(&self.table);
        self.sets.iter().for_each(|set| _ = batch.add_set(id, set));
        self.chains.iter().for_each(|chain| _ = batch.add_chain(id, chain));
        for rule in &self.rules {
            batch.add_rule(id, &rule.clone().without_handle());
        }
        for elements in &self.elements {
            batch.add_elements(id, &elements.set, &elements.all);
        }
        batch
    }

    /// How many elements there are.
    pub(super) fn len(&self) -> usize {
        self.elements.iter().map(|elements| elements.all.len()).sum()
    }
}

/// The elements of these sets.
pub(super) fn read_elements<'a>(
    nft: &mut Nft,
    sets: impl Iterator<Item = &'a Arc<str>>,
) -> Result<Vec<Elements>> {
    let mut read = Vec::new();
    for set in sets {
        let mut all = Vec::new();
        nft.elements(&table(), set, &mut |element| all.push(element))?;
        all.sort_unstable();
        read.push(Elements { set: set.clone(), all });
    }
    Ok(read)
}

/// What many changes of the same kind did to one set.
pub(super) struct Difference {
    set: Arc<str>,
    removed: Vec<Element>,
    added: Vec<Element>,
}

impl Difference {
    /// Compares the elements before and after, set by set.
    pub(super) fn between(before: &[Elements], after: &[Elements]) -> Vec<Self> {
        let pairs = before.iter().zip(after);
        pairs
            .map(|(before, after)| Self {
                set: before.set.clone(),
                removed: missing(&before.all, &after.all),
                added: missing(&after.all, &before.all),
            })
            .filter(|difference| difference.len() > 0)
            .collect()
    }

    fn len(&self) -> usize {
        self.removed.len() + self.added.len()
    }
}

/// Elements of `of` that are not in `sorted`.
fn missing(of: &[Element], sorted: &[Element]) -> Vec<Element> {
    of.iter().filter(|element| sorted.binary_search(element).is_err()).cloned().collect()
}

/// All changes at once.
pub(super) fn redo(differences: &[Difference]) -> Batch {
    let mut batch = Batch::new();
    for difference in differences {
        batch.delete_elements(&table(), &difference.set, &difference.removed);
    }
    for difference in differences {
        batch.add_elements(&table(), &difference.set, &difference.added);
    }
    batch
}

/// One batch for each of `changes` changes that undoes it. `each` is the number of elements that every one of them
/// wrote: if the kernel saw another number, these are not the same commits.
pub(super) fn undo(differences: &[Difference], changes: usize, each: usize) -> Result<Vec<Batch>> {
    let seen: usize = differences.iter().map(Difference::len).sum();
    let is_even =
        |d: &Difference| d.removed.len().is_multiple_of(changes) && d.added.len().is_multiple_of(changes);
    if seen != changes * each || !differences.iter().all(is_even) {
        bail!("{changes} changes wrote {each} elements each, but {seen} elements differ in the kernel");
    }
    let share = |elements: &[Element], n: usize| -> Vec<Element> {
        let size = elements.len() / changes;
        elements.iter().skip(n * size).take(size).cloned().collect()
    };
    let one = |n: usize| {
        let mut batch = Batch::new();
        for difference in differences {
            batch.delete_elements(&table(), &difference.set, &share(&difference.added, n));
        }
        for difference in differences {
            batch.add_elements(&table(), &difference.set, &share(&difference.removed, n));
        }
        batch
    };
    Ok((0..changes).map(one).collect())
}

/// The time of a commit and nothing else.
pub(super) fn commit(nft: &mut Nft, batch: &Batch) -> Result<Duration> {
    let begin = Instant::now();
    nft.commit(batch).context("the kernel refused a batch that it told us itself")?;
    Ok(begin.elapsed())
}
