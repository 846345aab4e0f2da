//! The same flows in two labs: who answers, whom the endpoint sees, and how a flow is refused.
//!
//! In: two stages, one with kube-proxy and one with switchyard, and probes. Out: those that did not go the same way. Which endpoint answers
//! is left to chance, so what is compared is the set of all outcomes of many tries; with affinity, of many clients.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::{Answer, Dial};

use crate::common::stage::Stage;
use crate::probes::Probe;
use crate::sources::{self, LENT};

/// Probes at one time: many of them wait for an answer that does not come.
const AT_ONCE: usize = 8;

/// When silence is taken for a drop: at once, and if the other one is not silent, only after the kernel asked again, twice.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(1500), Duration::from_millis(3500)];

/// How often the sets may be made larger until they are equal. With six endpoints the odds of missing one by chance are 1 in 10^15.
const MOST: u32 = 200;

/// How many that differ are tried again, alone, and the rest before each of them.
const MOST_ALONE: usize = 5;
const REFUSALS_ARE_BACK: Duration = Duration::from_secs(6);

/// How often a sticky client dials.
const STICKY_TRIES: usize = 3;

/// What became of a flow, over many tries.
pub(crate) type Outcomes = BTreeSet<String>;

/// How many probes were tried, and which of them went different ways.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) tried: usize,
    pub(crate) failures: Vec<String>,
}

/// kube-proxy's stage first. What is not tried when the time is over is left out.
pub(crate) fn compare(stages: [&Stage; 2], probes: &[Probe], until: Instant) -> Report {
    let (next, tried, doubtful) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while Instant::now() < until {
                    let Some(probe) = probes.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let difference = try_out(stages, probe);
                    tried.fetch_add(1, Ordering::Relaxed);
                    doubtful.lock().unwrap().extend(difference.map(|text| (probe, text)));
                }
            });
        }
    });
    let (alone, others) = split(doubtful.into_inner().unwrap());
    let again = alone.into_iter().filter_map(|(probe, _)| {
        std::thread::sleep(REFUSALS_ARE_BACK);
        try_out(stages, probe).map(|text| (probe, text))
    });
    let failures = again.chain(others).map(|(probe, text)| format!("  {probe}\n{text}")).collect();
    Report { tried: tried.into_inner(), failures }
}

type Doubtful<'a> = Vec<(&'a Probe, String)>;

/// The first few that differ are tried again, one by one: a router tells the same client only once a second that there is no way, so
/// others may have taken what was left of that. Many that differ do so for another reason.
fn split(mut doubtful: Doubtful<'_>) -> (Doubtful<'_>, Doubtful<'_>) {
    let others = doubtful.split_off(doubtful.len().min(MOST_ALONE));
    (doubtful, others)
}

fn try_out(stages: [&Stage; 2], probe: &Probe) -> Option<String> {
    let mut last = None;
    for patience in PATIENCE {
        let outcomes = if probe.service.is_sticky {
            sticky(stages, probe, patience)
        } else {
            plain(stages, probe, patience)
        };
        last = difference(&outcomes.map(without_lost_refusals));
        if last.is_none() {
            break;
        }
    }
    last
}

/// The kernel limits how many refusals it sends each second, over all namespaces: one that is missing among others was lost.
fn without_lost_refusals(mut outcomes: Outcomes) -> Outcomes {
    if outcomes.iter().any(|text| text == "refused" || text.starts_with("unreachable")) {
        outcomes.remove("silence");
    }
    outcomes
}

/// What differs.
fn difference([theirs, ours]: &[Outcomes; 2]) -> Option<String> {
    let side = |outcomes: &Outcomes| outcomes.iter().cloned().collect::<Vec<_>>().join(", ");
    (theirs != ours).then(|| format!("    kube-proxy: {}\n    switchyard: {}\n", side(theirs), side(ours)))
}

fn plain(stages: [&Stage; 2], probe: &Probe, patience: Duration) -> [Outcomes; 2] {
    let mut outcomes = [Outcomes::new(), Outcomes::new()];
    for tries in 1..=MOST {
        for (stage, set) in stages.iter().zip(&mut outcomes) {
            set.insert(dial(stage, probe, None, patience));
        }
        if is_enough(tries, &outcomes, probe.service.endpoints) {
            break;
        }
    }
    outcomes
}

/// After at least so many tries that an endpoint that only one of them picks would show; more only while chance may be the reason for a
/// difference.
fn is_enough(tries: u32, outcomes: &[Outcomes; 2], endpoints: u32) -> bool {
    let is_answered = |set: &Outcomes| set.iter().all(|text| text.starts_with(ANSWERED));
    match outcomes.each_ref().map(is_answered) {
        [false, false] => tries >= 2,
        [true, true] => tries >= 3 + 3 * endpoints.min(6) && outcomes[0] == outcomes[1],
        _ => tries >= 3,
    }
}

/// Clients with many addresses: each must stay with its endpoint, and together they find all. A client with one address finds any.
fn sticky(stages: [&Stage; 2], probe: &Probe, patience: Duration) -> [Outcomes; 2] {
    let mut outcomes = [Outcomes::new(), Outcomes::new()];
    let lent: Vec<Option<IpAddr>> = sources::of(probe.from, probe.to.ip()).map(Some).collect();
    let sources = if lent.is_empty() { vec![None] } else { lent };
    for (number, source) in (1..).zip(sources) {
        for (stage, set) in stages.iter().zip(&mut outcomes) {
            let mut answers = Outcomes::from([dial(stage, probe, source, patience)]);
            if answers.iter().all(|text| text.starts_with(ANSWERED)) {
                answers.extend((1..STICKY_TRIES).map(|_| dial(stage, probe, source, patience)));
            }
            set.insert(of_one_client(answers, source.is_some()));
        }
        if is_enough(number, &outcomes, probe.service.endpoints) {
            break;
        }
    }
    outcomes
}

