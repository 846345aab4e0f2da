//! How many flows there may be: each has a port of the node towards its target, and the whole node shares those.
//!
//! In: a listener that wants one more flow. Out: room for it, or a refusal. Where there is none left, the listener that has most
//! gives a flow up.
//!
//! Invariants
//! - Flows take at most half of the ports that the kernel gives out, however many listeners are flooded.
//! - A flood at one listener keeps no other from having as many flows as that one.
//! - Within one listener, only those flows go that nothing passed for a while.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::Switch;

/// Flows of the process, however many ports the node has.
const MOST: usize = 16_384;

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
    ends.next().zip(ends.next()).map_or(USUAL_PORTS, |(first, last)| first..=last)
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

/// See the module.
#[derive(Debug)]
pub(crate) struct Room {
    most: usize,
    used: AtomicUsize,
    switches: Mutex<Vec<Weak<Switch>>>,
    /// The operator knows that there is too little.
    is_told: AtomicBool,
}

/// Room for one flow. Returned when dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Room>);

impl Drop for Place {
    fn drop(&mut self) {
        let Room { most, used, is_told, .. } = &*self.0;
        if used.fetch_sub(1, Ordering::Relaxed) < most / 10 * 9 {
            is_told.store(false, Ordering::Relaxed);
        }
    }
}

impl Room {
    /// For so many flows.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let (used, switches, is_told) = Default::default();
        Arc::new(Self { most, used, switches, is_told })
    }

    /// One more listener.
    pub(super) fn add(&self, switch: &Arc<Switch>) {
        let mut switches = self.lock();
        switches.retain(|switch| switch.strong_count() > 0);
        switches.push(Arc::downgrade(switch));
    }

    /// Room for one flow, if there is any.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(1).filter(|sum| *sum <= self.most)
        });
        taken.ok().map(|_| Place(self.clone()))
    }

    /// Ends one flow, so that `asking` can have what it had. Whether there was one.
    pub(super) fn make(&self, asking: &Switch, scarce: Scarce) -> bool {
        let all: Vec<Arc<Switch>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        let counted = all.iter().map(|switch| (switch.count(), switch));
        let Some((most, largest)) = counted.max_by_key(|(count, _)| *count) else { return false };
        let is_unfair = scarce == Scarce::Flows && most > asking.count();
        largest.evict(if is_unfair { Duration::ZERO } else { asking.rest() })
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

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Switch>>> {
        // Nothing panics while it is held.
        self.switches.lock().unwrap_or_else(PoisonError::into_inner)
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
            ("9 1", 1),
            ("", 14_116),
            ("32768", 14_116),
        ] {
            assert_eq!(half_of(&parse(range)), flows, "{range}");
        }
    }
}
