//! The board between those who see changes and the one thread that acts on them.
//!
//! It holds the latest of everything, not a queue: however long a commit takes, what waits behind it is bounded by the
//! cluster, and the next commit sees only the end result.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use switchyard_model::{Changes, Complaint, Event, Family, ObjectName, Pending, Tracker};

use crate::ledger::Seen;
use crate::sync::View;

/// What woke the loop.
#[derive(Debug)]
pub enum Wake {
    /// Something changed; see [`Board::take`].
    Work,
    /// Somebody harmed our rules; see [`Board::take_harm`].
    Harm,
    /// Somebody wants to know something; see [`Board::take_questions`].
    Question,
    /// The time is over.
    Time,
    /// The process ends.
    Stop,
}

/// Something that only the loop knows. It is called on the loop's thread, between two runs.
pub type Question = Box<dyn FnOnce(&View<'_>) + Send>;

/// Questions that may wait. Those who ask wait for the answer, and are few.
const QUESTIONS: usize = 32;

/// Too many questions wait already.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

#[derive(Default)]
struct Inner {
    tracker: Tracker,
    harmed: BTreeMap<Family, String>,
    complaints: BTreeMap<ObjectName, Vec<Complaint>>,
    new_complaints: bool,
    /// Something was posted since the loop last looked.
    is_posted: bool,
    /// Harm was posted since the loop last looked.
    is_harm_posted: bool,
    /// Something that settings depend on is another.
    has_new_facts: bool,
    is_stopping: bool,
    /// Families whose rules are in the kernel.
    written: BTreeSet<Family>,
    /// When the first of the changes that wait was seen.
    waiting_since: Option<Seen>,
    questions: Vec<Question>,
}

/// See the module.
#[derive(Default)]
pub struct Board {
    inner: Mutex<Inner>,
    posted: Condvar,
}

/// What an event meant for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// There is something to sync.
    pub is_work: bool,
    /// Changes that wait.
    pub pending: Pending,
}

impl Board {
    /// An empty board.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Takes in what a source saw. What it means is told to `announce` before the loop can take it: a sync may be over
    /// before this returns, and must not be followed by the news that something waits.
    pub fn post(&self, event: Event, announce: impl FnOnce(Posted)) {
        let mut inner = self.lock();
        if let Event::Complaints(object, list) = &event {
            if list.is_empty() {
                inner.complaints.remove(object);
            } else {
                inner.complaints.insert(object.clone(), list.clone());
            }
            inner.new_complaints = true;
        }
        let was_complete = inner.tracker.is_complete();
        inner.tracker.apply(event);
        let is_work = inner.tracker.has_changes() || was_complete != inner.tracker.is_complete();
        announce(Posted { is_work, pending: inner.tracker.pending() });
        if is_work {
            inner.waiting_since.get_or_insert_with(Seen::now);
        }
        if is_work || inner.new_complaints {
            inner.is_posted = true;
            self.posted.notify_all();
        }
    }

    /// Something that settings depend on, beside the Node, is another than before.
    pub fn look_again(&self) {
        let mut inner = self.lock();
        inner.has_new_facts = true;
        inner.is_posted = true;
        self.posted.notify_all();
    }

    /// True, once, after [`Self::look_again`].
    pub fn take_new_facts(&self) -> bool {
        std::mem::take(&mut self.lock().has_new_facts)
    }

    /// Somebody else changed our rules.
    pub fn harm(&self, families: impl IntoIterator<Item = Family>, by: &str) {
        let mut inner = self.lock();
        inner.harmed.extend(families.into_iter().map(|family| (family, by.to_owned())));
        inner.is_harm_posted = true;
        self.posted.notify_all();
    }

    /// Asks the loop. The answer takes as long as the run that is under way.
    pub fn ask(&self, question: Question) -> Result<(), TooMany> {
        let mut inner = self.lock();
        if inner.questions.len() >= QUESTIONS {
            return Err(TooMany);
        }
        inner.questions.push(question);
        self.posted.notify_all();
        Ok(())
    }

