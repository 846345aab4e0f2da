//! List, watch, resume: the life of one watch.
//!
//! In: an API path with selectors. Out: calls of a [`Collector`].
//!
//! Invariants
//! - `begin`, then `add` for each object, then `finish`: only a list that came to its end is finished.
//! - After `finish`, every change since that list reaches `apply` or `delete`, or a new list is begun.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::list::{self, Age, ListFormat};
use super::outage::{Outages, Trouble, delay};
use super::watched::Watched;
use crate::wire::Object;

/// The server must begin its answer within this time.
pub(super) const ANSWER: Duration = Duration::from_secs(30);
/// How much later than it should a watch may end.
const LATE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// A watch that lived for so long is a working one.
const SETTLED: Duration = Duration::from_secs(1);
/// The server ends a watch between this many seconds and [`WATCH_SPREAD`] more.
const WATCH_SECONDS: u32 = 240;
const WATCH_SPREAD: u32 = 50;
/// Servers send a bookmark every minute: a watch that is silent for longer is dead, whatever the connection looks like.
const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 4 } else { 90 });
/// The longest delay that the server may ask for.
const MAX_ASKED: Duration = Duration::from_secs(30);
/// A watch that cannot be resumed this many times in a row is replaced by a list.
const FAILURES_BEFORE_LIST: u32 = 4;

/// What becomes of the objects.
pub(super) trait Collector {
    /// The object.
    type Wire: Object;

    /// A list begins; an unfinished one is void.
    fn begin(&mut self);
    /// An object of the list; the same object may come again, newer.
    fn add(&mut self, wire: &Self::Wire);
    /// The list is complete.
    fn finish(&mut self);
    /// An object is new or changed.
    fn apply(&mut self, wire: &Self::Wire);
    /// An object is gone.
    fn delete(&mut self, wire: &Self::Wire);
}

/// Which objects are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Label selector.
    pub(super) labels: Option<String>,
    /// Field selector.
    pub(super) fields: Option<String>,
    /// Field selector that only spares work; it is dropped if the server does not know it.
    pub(super) optional_fields: Option<String>,
}

impl Selection {
    /// The field selector to ask with.
    pub(super) fn field_selector(&self) -> Option<String> {
        self.optional_fields.clone().or_else(|| self.fields.clone())
    }
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Never.
    Endless,
    /// When the server refuses the first list (403) or does not know it (404).
    UntilRefused,
    /// When the server says that it has no such API group.
    UntilUnknown,
}

/// Follows all objects of one kind.
pub(super) struct Follower<C: Collector> {
    client: Client,
    api: Api<Watched<C::Wire>>,
    selection: Selection,
    collector: C,
    outages: Arc<Outages>,
    format: ListFormat,
    /// Where to resume; nothing if a list is needed.
    version: Option<String>,
    has_listed: bool,
    failures: u32,
    random: RandomState,
}

impl<C: Collector> Follower<C> {
    /// Nothing is asked for yet.
    pub(super) fn new(
        client: &Client,
        format: ListFormat,
        selection: Selection,
        collector: C,
        outages: Arc<Outages>,
    ) -> Self {
        Self {
            client: client.clone(),
            api: Api::all(client.clone()),
            selection,
            collector,
            outages,
            format,
            version: None,
            has_listed: false,
            failures: 0,
            random: RandomState::new(),
        }
    }

