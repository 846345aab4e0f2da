//! Which notices become requests. Pure: time comes in as a value.
//!
//! In: notices. Out: [`Post`]s. As client-go's recorder, a notice that comes again is counted; the server hears of the second
//! time at once, then every half hour, and at the end, when it has not come for six minutes. As client-go's spam filter, each
//! object has a bucket of 25 requests, which gets another every five minutes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use switchyard_model::ObjectName;

use super::{Notice, body};

/// A series that was silent for so long is over.
const FINISH: Duration = Duration::from_secs(360);
/// The server hears of a series that goes on this often.
const REFRESH: Duration = Duration::from_secs(1800);
/// Requests that one object may cause at once.
const BURST: u32 = 25;
/// It may cause one more after this time.
const REFILL: Duration = Duration::from_secs(300);
/// Notices and objects that are remembered.
const MAX_KNOWN: usize = 4096;

/// Now, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) steady: Instant,
    pub(super) wall: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }
}

/// How often something happened, and when for the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Occurrences {
    pub(super) count: u32,
    pub(super) last: SystemTime,
}

/// A request: a new Event, or with a series an update of one that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Post {
    pub(super) name: String,
    pub(super) notice: Notice,
    pub(super) began: SystemTime,
    pub(super) series: Option<Occurrences>,
}

/// A notice that was heard of late.
#[derive(Debug)]
struct Known {
    name: String,
    began: SystemTime,
    count: u32,
    last: Moment,
    /// What the server knows, and since when.
    posted: u32,
    posted_at: Instant,
}

impl Known {
    fn post(&mut self, notice: &Notice, now: Moment) -> Post {
        (self.posted, self.posted_at) = (self.count, now.steady);
        let series = Occurrences { count: self.count, last: self.last.wall };
        Post { name: self.name.clone(), notice: notice.clone(), began: self.began, series: Some(series) }
    }

    fn due(&self) -> Instant {
        let end = self.last.steady + FINISH;
        if self.count > self.posted { end.min(self.posted_at + REFRESH) } else { end }
    }
}

/// Requests that an object may still cause.
#[derive(Debug)]
struct Bucket {
    left: u32,
    since: Instant,
}

impl Bucket {
    fn refill(&mut self, now: Instant) {
        let periods = now.saturating_duration_since(self.since).as_secs() / REFILL.as_secs();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(periods).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * periods };
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Series {
    known: BTreeMap<Notice, Known>,
    buckets: Buckets,
    last_number: u128,
}

/// What becomes of a notice.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is written.
    Post(Post),
    /// It is counted, and written later.
    Counted,
    /// There were too many about this object.
    TooMany,
}

impl Series {
    /// Takes a notice.
    pub(super) fn hear(&mut self, notice: &Notice, now: Moment) -> Heard {
        if let Some(known) = self.known.get_mut(notice) {
            known.count = known.count.saturating_add(1);
            known.last = now;
            if known.posted > 1 || !self.buckets.allow(&notice.regarding, now.steady) {
                return Heard::Counted;
            }
            return Heard::Post(known.post(notice, now));
        }
        if !self.buckets.allow(&notice.regarding, now.steady) {
            return Heard::TooMany;
        }
        if self.known.len() >= MAX_KNOWN {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last.steady);
            let oldest = oldest.map(|(notice, _)| notice.clone());
            oldest.and_then(|notice| self.known.remove(&notice));
        }
        let name = body::name(notice, self.number(now.wall));
        let (posted, posted_at, began) = (1, now.steady, now.wall);
        let known = Known { name: name.clone(), began, count: 1, last: now, posted, posted_at };
        self.known.insert(notice.clone(), known);
        Heard::Post(Post { name, notice: notice.clone(), began, series: None })
    }

    /// A number that no other Event of this process has; the time, as in client-go.
    fn number(&mut self, wall: SystemTime) -> u128 {
        let nanoseconds = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        self.last_number = nanoseconds.max(self.last_number + 1);
        self.last_number
    }

    /// When [`Series::due`] may have something to say.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.known.values().map(Known::due).min()
    }

    /// Series that go on or are over. The latter are forgotten.
    pub(super) fn due(&mut self, now: Moment) -> Vec<Post> {
        let mut posts = Vec::new();
        self.known.retain(|notice, known| {
            let is_over = now.steady >= known.last.steady + FINISH;
            if known.count > known.posted && now.steady >= known.due() {
                posts.push(known.post(notice, now));
            }
            !is_over
        });
        posts
    }
}

/// The buckets of all objects that are not quiet.
#[derive(Debug, Default)]
struct Buckets {
    of: BTreeMap<ObjectName, Bucket>,
    /// When quiet objects were last looked for.
    swept: Option<Instant>,
}

impl Buckets {
    /// Takes one request out of an object's bucket, if there is one left.
    fn allow(&mut self, object: &ObjectName, now: Instant) -> bool {
        if self.of.len() >= MAX_KNOWN && !self.of.contains_key(object) {
            self.sweep(now);
            if self.of.len() >= MAX_KNOWN {
                return false;
            }
        }
        let bucket = self.of.entry(object.clone()).or_insert(Bucket { left: BURST, since: now });
        bucket.refill(now);
        let is_allowed = bucket.left > 0;
        bucket.left = bucket.left.saturating_sub(1);
        is_allowed
    }

