//! Proxy health: what `/healthz` and `/livez` answer.
//!
//! In: marks from the loop (queued, updated, failed) per IP family, node eligibility, and the time of each. Out:
//! [`Answer`], a status and kube-proxy's JSON body, followed by our own `lastError`.
//!
//! Invariants
//! - A family is unhealthy only if it has reported once and a change has been waiting for at least twice the sync
//!   period. The mark of the oldest waiting change is never moved by a newer one.
//! - `/healthz` is 200 if the proxy is healthy and the node may get new connections; `/livez` ignores the node.
//! - An answer with 200 says "now" in its top-level `lastUpdated`, whenever the last sync was: clients of old
//!   releases take an old time for a dead proxy.
//! - `lastError` is there while a family's last sync failed, even if the family still counts as healthy.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use switchyard_model::{Family, Node};

use crate::Moment;
use crate::moment::rfc3339;

#[cfg(test)]
mod tests;

/// Longest `lastError`, in characters.
const ERROR_CHARS: usize = 500;

/// Whether load balancers may send new connections to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eligible {
    /// They may.
    Yes,
    /// The node is unknown, being deleted, or marked by the cluster autoscaler.
    No,
}

impl From<&Node> for Eligible {
    fn from(node: &Node) -> Self {
        if node.is_eligible() { Self::Yes } else { Self::No }
    }
}

/// Which of the two questions was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `/healthz`: should this node get traffic?
    Healthz,
    /// `/livez`: does the proxy work?
    Livez,
}

/// The two statuses that a health check can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// 200.
    Ok,
    /// 503.
    Unavailable,
}

impl Verdict {
    /// The HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Unavailable => 503,
        }
    }

    pub(crate) fn when(good: bool) -> Self {
        if good { Self::Ok } else { Self::Unavailable }
    }
}

/// What to send back to a prober.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub verdict: Verdict,
    /// Compact JSON without a newline at the end.
    pub body: String,
}

/// The proxy's health. Shared between the loop, which marks, and the servers, which ask.
#[derive(Debug)]
pub struct ProxyHealth {
    timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    families: BTreeMap<Family, Marks>,
    is_node_eligible: bool,
}

#[derive(Debug, Default)]
struct Marks {
    updated: Option<Moment>,
    queued: Option<Moment>,
    failure: Option<String>,
}

impl ProxyHealth {
    /// Health of a proxy that syncs at least once per `sync_period`. Nothing has been reported and the node is not
    /// eligible yet.
    pub fn new(sync_period: Duration) -> Self {
        Self { timeout: sync_period.saturating_mul(2), state: Mutex::default() }
    }

    /// A change waits to be written. Only the oldest waiting change counts.
    pub fn queued(&self, family: Family, now: Moment) {
        self.state().families.entry(family).or_default().queued.get_or_insert(now);
    }

    /// A sync succeeded, or the sync loop started: nothing waits any more and no failure is left.
    pub fn updated(&self, family: Family, now: Moment) {
        let marks = Marks { updated: Some(now), queued: None, failure: None };
        self.state().families.insert(family, marks);
    }

    /// A sync failed. `text` names object and cause; whatever it holds, it is cut and escaped before it is shown.
    pub fn failed(&self, family: Family, text: &str, now: Moment) {
        let text = format!("{} {family}: {}", rfc3339(Some(now)), cut(text, ERROR_CHARS));
        self.state().families.entry(family).or_default().failure = Some(text);
    }

    /// The node object was seen.
    pub fn node_eligible(&self, eligible: Eligible) {
        self.state().is_node_eligible = eligible == Eligible::Yes;
    }

    /// Proxy health alone, as `/livez` and the per-service health checks see it.
    pub fn is_healthy(&self, now: Moment) -> bool {
        self.state().families.values().all(|marks| marks.is_healthy(self.timeout, now))
    }

    /// The answer to a probe.
    pub fn answer(&self, probe: Probe, now: Moment) -> Answer {
        let state = self.state();
        let status: BTreeMap<_, _> = state
            .families
            .iter()
            .filter(|(_, marks)| marks.updated.is_some())
            .map(|(family, marks)| (family.as_str(), marks.status(self.timeout, now)))
            .collect();
        let healthy = status.values().all(|family| family.healthy);
        let verdict = Verdict::when(healthy && (probe == Probe::Livez || state.is_node_eligible));
        let newest = state.families.values().filter_map(|marks| marks.updated);
        let newest = newest.reduce(|a, b| if b.is_after(a) { b } else { a });
        let body = Body {
            last_updated: rfc3339(if verdict == Verdict::Ok { Some(now) } else { newest }),
            current_time: rfc3339(Some(now)),
            node_eligible: (probe == Probe::Healthz).then_some(state.is_node_eligible),
            healthy,
            status,
            last_error: state.last_error(),
        };
        Answer { verdict, body: serde_json::to_string(&body).unwrap_or_default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every update is a single assignment, so a panic elsewhere cannot leave half of one behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn last_error(&self) -> Option<String> {
        let failures: Vec<_> = self.families.values().filter_map(|marks| marks.failure.as_deref()).collect();
        let share = ERROR_CHARS / failures.len().max(1) - 2;
        let shown: Vec<_> = failures.iter().map(|text| cut(text, share)).collect();
        (!shown.is_empty()).then(|| shown.join("; "))
    }
}

impl Marks {
    /// A family that never reported is starting and counts as healthy, whatever waits for it.
    fn is_healthy(&self, timeout: Duration, now: Moment) -> bool {
        self.updated.is_none() || self.queued.is_none_or(|queued| now.since(queued) < timeout)
    }

    fn status(&self, timeout: Duration, now: Moment) -> FamilyStatus {
        FamilyStatus { last_updated: rfc3339(self.updated), healthy: self.is_healthy(timeout, now) }
    }
}

/// The JSON body; the order of the fields is part of the contract.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    last_updated: String,
    current_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    healthy: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    status: BTreeMap<&'static str, FamilyStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyStatus {
    last_updated: String,
    healthy: bool,
}

/// At most `chars` characters, with an ellipsis if something was cut.
fn cut(text: &str, chars: usize) -> String {
    if text.chars().nth(chars).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}