    /// Runs until a trouble is a reason to give up.
    pub(super) async fn run(mut self, patience: Patience) {
        loop {
            let Err(trouble) = self.session().await else { continue };
            if self.version.is_none() && self.gives_up(patience, &trouble).await {
                return;
            }
            if matches!(trouble, Trouble::Invalid(_))
                && self.version.is_none()
                && self.lowers_demands(&trouble)
            {
                continue;
            }
            if self.needs_list(&trouble) {
                self.version = None;
            }
            self.outages.failed(C::Wire::PLURAL, &trouble);
            let asked = self.outages.asked(&trouble).min(MAX_ASKED);
            let random = self.random.hash_one(self.failures);
            sleep(delay(self.failures, random).max(asked)).await;
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// A list was refused as invalid: asks for less, if there is less to ask for.
    fn lowers_demands(&mut self, trouble: &Trouble) -> bool {
        let dropped = self.selection.optional_fields.take();
        if dropped.is_some() {
            let resource = C::Wire::PLURAL;
            debug!(resource, ?trouble, "the server does not know the field selector; going on without it");
        }
        dropped.is_some()
    }

    /// True if resuming the watch is hopeless.
    fn needs_list(&self, trouble: &Trouble) -> bool {
        match trouble {
            Trouble::Gone | Trouble::Garbled(_) | Trouble::Invalid(_) => true,
            // A server that was restored from a backup does not know our version for a long time.
            Trouble::Status(..) => self.failures >= FAILURES_BEFORE_LIST,
            _ => false,
        }
    }

    async fn gives_up(&self, patience: Patience, trouble: &Trouble) -> bool {
        match patience {
            Patience::Endless => false,
            Patience::UntilRefused => {
                !self.has_listed && matches!(trouble, Trouble::NotFound | Trouble::Forbidden)
            }
            Patience::UntilUnknown => *trouble == Trouble::NotFound && !self.is_group_known().await,
        }
    }

    /// A 404 may come from something in between; only the list of API groups decides.
    async fn is_group_known(&self) -> bool {
        let Ok(Ok(list)) = timeout(ANSWER, self.client.list_api_groups()).await else { return true };
        let mut groups = list.groups.iter().filter(|group| group.name == C::Wire::GROUP);
        groups.any(|group| group.versions.iter().any(|version| version.version == "v1"))
    }

    /// Something good came from the server.
    fn works(&mut self) {
        self.failures = 0;
        self.outages.recovered(C::Wire::PLURAL);
    }

    /// One watch, with a list before it if there is nothing to resume. Ends well when the server ends the watch.
    async fn session(&mut self) -> Result<(), Trouble> {
        if self.version.is_none() {
            self.list().await?;
        }
        let parameters = self.watch_parameters();
        let version = self.version.clone().unwrap_or_default();
        let answer = self.api.watch(&parameters, &version);
        let answer = timeout(ANSWER, answer).await.map_err(|_| Trouble::Silent)?;
        let mut stream = pin!(answer.map_err(|error| Trouble::of(&error))?);
        self.watch(&mut stream, parameters.timeout).await
    }

    async fn list(&mut self) -> Result<(), Trouble> {
        let age = if self.has_listed { Age::Now } else { Age::Any };
        let began = Instant::now();
        let version =
            list::fetch(&self.client, &self.selection, age, self.format, &mut self.collector).await?;
        self.version = Some(version);
        debug!(kind = C::Wire::KIND, took = ?began.elapsed(), "listed");
        self.collector.finish();
        self.has_listed = true;
        self.works();
        Ok(())
    }

    fn watch_parameters(&self) -> WatchParams {
        // Spread, so that the watches of a cluster do not end all at once.
        let random = self.random.hash_one(&self.version);
        let spread = u32::try_from(random % u64::from(WATCH_SPREAD)).unwrap_or(0);
        WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.field_selector(),
            timeout: Some(WATCH_SECONDS + spread),
            bookmarks: true,
            send_initial_events: false,
        }
    }

    /// Takes changes until the server ends the watch.
    async fn watch<S>(&mut self, stream: &mut S, seconds: Option<u32>) -> Result<(), Trouble>
    where
        S: Stream<Item = kube::Result<WatchEvent<Watched<C::Wire>>>> + Unpin,
    {
        let start = Instant::now();
        let mut is_settled = false;
        // The server ends the watch in time; if even that does not come, the connection is dead.
        let end = start + Duration::from_secs(seconds.unwrap_or(WATCH_SECONDS).into()) + LATE;
        let mut heard = start;
        loop {
            let item = tokio::select! {
                item = stream.next() => item,
                () = sleep_until(start + SETTLED), if !is_settled => {
                    is_settled = true;
                    self.works();
                    continue;
                }
                () = sleep_until(end.min(heard + SILENCE)) => {
                    debug!(resource = C::Wire::PLURAL, "the watch is silent; it is resumed on a new connection");
                    None
                }
            };
            heard = Instant::now();
            match item {
                Some(event) => self.change(event.map_err(|error| Trouble::of(&error))?)?,
                None if start.elapsed() < SETTLED => {
                    return Err(Trouble::Unreachable("the watch was cut off at once".into()));
                }
                None => return Ok(()),
            }
        }
    }

    /// Takes one change.
    fn change(&mut self, event: WatchEvent<Watched<C::Wire>>) -> Result<(), Trouble> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.collector.apply(&object.object);
                object.resource_version().to_owned()
            }
            WatchEvent::Deleted(object) => {
                self.collector.delete(&object.object);
                object.resource_version().to_owned()
            }
            WatchEvent::Bookmark(mark) => mark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(Trouble::of_status(&status)),
        };
        // Without a version there is nothing to resume from; the old one is still right, only older.
        if !version.is_empty() {
            self.version = Some(version);
        }
        self.works();
        Ok(())
    }
}
