//! How many flows there may be: each has a port of the node towards its target, and the whole node shares those.
//!
//! In: a listener that wants one more flow. Out: room for it, or a refusal. Where there is none left, the listener that has most
//! gives a flow up.
//!
//! Invariants
//! - Flows take at most half of the ports that the kernel gives out, however many listeners are flooded.
//! - A flood at one listener keeps no other from having as many flows as that one.
//! - Within one listener, only those flows go that nothing passed for a while.
//! - Clients that are refused cost nearly nothing, however many listeners there are: see [`IN_VAIN`].
//! - Only the listener that gives a flow up is held, only meanwhile, and never one that was [forgotten](Room::forget): whoever closes
//!   a listener waits for all who hold it.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::Switch;

/// Flows of the process, however many ports the node has.
const MOST: usize = 16_384;

/// So long after a search for a flow that may go, no other that would find as little is made. A client that asks meanwhile is refused
/// even if some flow has rested long enough since.
pub(super) const IN_VAIN: Duration = Duration::from_millis(10);

/// What the kernel gives out if nobody changed it.
const USUAL_PORTS: RangeInclusive<u16> = 32_768..=60_999;

/// The ports that the kernel gives to who does not care which.
pub fn local_ports() -> RangeInclusive<u16> {
    parse(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default())
}

/// How many flows there may be.
pub fn affordable_flows() -> usize {
    half_of(&local_ports())
}

fn parse(range: &str) -> RangeInclusive<u16> {
    let mut ends = range.split_whitespace().map_while(|end| end.parse().ok());
    let read = ends.next().zip(ends.next()).filter(|(first, last)| first <= last);
    read.map_or(USUAL_PORTS, |(first, last)| first..=last)
}

fn half_of(ports: &RangeInclusive<u16>) -> usize {
    (ports.len() / 2).clamp(1, MOST)
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scarce {
    /// Flows, or ports for them. Only flows use those, so they share.
    Flows,
    /// Descriptors. Others use them, too, and no flow that is active goes for their sake.
    Descriptors,
}

/// Who shares the room.
#[derive(Debug)]
struct Listener {
    /// Places that it has; to be read without its locks.
    taken: Arc<AtomicUsize>,
    switch: Weak<Switch>,
}

/// The last search that found nothing.
#[derive(Debug)]
struct Vain {
    start: Instant,
    /// The end of [`IN_VAIN`], in microseconds from the start.
    end: AtomicU64,
    /// Flows of the listener that had most.
    most: AtomicUsize,
}

impl Vain {
    fn micros(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }

    fn note(&self, most: usize, now: Instant) {
        self.most.store(most, Ordering::Relaxed);
        self.end.store(self.micros(now + IN_VAIN), Ordering::Release);
    }

    /// How many flows the listener with most has, if it had none to give just now.
    fn just_now(&self, now: Instant) -> Option<usize> {
        let is_over = self.micros(now) >= self.end.load(Ordering::Acquire);
        (!is_over).then(|| self.most.load(Ordering::Relaxed))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    used: AtomicUsize,
    listeners: Mutex<Vec<Listener>>,
    vain: Vain,
    /// The operator knows that there is too little.
    is_told: AtomicBool,
}

/// Room for one flow. Returned when dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    taken: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Room { most, used, is_told, .. } = &*self.room;
        self.taken.fetch_sub(1, Ordering::Relaxed);
        if used.fetch_sub(1, Ordering::Relaxed) < most / 10 * 9 {
            is_told.store(false, Ordering::Relaxed);
        }
    }
}

impl Room {
    /// For so many flows.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let (used, listeners, is_told) = Default::default();
        let vain = Vain { start: Instant::now(), end: AtomicU64::new(0), most: AtomicUsize::new(0) };
        Arc::new(Self { most, used, listeners, vain, is_told })
    }

    /// One more listener.
    pub(super) fn add(&self, switch: &Arc<Switch>) {
        let listener = Listener { taken: switch.taken.clone(), switch: Arc::downgrade(switch) };
        let mut listeners = self.lock();
        listeners.retain(|listener| listener.switch.strong_count() > 0);
        listeners.push(listener);
    }

    /// From now on, nobody gets hold of this listener here.
    pub(super) fn forget(&self, switch: &Arc<Switch>) {
        self.lock().retain(|listener| !std::ptr::eq(listener.switch.as_ptr(), Arc::as_ptr(switch)));
    }

    /// Room for one flow of the listener that counts by `taken`, if there is any.
    pub(super) fn take(self: &Arc<Self>, taken: &Arc<AtomicUsize>) -> Option<Place> {
        let more = |used: usize| used.checked_add(1).filter(|sum| *sum <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        taken.fetch_add(1, Ordering::Relaxed);
        Some(Place { room: self.clone(), taken: taken.clone() })
    }

    /// Ends one flow, so that `asking` can have what it had. Whether there was one.
    pub(super) fn make(&self, asking: &Switch, scarce: Scarce, now: Instant) -> bool {
        let own = asking.count();
        let is_unfair = |most: usize| scarce == Scarce::Flows && most > own;
        // Who has less than the largest is never refused by what that one found: it would get even a flow that did not rest.
        if self.vain.just_now(now).is_some_and(|most| !is_unfair(most)) {
            return false;
        }
        let Some((most, largest)) = self.largest() else { return false };
        let rest = if is_unfair(most) { Duration::ZERO } else { asking.rest() };
        let is_made = largest.evict(rest, now);
        if !is_made {
            self.vain.note(most, now);
        }
        is_made
    }

    /// The listener that has most flows, and how many.
    fn largest(&self) -> Option<(usize, Arc<Switch>)> {
        let listeners = self.lock();
        let counted = listeners.iter().map(|listener| (listener.taken.load(Ordering::Relaxed), listener));
        let (most, largest) = counted.max_by_key(|(count, _)| *count)?;
        Some((most, largest.switch.upgrade()?))
    }

    /// Says once that there is none left, until there is again.
    pub(super) fn tell_shortage(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                most = self.most,
                "too many UDP clients at once; new ones are refused until others rest. There are more flows if the node has more local \
                 ports (net.ipv4.ip_local_port_range)"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        // Nothing panics while it is held.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_ports_are_for_flows() {
        for (range, flows) in [
            ("32768\t60999\n", 14_116),
            ("1024 65535", 16_384),
            ("40000 40009", 5),
            ("40000 40000", 1),
            ("9 1", 14_116),
            ("", 14_116),
            ("32768", 14_116),
        ] {
            assert_eq!(half_of(&parse(range)), flows, "{range}");
        }
    }
}
