//! Which addresses may be sampled: a small table that says "certainly not" for nearly all of them, with one load.
//!
//! In: addresses that are recorded and forgotten. Out: whether an address may be recorded. Never "no" for one that is; an
//! entry that was full once stays, and costs its addresses a look into the recorder's map.

use std::sync::atomic::{AtomicU8, Ordering};

/// Entries: a power of two, and several times the samples that are kept.
const ENTRIES: usize = 1 << 16;
/// An entry that counts no more.
const FULL: u8 = u8::MAX;

/// How many recorded addresses share an entry.
pub(crate) struct Filter([AtomicU8; ENTRIES]);

impl Filter {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; ENTRIES])
    }

    fn entry(&self, address: usize) -> Option<&AtomicU8> {
        // Fibonacci hashing: the product's highest bits depend on all bits of the address.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = u64::try_from(address).unwrap_or_default().wrapping_mul(GOLDEN);
        usize::try_from(hash >> (u64::BITS - ENTRIES.trailing_zeros())).ok().and_then(|at| self.0.get(at))
    }

    /// Whoever frees an address has it from whoever allocated it, so it sees what was written then.
    #[inline]
    pub(crate) fn may_hold(&self, address: usize) -> bool {
        self.entry(address).is_some_and(|entry| entry.load(Ordering::Relaxed) > 0)
    }

    pub(crate) fn add(&self, address: usize) {
        self.change(address, |count| count.saturating_add(1));
    }

    pub(crate) fn remove(&self, address: usize) {
        self.change(address, |count| if count == FULL { FULL } else { count.saturating_sub(1) });
    }

    fn change(&self, address: usize, change: impl Fn(u8) -> u8) {
        if let Some(entry) = self.entry(address) {
            // The closure always has a value, so it always succeeds.
            let _ = entry.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(change(count)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_is_found_and_what_is_out_is_mostly_not() {
        static FILTER: Filter = Filter::new();
        let addresses: Vec<usize> = (0..1000).map(|n| 0x7f00_0000_0000 + n * 4112).collect();
        addresses.iter().for_each(|address| FILTER.add(*address));
        assert!(addresses.iter().all(|address| FILTER.may_hold(*address)));
        let others = (0..10_000).filter(|n| FILTER.may_hold(0x5500_0000_0000 + n * 32)).count();
        assert!(others < 1000, "{others} of 10000 unknown addresses would be looked up");
        addresses.iter().for_each(|address| FILTER.remove(*address));
        assert!(!addresses.iter().any(|address| FILTER.may_hold(*address)));
    }

    #[test]
    fn an_entry_that_was_full_never_forgets() {
        static FILTER: Filter = Filter::new();
        for _ in 0..300 {
            FILTER.add(64);
        }
        for _ in 0..299 {
            FILTER.remove(64);
        }
        assert!(FILTER.may_hold(64));
    }
}