    /// Takes what waits for an answer.
    pub fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut self.lock().questions)
    }

    /// The process ends; the loop comes to an end after what it does now.
    pub fn stop(&self) {
        self.lock().is_stopping = true;
        self.posted.notify_all();
    }

    /// Waits for work, for the end, or until `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) -> Wake {
        let mut inner = self.lock();
        loop {
            if inner.is_stopping {
                return Wake::Stop;
            }
            if std::mem::take(&mut inner.is_posted) {
                return Wake::Work;
            }
            if std::mem::take(&mut inner.is_harm_posted) {
                return Wake::Harm;
            }
            if !inner.questions.is_empty() {
                return Wake::Question;
            }
            let Some(deadline) = deadline else {
                inner = self.posted.wait(inner).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) else {
                return Wake::Time;
            };
            inner = self.posted.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes what changed; `None` until the first lists are complete.
    pub fn take(&self) -> Option<Changes> {
        self.take_dated().map(|(changes, _)| changes)
    }

    /// The same, and when the first of it was seen.
    pub fn take_dated(&self) -> Option<(Changes, Option<Seen>)> {
        let mut inner = self.lock();
        let changes = inner.tracker.take()?;
        Some((changes, inner.waiting_since.take()))
    }

    /// Takes the families whose rules somebody else changed, and who, as far as is known.
    pub fn take_harm(&self) -> BTreeMap<Family, String> {
        std::mem::take(&mut self.lock().harmed)
    }

    /// Says that the rules of a family are in the kernel.
    pub fn wrote(&self, family: Family) {
        self.lock().written.insert(family);
    }

    /// True once the rules of a family were written: before that, none of them can be missing.
    pub fn has_written(&self, family: Family) -> bool {
        self.lock().written.contains(&family)
    }

    /// All complaints about objects, if they changed since the last call.
    pub fn complaints(&self) -> Option<BTreeMap<ObjectName, Vec<Complaint>>> {
        let mut inner = self.lock();
        std::mem::take(&mut inner.new_complaints).then(|| inner.complaints.clone())
    }

    /// True once Services and EndpointSlices are both listed.
    pub fn is_complete(&self) -> bool {
        self.lock().tracker.is_complete()
    }

    /// True if some family waits for repair.
    pub fn has_harm(&self) -> bool {
        !self.lock().harmed.is_empty()
    }

    /// True once the own Node, or at least its name, is known.
    pub fn knows_node(&self) -> bool {
        self.lock().tracker.knows_node()
    }

    /// True once the own Node has a range for its pods.
    pub fn knows_pod_ranges(&self) -> bool {
        self.lock().tracker.knows_pod_ranges()
    }

    /// True once the ServiceCIDRs have been told, or that there are none.
    pub fn knows_service_cidrs(&self) -> bool {
        self.lock().tracker.knows_service_cidrs()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves the values whole: every change is made before anything that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn is_work(board: &Board, event: Event) -> bool {
        let mut is_work = false;
        board.post(event, |posted| is_work = posted.is_work);
        is_work
    }

    #[test]
    fn the_loop_wakes_once_for_many_events() {
        let board = Board::new();
        assert!(!is_work(&board, Event::Services(vec![])));
        assert!(board.take().is_none(), "half a picture is never taken");
        assert!(is_work(&board, Event::Slices(vec![])));
        assert!(matches!(board.wait(None), Wake::Work));
        assert!(board.take().is_some());
        let soon = Some(Instant::now() + Duration::from_millis(5));
        assert!(matches!(board.wait(soon), Wake::Time));
        board.harm([Family::V4], "nft");
        assert!(matches!(board.wait(None), Wake::Harm));
        assert!(board.take().is_some_and(|changes| changes.ports.is_empty()));
        assert_eq!(board.take_harm().len(), 1, "harm waits until it is asked for");
        for _ in 0..QUESTIONS {
            assert_eq!(board.ask(Box::new(|_| {})), Ok(()));
        }
        assert_eq!(board.ask(Box::new(|_| {})), Err(TooMany));
        assert!(matches!(board.wait(None), Wake::Question));
        assert_eq!(board.take_questions().len(), QUESTIONS);
        board.stop();
        assert!(matches!(board.wait(None), Wake::Stop));
    }

    #[test]
    fn what_waits_is_announced_before_it_can_be_taken() {
        let board = Board::new();
        board.post(Event::Services(vec![]), |_| {});
        let taker = board.clone();
        let (send, receive) = std::sync::mpsc::channel();
        let sync = send.clone();
        let taking = thread::spawn(move || {
            while taker.take().is_none() {
                thread::yield_now();
            }
            sync.send("taken")
        });
        board.post(Event::Slices(vec![]), |_| {
            // As long as it takes for the other thread to be quicker, if it could be.
            thread::sleep(Duration::from_millis(20));
            send.send("announced").unwrap();
        });
        taking.join().unwrap().unwrap();
        assert_eq!(receive.iter().take(2).collect::<Vec<_>>(), ["announced", "taken"]);
    }

    #[test]
    fn complaints_are_replaced_and_cleared_by_object() {
        let board = Board::new();
        let object = ObjectName::new("Service", "ns", "web");
        let complaint = Complaint { object: object.clone(), problem: "port 0".into() };
        board.post(Event::Complaints(object.clone(), vec![complaint]), |_| {});
        assert_eq!(board.complaints().map(|c| c.len()), Some(1));
        assert!(board.complaints().is_none(), "nothing new");
        board.post(Event::Complaints(object, vec![]), |_| {});
        assert_eq!(board.complaints().map(|c| c.len()), Some(0));
    }

    #[test]
    fn ranges_of_cluster_ips_are_work_when_they_differ() {
        let board = Board::new();
        board.post(Event::Services(vec![]), |_| {});
        board.post(Event::Slices(vec![]), |_| {});
        assert!(board.take().is_some() && !board.knows_service_cidrs());
        assert!(!is_work(&board, Event::ServiceCidrs(vec![])), "none, as before");
        assert!(board.knows_service_cidrs());
        let ranges = || vec!["10.97.0.0/16".parse().unwrap(), "10.96.0.0/16".parse().unwrap()];
        assert!(is_work(&board, Event::ServiceCidrs(ranges())));
        let taken = board.take().and_then(|changes| changes.service_cidrs).unwrap();
        assert_eq!(
            taken.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.96.0.0/16", "10.97.0.0/16"]
        );
        assert!(!is_work(&board, Event::ServiceCidrs(ranges().into_iter().rev().collect())), "in any order");
        assert!(is_work(&board, Event::ServiceCidrs(vec![])), "all are gone");
    }
}
