//! What is known of samples: who allocated them, and which are still in use.
//!
//! In: addresses and sizes from the allocator, in any thread. Out: a [`Profile`].
//!
//! Invariants
//! - While a thread is in here it records nothing, so the maps may allocate.
//! - Nothing in here unwinds to the caller, who is in the middle of anything.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::allocator::walk;
use crate::filter::Filter;
use crate::interval;

/// Callers that are kept of a stack.
const MAX_DEPTH: usize = 64;
/// Different stacks; each takes half a kilobyte.
const MAX_STACKS: usize = 8192;
/// Samples in use: eight gigabytes of them.
const MAX_IN_USE: usize = 16_384;

static IS_ON: AtomicBool = AtomicBool::new(false);
static FILTER: Filter = Filter::new();
static RECORDS: OnceLock<Mutex<Records>> = OnceLock::new();

thread_local! {
    /// Bytes to the next sample. No destructor, so it is there as long as the thread is.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    /// State of the random numbers; 0 before the first.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    /// Whether this thread is in the recorder.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Objects and bytes, estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub objects: u64,
    /// How large they are together.
    pub bytes: u64,
}

impl Amount {
    fn of_sample(size: usize) -> Self {
        let weight = interval::weight(size);
        let bytes = weight * f64::from(u32::try_from(size).unwrap_or(u32::MAX));
        Self { objects: interval::whole(weight), bytes: interval::whole(bytes) }
    }

    fn add(&mut self, other: Self) {
        self.objects = self.objects.saturating_add(other.objects);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn subtract(&mut self, other: Self) {
        self.objects = self.objects.saturating_sub(other.objects);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

/// Who allocated, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Where each call returns to, the innermost first.
    pub addresses: Box<[usize]>,
    /// All since the start.
    pub allocated: Amount,
    /// What was not freed.
    pub in_use: Amount,
}

/// A heap profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Every stack that was sampled.
    pub stacks: Vec<Stack>,
    /// Mean distance of two samples, in bytes.
    pub interval: u64,
    /// Samples that there was no room for.
    pub lost: u64,
}

#[derive(Default)]
struct Records {
    /// The number of each stack in `amounts`.
    stacks: HashMap<Box<[usize]>, usize>,
    /// Allocated, and in use.
    amounts: Vec<(Amount, Amount)>,
    /// The stack's number and the size.
    in_use: HashMap<usize, (usize, usize)>,
    lost: u64,
}

/// Samples allocations from now on. What was allocated before is not known.
pub fn start() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// What is known now.
pub fn profile() -> Profile {
    let _inside = Inside::enter();
    let records = records();
    let known = records.stacks.iter().filter_map(|(addresses, number)| {
        let (allocated, in_use) = records.amounts.get(*number).copied()?;
        Some(Stack { addresses: addresses.clone(), allocated, in_use })
    });
    let mut stacks: Vec<Stack> = known.collect();
    stacks.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    Profile { stacks, interval: u64::from(interval::MEAN), lost: records.lost }
}

/// Whether anything is to be recorded.
#[inline]
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// The program gets memory.
#[inline]
pub(crate) fn allocated(address: usize, size: usize) {
    let left = LEFT.get();
    if size < left {
        LEFT.set(left - size);
    } else {
        sample(address, size);
    }
}

/// The program gives memory back.
#[inline]
pub(crate) fn freed(address: usize) {
    if FILTER.may_hold(address) {
        forget(address);
    }
}

#[cold]
fn sample(address: usize, size: usize) {
    let Some(_inside) = Inside::enter() else { return };
    let is_first = RANDOM.get() == 0;
    let random = interval::next(if is_first { seed() } else { RANDOM.get() });
    RANDOM.set(random);
    LEFT.set(interval::distance(random));
    // The first distance of a thread begins here: before it there was none.
    if is_first || address == 0 {
        return;
    }
    // What is lost to a panic is one sample.
    let _ = catch_unwind(AssertUnwindSafe(|| record(address, size)));
}

#[cold]
fn forget(address: usize) {
    let Some(_inside) = Inside::enter() else { return };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut records = records();
        let Some((stack, size)) = records.in_use.remove(&address) else { return };
        FILTER.remove(address);
        if let Some((_, in_use)) = records.amounts.get_mut(stack) {
            in_use.subtract(Amount::of_sample(size));
        }
    }));
}

fn record(address: usize, size: usize) {
    let mut stack = [0; MAX_DEPTH];
    let depth = walk(&mut stack);
    let callers = stack.get(..depth).unwrap_or_default();
    let mut records = records();
    let Some(number) = records.number(callers) else {
        records.lost = records.lost.saturating_add(1);
        return;
    };
    let amount = Amount::of_sample(size);
    let has_room = records.in_use.len() < MAX_IN_USE;
    if let Some((allocated, in_use)) = records.amounts.get_mut(number) {
        allocated.add(amount);
        if has_room {
            in_use.add(amount);
        }
    }
    if has_room {
        FILTER.add(address);
        records.in_use.insert(address, (number, size));
    } else {
        records.lost = records.lost.saturating_add(1);
    }
}

impl Records {
    /// The number of a stack, a new one if there is room.
    fn number(&mut self, callers: &[usize]) -> Option<usize> {
        if let Some(number) = self.stacks.get(callers) {
            return Some(*number);
        }
        let number = self.amounts.len();
        if number >= MAX_STACKS {
            return None;
        }
        self.amounts.push(Default::default());
        self.stacks.insert(callers.into(), number);
        Some(number)
    }
}

fn records() -> MutexGuard<'static, Records> {
    // Half an update makes an estimate wrong by one sample.
    RECORDS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that differs between threads: an address on their stacks.
fn seed() -> u64 {
    let here = 0_u8;
    u64::try_from(std::ptr::from_ref(&here).addr()).unwrap_or(1)
}

/// Says that a thread is in the recorder, for as long as it lives.
struct Inside;

impl Inside {
    fn enter() -> Option<Self> {
        // Lazily: a `Self` that is made and dropped would say that nobody is inside.
        (!IS_INSIDE.replace(true)).then(|| Self)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}
