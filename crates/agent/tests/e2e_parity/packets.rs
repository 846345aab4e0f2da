//! The same flows in two labs: who answers, whom the endpoint sees, and how a flow is refused.
//!
//! In: two stages, one with kube-proxy and one with switchyard, and probes. Out: those that did not go the same way. Which endpoint answers
//! is left to chance, so what is compared is the set of all outcomes of many tries; with affinity, see [`sticky`].

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::{Answer, Dial};

use crate::common::stage::Stage;
use crate::common::variant::Variant;
use crate::peers::Kind;
use crate::probes::Probe;
use crate::tally::Compared;
use crate::{relay, sources, sticky};

/// Probes at one time: many of them wait for an answer that does not come.
const AT_ONCE: usize = 8;

/// When silence is taken for a drop: at once, and if the other one is not silent, only after the kernel asked again, twice.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(300), Duration::from_millis(1500), Duration::from_millis(3500)];

/// How often the sets may be made larger until they are equal. With six endpoints the odds of missing one by chance are 1 in 10^15.
const MOST: u32 = 200;

/// How many that differ are tried again, alone, and the rest before each of them. Where only refusals are missing there may be more of
/// them: those are lost first when there is much else to do.
const MOST_ALONE: usize = 5;
const MOST_REFUSALS_ALONE: usize = 20;
const REFUSALS_ARE_BACK: Duration = Duration::from_secs(6);

/// Whoever is tried alone has this for itself: pairs of proxies of all tests run in one kernel, which limits its refusals for all of them.
static ALONE: RwLock<()> = RwLock::new(());

/// No flow is begun after this, however many are left: a machine hangs.
const LONGEST: Duration = Duration::from_secs(600);

/// What became of a flow, over many tries.
pub(crate) type Outcomes = BTreeSet<String>;

/// Two stages with the same objects.
#[derive(Clone, Copy)]
pub(crate) struct Pair<'a> {
    pub(crate) upstream: &'a Stage,
    pub(crate) ours: &'a Stage,
    /// How switchyard runs.
    pub(crate) variant: Variant,
}

/// How much must be tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// So many of the first probes, however long it takes.
    pub(crate) least: usize,
    /// And as many more as can be had in this time, from the beginning on.
    pub(crate) time: Duration,
}

/// How many probes were tried, and which of them went different ways.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) tried: usize,
    pub(crate) failures: Vec<String>,
}

impl Report {
    /// With so many rules that are the same, out of so many probes; or what differs.
    pub(crate) fn result(self, rules: usize, known_flows: usize) -> Result<Compared, String> {
        let compared = Compared { rules, flows: self.tried, known_flows };
        if self.failures.is_empty() { Ok(compared) } else { Err(self.failures.concat()) }
    }
}

/// Two sets of outcomes are not the same.
struct Difference {
    text: String,
    kind: Missing,
}

/// What a set lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// At most refusals, which the kernel may have held back.
    Refusals,
    /// Something else.
    Other,
}

type Doubtful<'a> = Vec<(&'a Probe, Difference)>;

impl Pair<'_> {
    pub(crate) const SIDES: [Kind; 2] = [Kind::Upstream, Kind::Ours];

    /// What comes of one try. What kube-proxy does is told as it must be through a relay, if that is what is compared with it.
    pub(crate) fn dial(
        &self,
        side: Kind,
        probe: &Probe,
        source: Option<IpAddr>,
        patience: Duration,
    ) -> Answer {
        let stage = match side {
            Kind::Upstream => self.upstream,
            Kind::Ours => self.ours,
        };
        let mut dial = Dial::new(probe.transport, probe.to).within(patience);
        if let Some(source) = source {
            dial = dial.from(SocketAddr::new(source, 0));
        }
        let answer = stage.host(probe.from).unwrap().dial(&dial);
        match (side, self.variant) {
            (Kind::Upstream, Variant::Userspace) => relay::relayed(answer),
            _ => answer,
        }
    }
}

