//! A profile with names, as people read it: stacks begin with the function that asked for memory, not with how that was
//! noticed.

use std::collections::{BTreeMap, BTreeSet};

use crate::recorder::{Profile, profile};
use crate::symbols::{Function, functions};

/// So deep are the allocator's own frames at most.
const OWN_DEPTH: usize = 24;
/// What the names of the allocator's own functions hold.
const OWN: [&str; 5] = ["switchyard_heap::", "__rust_alloc", "__rust_realloc", "__rg_", "__rdl_"];

/// A profile and the functions at its addresses.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The stacks.
    pub profile: Profile,
    /// The functions at each address, the innermost first if there are several.
    pub functions: BTreeMap<usize, Vec<Function>>,
}

/// What is known now, with names. Reads the binary, so it takes a moment.
pub fn named() -> Named {
    let mut profile = profile();
    let addresses: BTreeSet<usize> =
        profile.stacks.iter().flat_map(|stack| stack.addresses.iter().copied()).collect();
    let functions = functions(&addresses);
    for stack in &mut profile.stacks {
        let own = |address: &usize| functions.get(address).and_then(|list| list.last()).is_some_and(is_own);
        let inner = stack.addresses.iter().take(OWN_DEPTH).rposition(own).map_or(0, |last| last + 1);
        stack.addresses = stack.addresses.iter().skip(inner).copied().collect();
    }
    Named { profile, functions }
}

fn is_own(function: &Function) -> bool {
    OWN.iter().any(|part| function.name.contains(part))
}
