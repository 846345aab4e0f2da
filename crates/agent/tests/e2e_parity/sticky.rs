//! Flows to Services with affinity: each client must stay with its endpoint.
//!
//! In: a pair of stages and a probe. Out: what became of it with each. A client with many addresses finds all endpoints; its outcomes are
//! compared as they are. One with a single address finds the one that chance gave it: it must be an endpoint of the Service, and where
//! both are on one node, they must see the same address.

use std::net::IpAddr;
use std::time::Duration;

use switchyard_lab::Answer;
use switchyard_lab::scenario::address::Symbol;

use crate::packets::{ANSWERED, Outcomes, Pair, is_enough, outcome};
use crate::peers::Kind;
use crate::probes::Probe;
use crate::sources;

/// How often a client dials.
const TRIES: usize = 3;

/// See the module.
pub(crate) fn try_out(pair: Pair<'_>, probe: &Probe, patience: Duration) -> [Outcomes; 2] {
    let lent: Vec<IpAddr> = sources::of(probe.from, probe.to.ip()).collect();
    if lent.is_empty() {
        of_one_address(pair, probe, patience)
    } else {
        of_many(pair, probe, &lent, patience)
    }
}

fn of_many(pair: Pair<'_>, probe: &Probe, lent: &[IpAddr], patience: Duration) -> [Outcomes; 2] {
    let mut outcomes = [Outcomes::new(), Outcomes::new()];
    for (number, source) in (1..).zip(lent) {
        for (side, set) in Pair::SIDES.into_iter().zip(&mut outcomes) {
            let answers = dial(pair, side, probe, Some(*source), patience);
            set.insert(in_words(answers.iter().map(|answer| outcome(answer, probe, Some(*source)))));
        }
        if is_enough(number, &outcomes, probe.service.endpoints) {
            break;
        }
    }
    outcomes
}

fn of_one_address(pair: Pair<'_>, probe: &Probe, patience: Duration) -> [Outcomes; 2] {
    let answers = Pair::SIDES.map(|side| dial(pair, side, probe, None, patience));
    // What is seen depends on where the endpoint is; and whoever is led back to itself is masqueraded, others need not be.
    let [theirs, ours] = answers.each_ref().map(|answers| answers.first()?.name());
    let is_led_back = |pod: Option<&str>| pod.is_some_and(|pod| is_named(probe.from, pod));
    let is_seen_alike = theirs.map(node_of) == ours.map(node_of) && is_led_back(theirs) == is_led_back(ours);
    answers.map(|answers| Outcomes::from([of_one_client(&answers, probe, is_seen_alike)]))
}

/// The beginning of an echo server's name, which says on which node it is.
fn node_of(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(node, _)| node)
}

/// Whether an echo server with this name is the pod.
fn is_named(symbol: Symbol, name: &str) -> bool {
    matches!(symbol, Symbol::Pod(node, pod) if format!("pod-{node}-{pod}") == name)
}

/// Once, and some more times if there is an answer.
fn dial(
    pair: Pair<'_>,
    side: Kind,
    probe: &Probe,
    source: Option<IpAddr>,
    patience: Duration,
) -> Vec<Answer> {
    let first = pair.dial(side, probe, source, patience);
    let more = if first.name().is_some() { TRIES - 1 } else { 0 };
    let again = (0..more).map(|_| pair.dial(side, probe, source, patience));
    [first].into_iter().chain(again).collect()
}

/// What was always the same, or how it changed.
fn in_words(tries: impl Iterator<Item = String>) -> String {
    let mut different = tries.collect::<Outcomes>().into_iter();
    match (different.next().unwrap_or_default(), different.next()) {
        (first, Some(second)) => format!("not sticky: {first}, then {second}"),
        (only, None) => only,
    }
}

/// Without the name of the endpoint that a client stays with.
fn of_one_client(answers: &[Answer], probe: &Probe, is_seen_alike: bool) -> String {
    let words = in_words(answers.iter().map(|answer| outcome(answer, probe, None)));
    match answers.first() {
        Some(Answer::Answered { name, .. }) if words.starts_with(ANSWERED) => {
            if !probe.service.pods.iter().any(|endpoint| is_named(*endpoint, name)) {
                return format!("{words}, which is no endpoint of it");
            }
            let seen = words.rsplit_once(", ").map(|(_, seen)| seen).filter(|_| is_seen_alike);
            format!("{ANSWERED} one endpoint, {}", seen.unwrap_or("wherever it is"))
        }
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(pod: &str, seen: &str) -> Answer {
        Answer::Answered { name: pod.to_owned(), seen: seen.parse().unwrap() }
    }

    /// Somebody who dials a Service with two endpoints.
    fn probe() -> Probe {
        let mut probe = Probe::to_nobody(Symbol::Pod(1, 1));
        probe.service.pods.extend([Symbol::Pod(1, 2), Symbol::Pod(1, 3)]);
        probe
    }

    #[test]
    fn a_client_that_wanders_is_not_sticky() {
        let [a, b] = ["pod-1-2", "pod-1-3"].map(|pod| answered(pod, "10.1.1.11:7"));
        let words = |answers: &[Answer]| of_one_client(answers, &probe(), true);
        assert!(words(&[a.clone(), b.clone()]).starts_with("not sticky"));
        assert!(words(&[a.clone(), Answer::Timeout]).starts_with("not sticky"));
        assert_eq!(words(&[a.clone(), a]), words(&[b]));
        assert_eq!(words(&[Answer::Refused]), "refused");
    }

    #[test]
    fn whom_an_endpoint_sees_counts_whichever_it_is() {
        let seen = |by: &str, is_alike| of_one_client(&[answered("pod-1-2", by)], &probe(), is_alike);
        assert_ne!(seen("10.1.1.1:7", true), seen("192.168.1.10:7", true));
        assert_eq!(seen("10.1.1.1:7", false), seen("192.168.1.10:7", false));
        assert!(seen("10.1.1.11:7", true).ends_with("sees the client"));
        assert_eq!((node_of("pod-1-2"), node_of("n1")), ("pod-1", "n1"));
    }

    #[test]
    fn somebody_else_is_no_endpoint() {
        let words = of_one_client(&[answered("pod-1-4", "10.1.1.11:7")], &probe(), true);
        assert!(words.ends_with("no endpoint of it"), "{words}");
    }
}
