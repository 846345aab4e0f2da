//! Kubernetes Events: what an operator should find with `kubectl get events`.
//!
//! In: [`Notice`]s from any thread. Out: objects of `events.k8s.io/v1`, written as kube-proxy's recorder writes its own.
//!
//! Invariants
//! - Recording never waits: the queue is bounded, and what does not fit is lost and counted.
//! - One object can cause at most 25 requests at once, then one every five minutes. The same notice again is a series: the
//!   count of the Event that is there goes up.
//! - Nothing is tried for ever, and what the server refuses is told once.
//! - Text from outside is made printable and cut to what the API allows; a name that is no name gets into no URL.

mod body;
mod post;
mod series;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use switchyard_model::ObjectName;
use tokio::sync::mpsc;

pub use post::Poster;

/// Notices that wait.
const QUEUE: usize = 256;
/// How often a recorder is asked whether everything is written.
const LOOK: Duration = Duration::from_millis(10);

/// An Event's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// What it is about. Events about things that the API does not know, like files, are not written.
    pub regarding: ObjectName,
    /// How bad it is.
    pub severity: Severity,
    /// Why, in one word.
    pub reason: &'static str,
    /// What was done or tried, in one word.
    pub action: &'static str,
    /// The rest, in words.
    pub note: String,
}

/// A notice and when it was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What happened.
    pub notice: Notice,
    /// When.
    pub at: SystemTime,
}

/// Takes notices.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    queue: Option<mpsc::Sender<Recorded>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Notices that are not done with.
    open: AtomicUsize,
    /// Notices that found the queue full, or their object too loud.
    lost: AtomicU64,
}

impl Recorder {
    /// A recorder for a node without an API server: nobody would read it.
    pub fn silent() -> Self {
        Self::default()
    }

    /// A recorder whose notices somebody else takes.
    pub fn to(queue: mpsc::Sender<Recorded>) -> Self {
        Self { queue: Some(queue), counts: Arc::default() }
    }

    /// Takes a notice; never waits.
    pub fn record(&self, notice: Notice) {
        let Some(queue) = &self.queue else { return };
        self.counts.open.fetch_add(1, Ordering::Relaxed);
        if queue.try_send(Recorded { notice, at: SystemTime::now() }).is_err() {
            self.counts.open.fetch_sub(1, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many notices were lost, because there were too many at once or too many about one object.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Waits until everything is written or given up, or until the time is over.
    pub async fn settle(&self, patience: Duration) {
        let end = tokio::time::Instant::now() + patience;
        while self.counts.open.load(Ordering::Relaxed) > 0 && tokio::time::Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// A recorder and the one who writes for it. `instance` tells nodes apart; kube-proxy's is `kube-proxy-<host name>`.
pub fn recorder(instance: &str) -> (Recorder, Poster) {
    let (send, receive) = mpsc::channel(QUEUE);
    let counts = Arc::<Counts>::default();
    let poster = Poster::new(receive, instance, counts.clone());
    (Recorder { queue: Some(send), counts }, poster)
}
