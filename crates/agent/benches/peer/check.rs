//! Figures whose verdicts are known, judged before each run: the benchmark has no harness for tests, and who reads "ok" has waited for
//! hours.

use anyhow::ensure;

use crate::figures::Round;
use crate::goals;
use crate::judge::{Goal, Verdict, judge};
use crate::kind::Kind;
use crate::measure::Value;
use crate::report::Figures;
use crate::stage::Took;

/// See the module.
pub(crate) fn run() -> anyhow::Result<()> {
    values()?;
    tables()
}

fn values() -> anyhow::Result<()> {
    let exact = |number| Some(Value { number, is_at_least: false });
    let bound = |number| Some(Value { number, is_at_least: true });
    let (times, no_worse) = (Goal::Times(50.0), Goal::NoWorse { factor: 1.1, seconds: 0.0 });
    let hidden = Verdict::Open("the deadline hides it");
    let cases = [
        (times, exact(50.0), exact(1.0), Verdict::Met),
        (times, exact(49.0), exact(1.0), Verdict::Missed),
        (times, bound(300.0), exact(1.0), Verdict::Met),
        (times, bound(300.0), exact(20.0), hidden),
        (no_worse, exact(1.0), exact(1.05), Verdict::Met),
        (no_worse, exact(1.0), exact(1.2), Verdict::Missed),
        (no_worse, exact(1.0), bound(300.0), Verdict::Missed),
        (no_worse, bound(300.0), bound(300.0), hidden),
        (no_worse, exact(1.0), None, Verdict::Missed),
        (no_worse, None, exact(1.0), Verdict::Open("kube-proxy did not get so far")),
    ];
    for (goal, peer, ours, verdict) in cases {
        let found = judge(goal, peer, ours);
        ensure!(found == verdict, "{goal:?} of {peer:?} and {ours:?} is {found:?}, not {verdict:?}");
    }
    Ok(())
}

/// A miss is seen in the report, and two builds are not compared.
fn tables() -> anyhow::Result<()> {
    let met = report(10.0, "a");
    ensure!(!met.contains("MISSED**") && met.contains(" ok |"), "a goal that is met is reported as:\n{met}");
    let missed = report(5.0, "a");
    ensure!(missed.contains("**0.50 MISSED**"), "a goal that is missed is reported as:\n{missed}");
    let apart = report(5.0, "b");
    ensure!(!apart.contains("0.50"), "two builds are compared:\n{apart}");
    Ok(())
}

/// Of kube-proxy that takes so long, and of Switchyard that takes ten seconds.
fn report(seconds: f64, build: &str) -> String {
    let of = |seconds, build: &str| Round {
        first_sync: Some(Took::Seconds(seconds)),
        build: build.to_owned(),
        ..Round::default()
    };
    let rounds = [("upstream-iptables-nft", of(seconds, build)), ("ours-iptables-nft", of(10.0, "a"))];
    let kinds = rounds.into_iter().filter_map(|(name, round)| Some((Kind::named(name)?, vec![round])));
    goals::markdown(&Figures::of(goals::SERVICES, kinds.collect()))
}
