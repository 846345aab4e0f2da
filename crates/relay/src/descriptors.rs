//! How many files may be open: every connection costs two, and a process that runs out of them can do nothing any more.
//!
//! In: the limit of the process. Out: permits. Part of the limit is left to the rest of the process.
//!
//! Invariant: a permit is taken before a descriptor is used for long, so that running out is a refusal and never an
//! error somewhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Left to the rest of the process, unless the limit is very low.
const HEADROOM: usize = 128;

/// The limit of open files of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What it was.
    pub before: u64,
    /// What it is.
    pub now: u64,
}

/// Raises the soft limit of open files to the hard one, as far as the kernel allows it.
///
/// # Errors
/// The kernel does not tell its limits.
pub fn raise_limit() -> std::io::Result<Limit> {
    let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // A refusal leaves things as they are, and the answer says so.
    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    let (now, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(Limit { before, now })
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Descriptors {
    most: usize,
    used: AtomicUsize,
    /// The operator knows that there are too few.
    is_told: AtomicBool,
}

impl Descriptors {
    /// Of a process that may open so many files.
    pub(crate) fn of_limit(limit: u64) -> Arc<Self> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let most = limit.saturating_sub(HEADROOM.min(limit / 2));
        Arc::new(Self { most, used: AtomicUsize::new(0), is_told: AtomicBool::new(false) })
    }

    /// How many permits there are.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// So many descriptors, if there are.
    pub(crate) fn take(self: &Arc<Self>, count: usize) -> Option<Permit> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(count).filter(|sum| *sum <= self.most)
        });
        taken.ok().map(|_| Permit { of: self.clone(), count })
    }

    /// Says once that there are too few, until there are enough again.
    pub(crate) fn tell_shortage(&self) {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                used = self.used.load(Ordering::Relaxed),
                most = self.most,
                "too many open files; new connections are refused until others end. Raise the limit of open files \
                 of this process (LimitNOFILE= of its systemd unit, or ulimit -n)"
            );
        }
    }
}

/// The right to have descriptors open. Returned when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    of: Arc<Descriptors>,
    count: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let before = self.of.used.fetch_sub(self.count, Ordering::Relaxed);
        let is_enough = before.saturating_sub(self.count) < self.of.most / 10 * 9;
        if is_enough && self.of.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!("there are enough descriptors again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_bounded_and_come_back() {
        let all = Descriptors::of_limit(1024);
        let first = all.take(19).unwrap();
        let _second = all.take(all.most - 19).unwrap();
        assert!(all.take(1).is_none());
        drop(first);
        assert!(all.take(20).is_none() && all.take(19).is_some());
    }

    #[test]
    fn a_low_limit_leaves_half_to_the_rest() {
        assert_eq!(Descriptors::of_limit(64).most, 32);
        assert_eq!(Descriptors::of_limit(1024).most, 896);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_limit().unwrap();
        assert!(limit.now >= limit.before);
        assert_eq!(raise_limit().unwrap().before, limit.now);
    }
}