/// Tries the probes, in their order.
pub(crate) fn compare(pair: Pair<'_>, probes: &[Probe], effort: Effort) -> Report {
    let start = Instant::now();
    let is_over = |number: usize| {
        let elapsed = start.elapsed();
        elapsed >= LONGEST || (number >= effort.least && elapsed >= effort.time)
    };
    let (next, tried, doubtful) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(probe) = probes.get(number).filter(|_| !is_over(number)) else { break };
                    let _among_others = ALONE.read().unwrap_or_else(PoisonError::into_inner);
                    let difference = try_out(pair, probe);
                    tried.fetch_add(1, Ordering::Relaxed);
                    doubtful.lock().unwrap().extend(difference.map(|difference| (probe, difference)));
                }
            });
        }
    });
    let tried = tried.into_inner();
    let mut failures = once_more(pair, doubtful.into_inner().unwrap());
    if tried < effort.least.min(probes.len()) {
        let all = probes.len();
        failures.push(format!("  only {tried} of {all} flows tried, not even {}\n", effort.least));
    }
    Report { tried, failures }
}

/// What still differs when it is tried again, alone: others may have taken what was left of the answers that a kernel sends each second.
/// Many that differ do so for another reason, and are not tried again.
fn once_more(pair: Pair<'_>, doubtful: Doubtful<'_>) -> Vec<String> {
    let (mut refusals, mut others): (Vec<_>, Vec<_>) =
        doubtful.into_iter().partition(|(_, difference)| difference.kind == Missing::Refusals);
    let too_many_others = others.split_off(others.len().min(MOST_ALONE));
    let too_many_refusals = refusals.split_off(refusals.len().min(MOST_REFUSALS_ALONE));
    let again = others.into_iter().chain(refusals).filter_map(|(probe, _)| {
        let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(REFUSALS_ARE_BACK);
        try_out(pair, probe).map(|difference| (probe, difference))
    });
    let failed = again.chain(too_many_others).chain(too_many_refusals);
    failed.map(|(probe, difference)| format!("  {probe}\n{}", difference.text)).collect()
}

fn try_out(pair: Pair<'_>, probe: &Probe) -> Option<Difference> {
    let mut last = None;
    for patience in PATIENCE {
        let outcomes = if probe.service.is_sticky {
            sticky::try_out(pair, probe, patience)
        } else {
            plain(pair, probe, patience)
        };
        last = difference(&outcomes);
        if last.is_none() {
            break;
        }
    }
    last
}

/// What differs.
fn difference(outcomes: &[Outcomes; 2]) -> Option<Difference> {
    let [theirs, ours] =
        &outcomes.each_ref().map(|set| without_lost(set, |text| text.starts_with("unreachable")));
    if theirs == ours {
        return None;
    }
    let side = |outcomes: &Outcomes| outcomes.iter().cloned().collect::<Vec<_>>().join(", ");
    let text = format!("    kube-proxy: {}\n    switchyard: {}\n", side(theirs), side(ours));
    let [theirs, ours] = [theirs, ours].map(|set| without_lost(set, |text| text == "refused"));
    let kind = if theirs == ours { Missing::Refusals } else { Missing::Other };
    Some(Difference { text, kind })
}

/// Without silence among answers that a busy kernel may hold back. "Unreachable" comes from the router, which neither proxy touches, and
/// says so to the same client only once a second: there silence says nothing. A refusal is what a proxy wants, so silence may be a fault.
fn without_lost(outcomes: &Outcomes, is_limited: impl Fn(&str) -> bool) -> Outcomes {
    let mut outcomes = outcomes.clone();
    if outcomes.iter().any(|text| is_limited(text)) {
        outcomes.remove("silence");
    }
    outcomes
}

fn plain(pair: Pair<'_>, probe: &Probe, patience: Duration) -> [Outcomes; 2] {
    let mut outcomes = [Outcomes::new(), Outcomes::new()];
    for tries in 1..=MOST {
        for (side, set) in Pair::SIDES.into_iter().zip(&mut outcomes) {
            set.insert(outcome(&pair.dial(side, probe, None, patience), probe, None));
        }
        if is_enough(tries, &outcomes, probe.service.endpoints) {
            break;
        }
    }
    outcomes
}

/// After at least so many tries that an endpoint that only one of them picks would show; more only while chance may be the reason for a
/// difference.
pub(crate) fn is_enough(tries: u32, outcomes: &[Outcomes; 2], endpoints: u32) -> bool {
    let is_answered = |set: &Outcomes| set.iter().all(|text| text.starts_with(ANSWERED));
    match outcomes.each_ref().map(is_answered) {
        [false, false] => tries >= 2,
        [true, true] => tries >= 3 + 3 * endpoints.min(6) && outcomes[0] == outcomes[1],
        _ => tries >= 3,
    }
}

