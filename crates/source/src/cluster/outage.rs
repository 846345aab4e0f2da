//! What is wrong with the server, in words, once per outage.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::core::Status;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::observe::Pause;
use crate::convert::clip;

const UNAUTHORIZED: &str = "not authenticated (401)";
const UNREACHABLE: &str = "unreachable";

/// Why a request or a watch did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody listens there.
    Refused,
    /// No connection for another reason.
    Unreachable(String),
    /// No answer in time.
    Silent,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 410: the resource version is too old; a new list helps.
    Gone,
    /// 400 or 422: the server does not like the request.
    Invalid(String),
    /// 429 or 503, with the delay that the answer's body asks for.
    Busy(Duration),
    /// Any other status.
    Status(u16, String),
    /// The answer makes no sense.
    Garbled(String),
}

impl Trouble {
    /// Classifies an error of the client.
    pub(crate) fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::SerdeError(error) => Self::Garbled(clip(&error.to_string())),
            other => {
                let kind = root_io_error(other).map(io::Error::kind);
                match kind {
                    Some(io::ErrorKind::ConnectionRefused) => Self::Refused,
                    Some(io::ErrorKind::TimedOut) => Self::Silent,
                    _ => Self::Unreachable(clip(&innermost(other))),
                }
            }
        }
    }

    /// Classifies a status of the server.
    pub(super) fn of_status(status: &Status) -> Self {
        let asked = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        match status.code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            410 => Self::Gone,
            400 | 422 => Self::Invalid(clip(&status.message)),
            429 | 503 => Self::Busy(Duration::from_secs(asked.into())),
            // The client takes any JSON for a status.
            0 => Self::Garbled("neither an event nor a status".into()),
            code => Self::Status(code, clip(&status.message)),
        }
    }

    /// Troubles of one kind that many watches have at once are one outage.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::Unreachable(_) => UNREACHABLE,
            Self::Silent => "no answer in time",
            Self::Unauthorized => UNAUTHORIZED,
            Self::Forbidden => "forbidden (403)",
            Self::NotFound => "not found (404)",
            Self::Gone => "resource version too old (410)",
            Self::Invalid(_) => "request refused as invalid",
            Self::Busy(_) => "server busy",
            Self::Status(..) => "unexpected status",
            Self::Garbled(_) => "answer not understood",
        }
    }

    /// True if it concerns one kind of object only, so that each must be named.
    fn is_about_one_kind(&self) -> bool {
        matches!(self, Self::Forbidden | Self::NotFound | Self::Invalid(_) | Self::Garbled(_))
    }

    /// More than the kind tells.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Unreachable(text) | Self::Invalid(text) | Self::Garbled(text) => text.clone(),
            Self::Status(code, text) => format!("{code} {text}"),
            _ => String::new(),
        }
    }

    /// What an operator can do.
    pub(crate) fn advice(&self) -> &'static str {
        match self {
            Self::Refused | Self::Unreachable(_) | Self::Silent => {
                "check that the server runs, its address and CA in the kubeconfig or --master, and the network"
            }
            Self::Unauthorized => "check the token or certificate of the kubeconfig; it may have expired",
            Self::Forbidden => "check that the cluster role system:node-proxier is bound to this identity",
            Self::NotFound => "check that the address is that of a Kubernetes API server",
            Self::Gone => "a new list is fetched",
            Self::Invalid(_) | Self::Status(..) | Self::Garbled(_) => "see the server's log",
            Self::Busy(_) => "it is retried later",
        }
    }
}

/// The error at the end of the chain, as text.
fn innermost(error: &dyn StdError) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

fn root_io_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        found = error.downcast_ref::<io::Error>().or(found);
        next = error.source();
    }
    found
}

/// Troubles that new credentials, or another address, may end.
const DOUBTFUL: [&str; 2] = [UNAUTHORIZED, UNREACHABLE];

/// How long such a trouble lasts before the files are read again.
const RENEWAL: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 30_000 });

/// Who has which trouble now.
#[derive(Debug)]
pub(super) struct Outages {
    server: String,
    current: Mutex<BTreeMap<&'static str, &'static str>>,
    /// There was a trouble that new credentials may end.
    doubt: Notify,
    pause: Pause,
}

impl Outages {
    /// No trouble yet.
    pub(super) fn new(server: &str, pause: Pause) -> Self {
        Self { server: server.to_owned(), current: Mutex::default(), doubt: Notify::new(), pause }
    }

    /// For how long the server wants to be left alone because of this trouble.
    pub(super) fn asked(&self, trouble: &Trouble) -> Duration {
        match trouble {
            Trouble::Busy(asked) => self.pause.remaining().max(*asked),
            _ => Duration::ZERO,
        }
    }

    /// A watch failed: the first to have this trouble says so aloud.
    pub(super) fn failed(&self, resource: &'static str, trouble: &Trouble) {
        let (kind, detail, advice) = (trouble.kind(), trouble.detail(), trouble.advice());
        let server = &self.server;
        if DOUBTFUL.contains(&kind) {
            self.doubt.notify_one();
        }
        if *trouble == Trouble::Gone {
            debug!(%server, resource, kind, "{advice}");
        } else if self.is_first(resource, trouble) {
            warn!(%server, resource, detail, "API server: {kind}; {advice}; retrying, rules stay as they are");
        } else {
            debug!(%server, resource, detail, "API server: {kind}; retrying");
        }
    }

    /// Waits until a trouble has lasted that credentials or an address in old files may be the cause of.
    pub(super) async fn lasts(&self) {
        loop {
            self.doubt.notified().await;
            sleep(RENEWAL).await;
            let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            if current.values().any(|kind| DOUBTFUL.contains(kind)) {
                return;
            }
        }
    }

    fn is_first(&self, resource: &'static str, trouble: &Trouble) -> bool {
        let kind = trouble.kind();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = if trouble.is_about_one_kind() {
            current.get(resource) == Some(&kind)
        } else {
            current.values().any(|&known| known == kind)
        };
        current.insert(resource, kind);
        !is_known
    }

    /// A watch works; the last to recover from a trouble says so.
    pub(super) fn recovered(&self, resource: &'static str) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = current.remove(resource)
            && !current.values().any(|&known| known == kind)
        {
            info!(server = %self.server, resource, was = kind, "the API server answers again");
        }
    }
}

/// The delay before the next attempt: doubling from 100 ms to 30 s, of which a random half is taken off so that the
/// nodes of a cluster do not come back all at once.
pub(super) fn delay(attempt: u32, random: u64) -> Duration {
    let full = (100_u64 << attempt.min(16)).min(30_000);
    Duration::from_millis(full / 2 + random % (full / 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_half_a_minute() {
        assert_eq!(delay(0, 0), Duration::from_millis(50));
        assert_eq!(delay(0, 50), Duration::from_millis(100));
        assert_eq!(delay(u32::MAX, 0), Duration::from_secs(15));
        for random in [0, 1, 15_000, u64::MAX] {
            assert!(delay(40, random) <= Duration::from_secs(30));
        }
    }

    #[test]
    fn an_outage_is_told_once() {
        let outages = Outages::new("s", Pause::default());
        assert!(outages.is_first("services", &Trouble::Refused));
        assert!(!outages.is_first("services", &Trouble::Refused));
        assert!(!outages.is_first("nodes", &Trouble::Refused), "the same outage");
        outages.recovered("services");
        outages.recovered("nodes");
        assert!(outages.is_first("services", &Trouble::Refused), "the next outage");
        assert!(outages.is_first("services", &Trouble::Forbidden));
        assert!(outages.is_first("nodes", &Trouble::Forbidden), "another role");
    }
}