/// `is_one_of_many`: the set of all clients will tell which endpoints there are.
fn of_one_client(answers: Outcomes, is_one_of_many: bool) -> String {
    let mut answers = answers.into_iter();
    match (answers.next().unwrap_or_default(), answers.next()) {
        (first, Some(second)) => format!("not sticky: {first}, then {second}"),
        (only, None) if !is_one_of_many && only.starts_with(ANSWERED) => format!("{ANSWERED} one endpoint"),
        (only, None) => only,
    }
}

/// Outcomes that begin so are left to chance.
const ANSWERED: &str = "answered by";

fn dial(stage: &Stage, probe: &Probe, source: Option<IpAddr>, patience: Duration) -> String {
    let from = stage.host(probe.from).unwrap();
    let mut dial = Dial::new(probe.transport, probe.to).within(patience);
    if let Some(source) = source {
        dial = dial.from(SocketAddr::new(source, 0));
    }
    let is_own = |ip: IpAddr| match source {
        Some(source) => ip == source,
        None => matches!(probe.from, Symbol::Pod(..) | Symbol::Client) && ip == own(probe.from, ip),
    };
    outcome(&from.dial(&dial), is_own)
}

fn own(symbol: Symbol, like: IpAddr) -> IpAddr {
    symbol.ip(sources::family(like)).unwrap_or(like)
}

fn outcome(answer: &Answer, is_own: impl Fn(IpAddr) -> bool) -> String {
    match answer {
        Answer::Answered { name, seen } if is_own(seen.ip()) => {
            format!("{ANSWERED} {name}, which sees the client")
        }
        Answer::Answered { name, seen } => format!("{ANSWERED} {name}, which sees {}", seen.ip()),
        Answer::Refused => "refused".to_owned(),
        Answer::Unreachable(kind) => format!("unreachable ({kind})"),
        Answer::Timeout => "silence".to_owned(),
        Answer::Other(kind) => format!("broken ({kind})"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn set(outcomes: &[&str]) -> Outcomes {
        outcomes.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn every_kind_of_outcome_is_another_one() {
        let answered =
            |name: &str, seen: &str| Answer::Answered { name: name.into(), seen: seen.parse().unwrap() };
        let answers = [
            answered("pod-1-1", "10.1.1.19:1"),
            answered("pod-1-2", "10.1.1.19:1"),
            answered("pod-1-1", "192.168.1.10:1"),
            Answer::Refused,
            Answer::Unreachable(ErrorKind::HostUnreachable),
            Answer::Timeout,
            Answer::Other(ErrorKind::UnexpectedEof),
        ];
        let is_own = |ip: IpAddr| ip.to_string() == "10.1.1.19";
        let texts: Vec<String> = answers.iter().map(|answer| outcome(answer, is_own)).collect();
        for (number, text) in texts.iter().enumerate() {
            for (other_number, other) in texts.iter().enumerate() {
                let differs = difference(&[set(&[text]), set(&[other])]).is_some();
                assert_eq!(differs, number != other_number, "{text} / {other}");
            }
        }
        // The source port is never the same twice.
        let later = outcome(&answered("pod-1-1", "10.1.1.19:2"), is_own);
        assert_eq!(texts.first(), Some(&later));
    }

    #[test]
    fn a_missing_endpoint_is_a_difference() {
        let [a, b] = [format!("{ANSWERED} a"), format!("{ANSWERED} b")];
        let [both, one] = [set(&[&a, &b]), set(&[&a])];
        assert_eq!(difference(&[both.clone(), both.clone()]), None);
        assert!(
            difference(&[both.clone(), one.clone()])
                .unwrap()
                .contains("kube-proxy: answered by a, answered by b")
        );
        assert!(!is_enough(MOST - 1, &[both.clone(), one.clone()], 2), "chance may be the reason");
        assert!(is_enough(9, &[both.clone(), both.clone()], 2) && !is_enough(8, &[both, one.clone()], 2));
        assert!(is_enough(3, &[one, set(&["refused"])], 2), "no chance is the reason");
        assert!(is_enough(2, &[set(&["silence"]), set(&["silence"])], 6));
    }

    #[test]
    fn a_drop_is_no_lost_refusal() {
        assert_eq!(without_lost_refusals(set(&["refused", "silence"])), set(&["refused"]));
        assert_eq!(without_lost_refusals(set(&["silence"])), set(&["silence"]));
        let answered = format!("{ANSWERED} a");
        assert_eq!(without_lost_refusals(set(&[&answered, "silence"])).len(), 2);
    }

    #[test]
    fn a_client_that_wanders_is_not_sticky() {
        let [a, b] = [format!("{ANSWERED} a"), format!("{ANSWERED} b")];
        assert!(of_one_client(set(&[&a, &b]), true).starts_with("not sticky"));
        assert_eq!(of_one_client(set(&[&a]), true), a);
        assert_eq!(of_one_client(set(&[&a]), false), of_one_client(set(&[&b]), false));
        assert_eq!(of_one_client(set(&["refused"]), false), "refused");
    }

    #[test]
    fn there_are_enough_clients_to_find_all_endpoints() {
        assert_eq!(sources::of(Symbol::Client, "10.96.0.1".parse().unwrap()).count(), usize::from(LENT));
        assert_eq!(sources::of(Symbol::Node(1), "10.96.0.1".parse().unwrap()).count(), 0);
    }
}
