//! The one who writes Events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

use super::series::{Heard, Moment, Post, Series};
use super::{Counts, Recorded, body};
use crate::cluster::{self, Trouble};

/// The server must answer within this time.
const ANSWER: Duration = Duration::from_secs(10);
/// How often an Event is tried, as by client-go.
const TRIES: u32 = 12;
/// The first rest between two tries, which doubles, and the longest.
const RETRY_REST: (Duration, Duration) = if cfg!(test) {
    (Duration::from_millis(1), Duration::from_millis(10))
} else {
    (Duration::from_secs(1), Duration::from_secs(10))
};
/// Rest after each request, so that a flood of Events is no flood of requests.
const REST: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 100 });

/// Writes what a [`super::Recorder`] takes.
#[derive(Debug)]
pub struct Poster {
    queue: mpsc::Receiver<Recorded>,
    instance: String,
    counts: Arc<Counts>,
    series: Series,
    /// Troubles that were told and have not ended.
    told: BTreeSet<&'static str>,
}

/// Where Events go, with the credentials that were read last.
struct Server {
    config: cluster::Config,
    client: Client,
}

impl Server {
    /// Reads the credentials again. If that fails, the watches tell why.
    async fn renew(&mut self) {
        if let Ok((client, _)) = cluster::client(&self.config).await {
            self.client = client;
        }
    }
}

impl Poster {
    pub(super) fn new(queue: mpsc::Receiver<Recorded>, instance: &str, counts: Arc<Counts>) -> Self {
        let (series, told) = (Series::default(), BTreeSet::new());
        Self { queue, instance: instance.to_owned(), counts, series, told }
    }

    /// Writes until every recorder is gone. A configuration that cannot work ends it: the watches tell why.
    pub async fn run(mut self, config: cluster::Config) {
        let mut server = match cluster::client(&config).await {
            Ok((client, _)) => Server { config, client },
            Err(error) => return debug!(%error, "no Events are written"),
        };
        loop {
            let due = self.series.next_due();
            let end = async {
                match due {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                recorded = self.queue.recv() => {
                    let Some(recorded) = recorded else { return };
                    self.take(&mut server, &recorded).await;
                    self.counts.open.fetch_sub(1, Ordering::Relaxed);
                }
                () = end => {
                    for post in self.series.due(Moment::now()) {
                        self.send(&mut server, post).await;
                    }
                }
            }
        }
    }

    async fn take(&mut self, server: &mut Server, Recorded { notice, at }: &Recorded) {
        if body::namespace(notice).is_none() {
            return;
        }
        match self.series.hear(notice, Moment { wall: *at, ..Moment::now() }) {
            Heard::Post(post) => self.send(server, post).await,
            Heard::Counted => {}
            Heard::TooMany => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Tries a request a bounded number of times.
    async fn send(&mut self, server: &mut Server, post: Post) {
        let (mut is_update, mut is_renewed) = (post.series.is_some(), false);
        for attempt in 1..=TRIES {
            let Some(request) = self.request(&post, is_update) else { return };
            let answer = timeout(ANSWER, server.client.request::<Value>(request)).await;
            let trouble = match answer {
                Ok(Ok(_)) => {
                    self.works();
                    break;
                }
                Ok(Err(error)) => Trouble::of(&error),
                Err(_) => Trouble::Silent,
            };
            match trouble {
                // They may have been replaced on disk.
                Trouble::Unauthorized if !is_renewed => {
                    server.renew().await;
                    is_renewed = true;
                }
                // The Event has outlived its time: another one goes on with its count.
                Trouble::NotFound if is_update => is_update = false,
                // It is there already: an answer of ours got lost.
                Trouble::Status(409, _) => break,
                Trouble::Forbidden | Trouble::Unauthorized | Trouble::NotFound | Trouble::Invalid(_) => {
                    self.fails(&trouble);
                    break;
                }
                // A server that is away, or busy, is told of by those who watch it.
                trouble => {
                    debug!(detail = trouble.detail(), "an Event cannot be written yet: {}", trouble.kind());
                    if attempt < TRIES {
                        sleep((RETRY_REST.0 * (1 << attempt.min(8))).min(RETRY_REST.1)).await;
                    }
                }
            }
        }
        sleep(REST).await;
    }

    fn request(&self, post: &Post, is_update: bool) -> Option<Request<Vec<u8>>> {
        let namespace = body::namespace(&post.notice)?;
        let path = body::path(namespace);
        let (method, path, kind, body) = match &post.series {
            Some(series) if is_update => {
                let path = format!("{path}/{}", post.name);
                (Method::PATCH, path, "application/merge-patch+json", body::update(series))
            }
            _ => (Method::POST, path, "application/json", body::whole(post, namespace, &self.instance)),
        };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        request.body(body.to_string().into_bytes()).ok()
    }

    fn fails(&mut self, trouble: &Trouble) {
        let (kind, detail) = (trouble.kind(), trouble.detail());
        if self.told.insert(kind) {
            warn!(
                detail,
                "Events cannot be written: {kind}; everything else goes on. The cluster role system:node-proxier allows it"
            );
        } else {
            debug!(detail, "an Event cannot be written: {kind}");
        }
    }

    fn works(&mut self) {
        if !std::mem::take(&mut self.told).is_empty() {
            info!("Events can be written again");
        }
    }
}
