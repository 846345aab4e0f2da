//! Changes as they happen, as server-sent events, for whoever looks.
//!
//! In: listeners, each with the number of the last change that it knows, and somebody who knows changes. Out: one event per change.
//!
//! Invariants
//! - One task asks for all listeners, twice a second, and only while there is one: how often the ledger is read depends neither on the
//!   number of listeners nor on the number of changes.
//! - Listeners, the changes in a message and the messages that wait for a slow listener are bounded. Nothing is lost: what a listener
//!   could not take is sent with a later message, from the ledger.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::changes::event;
use super::{Changes, Dashboard};

/// Listeners at a time. Each is a person with a browser.
const LISTENERS: usize = 16;
/// Messages that may wait for one listener.
const WAITING: usize = 4;
/// Changes in one message.
const BATCH: usize = 64;
/// Rest between two looks at the ledger.
const PERIOD: Duration = Duration::from_millis(500);
/// Looks without a change after which a sign of life is sent, so that a dead connection is noticed.
const QUIET_LOOKS: u32 = 30;

/// Browsers come back after this long, and the first bytes show that somebody is there.
const HELLO: &str = "retry: 2000\n: listening\n\n";
const ALIVE: &str = ": nothing new\n\n";
/// The numbers of changes began again: another process answers than before.
const RESTART: &str = "event: restart\ndata: -\n\n";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Feed {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    listeners: Vec<Listener>,
    /// Whether the task runs.
    is_followed: bool,
}

#[derive(Debug)]
struct Listener {
    /// The last change that it was told.
    after: u64,
    messages: mpsc::Sender<Bytes>,
    quiet_looks: u32,
}

impl Feed {
    /// A new listener; nothing if there are too many. Must be called within a runtime.
    pub(super) fn listen(
        self: &Arc<Self>,
        after: u64,
        dashboard: &Arc<dyn Dashboard>,
    ) -> Option<mpsc::Receiver<Bytes>> {
        let (messages, listener) = mpsc::channel(WAITING);
        let mut state = self.lock();
        state.listeners.retain(|listener| !listener.messages.is_closed());
        if state.listeners.len() >= LISTENERS
            || messages.try_send(Bytes::from_static(HELLO.as_bytes())).is_err()
        {
            return None;
        }
        state.listeners.push(Listener { after, messages, quiet_looks: 0 });
        if !std::mem::replace(&mut state.is_followed, true) {
            tokio::spawn(follow(self.clone(), dashboard.clone()));
        }
        Some(listener)
    }

    /// What the listener that is furthest behind knows; nothing if there is none, and then the task is over.
    fn furthest(&self) -> Option<u64> {
        let mut state = self.lock();
        state.listeners.retain(|listener| !listener.messages.is_closed());
        let after = state.listeners.iter().map(|listener| listener.after).min();
        state.is_followed = after.is_some();
        after
    }

    fn tell(&self, changes: &Changes) {
        self.lock().listeners.iter_mut().for_each(|listener| listener.tell(changes));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    fn tell(&mut self, changes: &Changes) {
        if changes.last < self.after {
            return self.send(RESTART.to_owned(), changes.last);
        }
        let news = changes.entries.iter().filter(|change| change.number > self.after).take(BATCH);
        let (mut text, mut last) = (String::new(), self.after);
        for change in news {
            text.push_str(&format!("id: {}\ndata: {}\n\n", change.number, event(change)));
            last = change.number;
        }
        self.quiet_looks += 1;
        if !text.is_empty() {
            self.send(text, last);
        } else if self.quiet_looks >= QUIET_LOOKS {
            self.send(ALIVE.to_owned(), last);
        }
    }

    /// What is not taken is sent again later.
    fn send(&mut self, text: String, last: u64) {
        if self.messages.try_send(Bytes::from(text)).is_ok() {
            self.after = last;
            self.quiet_looks = 0;
        }
    }
}

async fn follow(feed: Arc<Feed>, dashboard: Arc<dyn Dashboard>) {
    while let Some(after) = feed.furthest() {
        // A loop that is busy is asked again, and pages say so.
        if let Ok(changes) = dashboard.changes(after).await {
            feed.tell(&changes);
        }
        tokio::time::sleep(PERIOD).await;
    }
}
