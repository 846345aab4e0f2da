//! How many elements the sets that grow with the cluster are made for.
//!
//! In: how many elements are wanted. Out: the size to declare.
//!
//! A set with a size is a hash table of fixed length in the kernel. One without a size grows while it is filled, which takes the kernel as
//! long as everything else of a first write. But a set with a size takes no more elements than that. So it has room for at least twice
//! what is wanted when it is made, and when that is used up, it is replaced by one that is at least four times as large.

use std::collections::BTreeMap;

use super::names::Set;
use super::ops::{Change, Op};

/// Size of each set that has one.
pub type Rooms = BTreeMap<Set, u32>;

/// Size of a set in a small cluster.
const LEAST: u32 = 4096;

/// The sets whose elements are as many as Services or endpoints.
const GROWING: [Set; 3] = [Set::ClusterIps, Set::Frontends, Set::Slots];

impl Set {
    /// True if the set may have a size.
    pub fn may_have_size(self) -> bool {
        GROWING.contains(&self)
    }
}

/// The size of a set for so many elements.
fn size_for(count: usize) -> u32 {
    let wanted = u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(2);
    // The largest power of two, for a cluster that nobody has seen yet.
    wanted.checked_next_power_of_two().unwrap_or(1 << 31).max(LEAST)
}

/// How many elements of each growing set are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<Set, usize>);

impl Counts {
    /// One element more.
    pub(super) fn add(&mut self, set: Set) {
        if set.may_have_size() {
            *self.0.entry(set).or_default() += 1;
        }
    }

    /// Counts what these changes add and delete.
    pub(super) fn follow(&mut self, ops: &[Op]) {
        for op in ops {
            match &op.change {
                Change::AddElement(place, _) => self.add(place.set),
                Change::DeleteElement(place) => {
                    self.0.entry(place.set).and_modify(|count| *count = count.saturating_sub(1));
                }
                _ => {}
            }
        }
    }

    fn of(&self, set: Set) -> usize {
        self.0.get(&set).copied().unwrap_or_default()
    }

    /// Sizes for sets that are made now.
    pub(super) fn rooms(&self) -> Rooms {
        GROWING.into_iter().map(|set| (set, size_for(self.of(set)))).collect()
    }

    /// Sizes for sets of which some are too small now.
    pub(super) fn grown(&self, mut rooms: Rooms) -> Rooms {
        for (set, size) in &mut rooms {
            if self.is_too_small(*set, *size) {
                *size = size_for(self.of(*set));
            }
        }
        rooms
    }

    /// True if all elements fit.
    pub(super) fn fit(&self, rooms: &Rooms) -> bool {
        !rooms.iter().any(|(set, size)| self.is_too_small(*set, *size))
    }

    fn is_too_small(&self, set: Set, size: u32) -> bool {
        usize::try_from(size).is_ok_and(|size| self.of(set) > size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_leave_room_to_grow() {
        let sizes = [0, 1, 2048, 2049, 4097, 50_000, 1 << 30, usize::MAX].map(size_for);
        assert_eq!(sizes, [4096, 4096, 4096, 8192, 16_384, 131_072, 1 << 31, 1 << 31]);
    }

    #[test]
    fn only_what_is_too_small_grows() {
        let mut counts = Counts::default();
        (0..5000).for_each(|_| counts.add(Set::Slots));
        (0..9000).for_each(|_| counts.add(Set::Refusals));
        let rooms: Rooms = [(Set::Frontends, 4096), (Set::Slots, 4999)].into();
        assert!(!counts.fit(&rooms));
        let grown = counts.grown(rooms);
        assert_eq!(grown, [(Set::Frontends, 4096), (Set::Slots, 16_384)].into());
        assert!(counts.fit(&grown));
        assert!(counts.fit(&Rooms::new()), "a set without a size takes any number");
    }
}
