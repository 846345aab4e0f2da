//! Who holds the xtables lock.
//!
//! In: the lock file. Out: processes, from `/proc/locks` by device and inode. A best effort: a process in another
//! pid namespace is not shown to us, and the holder may be gone when we look.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::stat::{major, minor};

use crate::printable::bounded;

/// Where iptables puts its lock unless `XTABLES_LOCKFILE` says otherwise.
pub const DEFAULT_LOCK_FILE: &str = "/run/xtables.lock";

const MAX_LOCKS_TEXT: u64 = 1 << 20;
const MAX_HOLDERS: usize = 8;

/// A process that holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Process id, as seen from our pid namespace.
    pub pid: u32,
    /// Its name, escaped; empty if the process is gone.
    pub name: String,
}

/// The processes that hold the lock, at most eight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders(pub Vec<Holder>);

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a process that is not visible from here");
        }
        for (n, holder) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let name = if holder.name.is_empty() { "?" } else { &holder.name };
            write!(f, "{comma}{name} (pid {})", holder.pid)?;
        }
        Ok(())
    }
}

impl Holders {
    /// Looks now.
    pub fn of(lock_file: &Path) -> Self {
        let Ok(meta) = fs::metadata(lock_file) else { return Self::default() };
        let mut text = String::new();
        let read =
            File::open("/proc/locks").and_then(|file| file.take(MAX_LOCKS_TEXT).read_to_string(&mut text));
        if read.is_err() {
            return Self::default();
        }
        let device = (major(meta.dev()), minor(meta.dev()));
        Self(pids(&text, device, meta.ino()).into_iter().map(named).collect())
    }
}

fn named(pid: u32) -> Holder {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    Holder { pid, name: bounded(name.trim_ascii_end(), 64) }
}

/// Pids from lines like `2: FLOCK  ADVISORY  WRITE 4567 fe:00:9978061 0 EOF`. On stacked file systems the device
/// of a file and the device in that list differ; then the inode alone decides.
fn pids(text: &str, device: (u64, u64), inode: u64) -> Vec<u32> {
    let mut exact = Vec::new();
    let mut by_inode = Vec::new();
    for (pid, lock_device, lock_inode) in text.lines().filter_map(lock) {
        if lock_inode != inode {
            continue;
        }
        if lock_device == device { exact.push(pid) } else { by_inode.push(pid) }
    }
    let mut found = if exact.is_empty() { by_inode } else { exact };
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_HOLDERS);
    found
}

fn lock(line: &str) -> Option<(u32, (u64, u64), u64)> {
    let mut words = line.split_whitespace().skip(1);
    // A waiter has an arrow here, which is no kind of lock.
    let kind = words.next()?;
    if !matches!(kind, "FLOCK" | "POSIX" | "OFDLCK") {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let mut place = words.next()?.split(':');
    let major = u64::from_str_radix(place.next()?, 16).ok()?;
    let minor = u64::from_str_radix(place.next()?, 16).ok()?;
    Some((pid, (major, minor), place.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOCKS: &str = "1: FLOCK  ADVISORY  WRITE 4567 fe:00:99 0 EOF\n\
                         1: -> FLOCK  ADVISORY  WRITE 4568 fe:00:99 0 EOF\n\
                         2: POSIX  ADVISORY  READ 12 08:01:77 0 EOF\n\
                         3: FLOCK  ADVISORY  WRITE 9 00:1a:99 0 EOF\n\
                         4: garbage\n";

    #[test]
    fn holders_but_not_waiters() {
        assert_eq!(pids(LOCKS, (0xfe, 0), 99), [4567]);
        assert_eq!(pids(LOCKS, (1, 1), 99), [9, 4567]);
        assert!(pids(LOCKS, (0xfe, 0), 1).is_empty());
    }

    #[test]
    fn text_for_people() {
        assert_eq!(Holders::default().to_string(), "a process that is not visible from here");
        let holders =
            Holders(vec![Holder { pid: 4, name: "felix".into() }, Holder { pid: 5, name: String::new() }]);
        assert_eq!(holders.to_string(), "felix (pid 4), ? (pid 5)");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let _ = pids(&text, (0, 0), 0);
            let _ = pids(&format!("1: FLOCK A W {text}"), (0, 0), 0);
        }
    }
}
