//! Heap profiles: from the allocator's words to the page's.

use switchyard_heap::{Amount, Function, Named, named};
use switchyard_serve::server;

/// Who has which memory now.
pub(super) fn take() -> server::Heap {
    let Named { profile, functions } = named();
    let stack = |stack: switchyard_heap::Stack| server::Stack {
        addresses: stack.addresses.iter().map(|at| address(*at)).collect(),
        allocated: amount(stack.allocated),
        in_use: amount(stack.in_use),
    };
    let here = |(at, list): (usize, Vec<Function>)| (address(at), list.into_iter().map(function).collect());
    server::Heap {
        stacks: profile.stacks.into_iter().map(stack).collect(),
        functions: functions.into_iter().map(here).collect(),
        interval: profile.interval,
        lost: profile.lost,
    }
}

fn address(at: usize) -> u64 {
    u64::try_from(at).unwrap_or(u64::MAX)
}

fn amount(Amount { objects, bytes }: Amount) -> server::Amount {
    server::Amount { objects, bytes }
}

fn function(Function { name, file, line }: Function) -> server::Function {
    server::Function { name, file, line }
}