    /// Forgets full buckets; not more often than one could have become full.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|at| now.saturating_duration_since(at) < REFILL) {
            return;
        }
        self.swept = Some(now);
        self.of.retain(|_, bucket| {
            bucket.refill(now);
            bucket.left < BURST
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Severity;

    fn notice(object: &str, note: &str) -> Notice {
        Notice {
            regarding: ObjectName::new("Service", "ns", object),
            severity: Severity::Warning,
            reason: "Because",
            action: "Act",
            note: note.to_owned(),
        }
    }

    fn later(start: Moment, seconds: u64) -> Moment {
        let passed = Duration::from_secs(seconds);
        Moment { steady: start.steady + passed, wall: start.wall + passed }
    }

    fn count(heard: &Heard) -> Option<u32> {
        let Heard::Post(post) = heard else { return None };
        Some(post.series.as_ref().map_or(1, |series| series.count))
    }

    #[test]
    fn what_comes_again_is_counted_and_told_now_and_then() {
        let (mut series, start) = (Series::default(), Moment::now());
        let web = notice("web", "x");
        assert_eq!(count(&series.hear(&web, start)), Some(1));
        assert_eq!(count(&series.hear(&web, later(start, 1))), Some(2));
        for second in 2..2000 {
            assert_eq!(series.hear(&web, later(start, second)), Heard::Counted);
            let due = series.due(later(start, second));
            let counts: Vec<u32> = due.iter().filter_map(|p| p.series.as_ref()).map(|s| s.count).collect();
            assert_eq!(counts, if second == 1801 { vec![1802] } else { vec![] }, "after half an hour");
        }
        assert_eq!(series.next_due(), Some(later(start, 1999 + 360).steady));
        assert_eq!(series.due(later(start, 1999 + 359)), []);
        let end = series.due(later(start, 1999 + 360));
        assert_eq!(end.iter().filter_map(|p| p.series.as_ref()).map(|s| s.count).collect::<Vec<_>>(), [2000]);
        assert_eq!(series.next_due(), None);
        assert_eq!(count(&series.hear(&web, later(start, 9000))), Some(1), "a new Event");
    }

    #[test]
    fn a_loud_object_is_silenced_and_others_are_not() {
        let (mut series, start) = (Series::default(), Moment::now());
        let mut heard = |object: &str, note: usize, at: u64| {
            series.hear(&notice(object, &note.to_string()), later(start, at)) != Heard::TooMany
        };
        assert_eq!((0..1000).filter(|n| heard("loud", *n, 0)).count(), 25);
        assert!(heard("other", 0, 0));
        assert!(!heard("loud", 1000, 299));
        assert!(heard("loud", 1001, 300), "one more after five minutes");
        assert!(!heard("loud", 1002, 301));
        assert_eq!(
            (2000..3000).filter(|n| heard("loud", *n, 100_000)).count(),
            25,
            "never more than a bucket"
        );
    }

    #[test]
    fn a_wall_clock_that_jumps_changes_no_limit_and_no_name_comes_twice() {
        let (mut series, start) = (Series::default(), Moment::now());
        let hours = |n: u64| Duration::from_secs(n * 3600);
        let ago = |by| Moment { steady: start.steady, wall: start.wall - by };
        let ahead = |by| Moment { steady: start.steady, wall: start.wall + by };
        let jumps =
            [ahead(hours(7)), ago(hours(7)), start, ago(hours(500_000)), ahead(hours(500_000)), start];
        let mut names = std::collections::BTreeSet::new();
        let mut written = 0;
        for (note, now) in jumps.into_iter().cycle().take(600).enumerate() {
            if let Heard::Post(post) = series.hear(&notice("web", &note.to_string()), now) {
                names.insert(post.name);
                written += 1;
            }
            assert_eq!(series.due(now), [], "nothing is over, and nothing goes on");
        }
        assert_eq!((written, names.len()), (25, 25), "one bucket");
        assert_eq!(series.next_due(), Some(start.steady + FINISH));
    }

    #[test]
    fn memory_is_bounded_and_names_are_unique() {
        let (mut series, start) = (Series::default(), Moment::now());
        let mut names = std::collections::BTreeSet::new();
        for n in 0..3 * MAX_KNOWN {
            if let Heard::Post(post) = series.hear(&notice(&format!("s{n}"), "x"), start) {
                names.insert(post.name);
            }
        }
        assert_eq!(
            (names.len(), series.known.len(), series.buckets.of.len()),
            (MAX_KNOWN, MAX_KNOWN, MAX_KNOWN)
        );
        // Those that are quiet make room.
        assert!(count(&series.hear(&notice("new", "x"), later(start, 10_000))).is_some());
        assert!(series.known.len() <= MAX_KNOWN && series.buckets.of.len() < 10);
    }
}