/// Outcomes that begin so are left to chance.
pub(crate) const ANSWERED: &str = "answered by";

/// One try in words. `source` is the address that the probe came from, if it was not the client's own.
pub(crate) fn outcome(answer: &Answer, probe: &Probe, source: Option<IpAddr>) -> String {
    match answer {
        Answer::Answered { name, seen } => {
            let seen = seen.ip();
            let is_own = match source {
                Some(source) => seen == source,
                None => {
                    matches!(probe.from, Symbol::Pod(..) | Symbol::Client) && is_address(probe.from, seen)
                }
            };
            let seen = if is_own { "the client".to_owned() } else { seen.to_string() };
            format!("{ANSWERED} {name}, which sees {seen}")
        }
        Answer::Refused => "refused".to_owned(),
        Answer::Unreachable(kind) => format!("unreachable ({kind})"),
        Answer::Timeout => "silence".to_owned(),
        Answer::Other(kind) => format!("broken ({kind})"),
    }
}

/// Whether an address is the one of a symbol.
fn is_address(symbol: Symbol, ip: IpAddr) -> bool {
    symbol.ip(sources::family(ip)) == Some(ip)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    fn set(outcomes: &[&str]) -> Outcomes {
        outcomes.iter().map(|&text| text.to_owned()).collect()
    }

    fn kind(theirs: &[&str], ours: &[&str]) -> Option<Missing> {
        difference(&[set(theirs), set(ours)]).map(|difference| difference.kind)
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
        let probe = Probe::to_nobody(Symbol::Pod(1, 9));
        let texts: Vec<String> = answers.iter().map(|answer| outcome(answer, &probe, None)).collect();
        for (number, text) in texts.iter().enumerate() {
            for (other_number, other) in texts.iter().enumerate() {
                assert_eq!(kind(&[text], &[other]).is_some(), number != other_number, "{text} / {other}");
            }
        }
        // The source port is never the same twice.
        let later = outcome(&answered("pod-1-1", "10.1.1.19:2"), &probe, None);
        assert_eq!(texts.first(), Some(&later));
        assert!(later.ends_with("sees the client"));
        let lent = outcome(&answered("pod-1-1", "10.1.1.19:2"), &probe, Some("10.1.1.130".parse().unwrap()));
        assert!(lent.ends_with("sees 10.1.1.19"));
    }

    #[test]
    fn a_missing_endpoint_is_a_difference() {
        let [a, b] = [format!("{ANSWERED} a"), format!("{ANSWERED} b")];
        let [both, one] = [set(&[&a, &b]), set(&[&a])];
        assert!(difference(&[both.clone(), both.clone()]).is_none());
        let text = difference(&[both.clone(), one.clone()]).unwrap().text;
        assert!(text.contains("kube-proxy: answered by a, answered by b"));
        assert!(!is_enough(MOST - 1, &[both.clone(), one.clone()], 2), "chance may be the reason");
        assert!(is_enough(9, &[both.clone(), both.clone()], 2) && !is_enough(8, &[both, one.clone()], 2));
        assert!(is_enough(3, &[one, set(&["refused"])], 2), "no chance is the reason");
        assert!(is_enough(2, &[set(&["silence"]), set(&["silence"])], 6));
    }

    #[test]
    fn a_refusal_that_is_missing_is_a_difference_of_its_own() {
        assert_eq!(kind(&["refused"], &["refused"]), None);
        assert_eq!(kind(&["refused"], &["refused", "silence"]), Some(Missing::Refusals));
        assert_eq!(kind(&["refused"], &["silence"]), Some(Missing::Other), "a drop");
        assert_eq!(kind(&["unreachable (x)"], &["unreachable (x)", "silence"]), None, "the router");
        assert_eq!(kind(&["unreachable (x)"], &["silence"]), Some(Missing::Other));
        let answered = format!("{ANSWERED} a");
        assert_eq!(kind(&[&answered], &[&answered, "silence"]), Some(Missing::Other));
    }

    #[test]
    fn there_are_enough_clients_to_find_all_endpoints() {
        assert_eq!(
            sources::of(Symbol::Client, "10.96.0.1".parse().unwrap()).count(),
            usize::from(sources::LENT)
        );
        assert_eq!(sources::of(Symbol::Node(1), "10.96.0.1".parse().unwrap()).count(), 0);
    }
}
