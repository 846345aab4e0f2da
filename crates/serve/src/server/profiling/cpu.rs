//! CPU time of each thread, as a pprof profile.
//!
//! In: two looks at `/proc/self/task`. Out: a profile with one sample per thread and place, its stack two frames deep:
//! `user` or `kernel`, called by the thread's name.
//!
//! Why no call stacks? Walking a stack from a signal handler needs code that the compiler cannot check, in a process
//! that runs as root on every node. The kernel's accounting misses nothing, costs nothing while nobody asks, and says
//! which of the threads works; from there `perf` goes on.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::proto::{Message, nanoseconds, value_type};

/// One tick of the kernel's accounting: 100 per second for user space on every architecture that we build for.
const TICK: Duration = Duration::from_millis(10);

/// More threads than this are not looked at; the process has about ten.
const MAX_THREADS: usize = 4096;

/// Ticks that a thread has used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    name: String,
    user: u64,
    kernel: u64,
}

/// Every thread of this process by its number; threads that end meanwhile are missing.
pub(super) fn threads() -> BTreeMap<u32, Used> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let thread = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((id, used(&stat)?))
    };
    entries.flatten().take(MAX_THREADS).filter_map(thread).collect()
}

/// One line of `/proc/PID/task/TID/stat`. The name may hold spaces and brackets.
fn used(stat: &str) -> Option<Used> {
    let (head, fields) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let (user, kernel) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Used { name: name.to_owned(), user, kernel })
}

/// What the threads used between two looks.
pub(super) fn profile(
    before: &BTreeMap<u32, Used>,
    after: &BTreeMap<u32, Used>,
    began: SystemTime,
    duration: Duration,
) -> Vec<u8> {
    let mut ticks: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let none = Used::default();
    for (id, now) in after {
        let then = before.get(id).filter(|then| then.name == now.name).unwrap_or(&none);
        for (place, used) in
            [("user", now.user.saturating_sub(then.user)), ("kernel", now.kernel.saturating_sub(then.kernel))]
        {
            // Threads of the same name are one pool.
            *ticks.entry((now.name.as_str(), place)).or_default() += used;
        }
    }
    ticks.retain(|_, ticks| *ticks > 0);
    encode(&ticks, began, duration)
}

/// Numbers of strings, functions and locations in a profile.
#[derive(Default)]
struct Names<'a> {
    /// The first string of a profile is the empty one.
    strings: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> u64 {
        let at = self.strings.iter().position(|other| *other == name).unwrap_or_else(|| {
            self.strings.push(name);
            self.strings.len() - 1
        });
        u64::try_from(at).unwrap_or_default()
    }
}

/// The message `Profile` of pprof's `profile.proto`. A name's number is also that of its function and location.
fn encode(ticks: &BTreeMap<(&str, &str), u64>, began: SystemTime, duration: Duration) -> Vec<u8> {
    let mut names = Names::default();
    names.number("");
    let mut profile = Message::default();
    let cpu = (names.number("cpu"), names.number("nanoseconds"));
    for (kind, unit) in [(names.number("samples"), names.number("count")), cpu] {
        profile.message(1, &value_type(kind, unit));
    }
    let mut located = Vec::new();
    for ((thread, place), ticks) in ticks {
        let stack = [names.number(place), names.number(thread)];
        located.extend(stack);
        let mut sample = Message::default();
        sample.numbers(1, &stack);
        sample.numbers(2, &[*ticks, ticks.saturating_mul(nanoseconds(TICK))]);
        profile.message(2, &sample);
    }
    located.sort_unstable();
    located.dedup();
    for id in located {
        let (mut line, mut location, mut function) =
            (Message::default(), Message::default(), Message::default());
        line.number(1, id);
        location.number(1, id);
        location.message(4, &line);
        profile.message(4, &location);
        function.number(1, id);
        function.number(2, id);
        profile.message(5, &function);
    }
    for name in &names.strings {
        profile.text(6, name);
    }
    profile.number(9, nanoseconds(began.duration_since(UNIX_EPOCH).unwrap_or_default()));
    profile.number(10, nanoseconds(duration));
    profile.message(11, &value_type(cpu.0, cpu.1));
    profile.number(12, nanoseconds(TICK));
    profile.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (tokio (a) b) S 1 7 7 0 -1 4194560 2 0 0 0 150 50 0 0 20 0 3 0 4200 8192 25 1";

    #[test]
    fn names_may_hold_anything() {
        assert_eq!(used(STAT), Some(Used { name: "tokio (a) b".into(), user: 150, kernel: 50 }));
        for rubbish in ["", ")", "7 (a) S 1", "7 a S 1 7 7 0 -1 4194560 2 0 0 0 150 50"] {
            assert_eq!(used(rubbish), None, "{rubbish}");
        }
    }

    #[test]
    fn this_process_has_threads() {
        assert!(!threads().is_empty());
    }

    #[test]
    fn a_profile_counts_what_was_used_meanwhile() {
        let used = |user, kernel| Used { name: "sync".into(), user, kernel };
        let before = BTreeMap::from([(1, used(5, 5))]);
        let after = BTreeMap::from([(1, used(8, 5)), (2, used(4, 0))]);
        let bytes = profile(&before, &after, UNIX_EPOCH, Duration::from_secs(1));
        // One sample: locations 5 and 6, seven ticks, 70 ms.
        let sample = [0x12, 0x0b, 0x0a, 0x02, 0x05, 0x06, 0x12, 0x05, 0x07, 0x80, 0xbb, 0xb0, 0x21];
        assert!(bytes.windows(sample.len()).any(|part| part == sample), "{bytes:x?}");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("user") && text.contains("sync") && !text.contains("kernel"), "{text:?}");
    }
}
