//! Sends requests for a row and compares the answers with what the tracer expects.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use switchyard_lab::{Answer as Heard, Dial, Host};
use switchyard_model::Protocol;
use switchyard_plan::trace::{Answer, Seen};

use super::rows::Row;

/// Requests per row and round.
const REQUESTS: usize = 10;
/// A request that should be dropped is given up after this.
const PATIENCE: Duration = Duration::from_millis(300);

/// What came of a row's requests.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) row: Row,
    /// How often each pod answered.
    pub(super) answered: BTreeMap<String, usize>,
    /// From which addresses they saw the requests come.
    pub(super) seen: BTreeSet<IpAddr>,
    /// How often nobody did, by what was heard instead.
    pub(super) unanswered: BTreeMap<&'static str, usize>,
    /// What is wrong, if something is.
    pub(super) wrong: Option<String>,
}

impl Outcome {
    pub(super) fn is_right(&self) -> bool {
        self.wrong.is_none()
    }
}

/// Requests and judges. `name_of` is the name of the pod with an address.
pub(super) fn request(row: Row, from: &Host, name_of: impl Fn(IpAddr) -> Option<String>) -> Outcome {
    let dial = match row.protocol {
        Protocol::Udp => Dial::udp(row.to),
        Protocol::Tcp | Protocol::Sctp => Dial::tcp(row.to),
    };
    let is_answer_due = matches!(row.expected, Answer::Endpoints(_));
    let dial = if is_answer_due { dial } else { dial.within(PATIENCE) };
    let mut outcome = Outcome {
        row,
        answered: BTreeMap::new(),
        seen: BTreeSet::new(),
        unanswered: BTreeMap::new(),
        wrong: None,
    };
    let requests = if is_answer_due { REQUESTS } else { 1 };
    for _ in 0..requests {
        match from.dial(&dial) {
            Heard::Answered { name, seen } => {
                *outcome.answered.entry(name).or_default() += 1;
                outcome.seen.insert(seen.ip());
            }
            Heard::Refused | Heard::Unreachable(_) => *outcome.unanswered.entry("refused").or_default() += 1,
            Heard::Timeout => *outcome.unanswered.entry("no answer").or_default() += 1,
            Heard::Other(_) => *outcome.unanswered.entry("error").or_default() += 1,
        }
    }
    outcome.wrong = judge(&outcome, from, name_of);
    outcome
}

fn judge(outcome: &Outcome, from: &Host, name_of: impl Fn(IpAddr) -> Option<String>) -> Option<String> {
    let endpoints = match &outcome.row.expected {
        Answer::Endpoints(endpoints) => endpoints,
        Answer::Reject if outcome.unanswered.contains_key("refused") => return None,
        Answer::Drop | Answer::Untouched if outcome.answered.is_empty() => return None,
        other => return Some(format!("expected {other:?}")),
    };
    if !outcome.unanswered.is_empty() {
        return Some("some requests were not answered".into());
    }
    let expected: BTreeSet<String> = endpoints.keys().filter_map(|e| name_of(e.ip())).collect();
    if let Some(stranger) = outcome.answered.keys().find(|name| !expected.contains(*name)) {
        return Some(format!("{stranger} must not answer"));
    }
    if outcome.row.is_sticky && outcome.answered.len() > 1 {
        return Some("a sticky client was moved".into());
    }
    let own = |ip: &IpAddr| *ip == from.ip(switchyard_lab::Family::of(*ip));
    let kept = endpoints.values().all(|seen| *seen == Seen::Client);
    let replaced = endpoints.values().all(|seen| *seen == Seen::Node);
    if (kept && !outcome.seen.iter().all(own)) || (replaced && outcome.seen.iter().any(own)) {
        return Some("seen from the wrong address".into());
    }
    None
}
