//! Goals: ratios at 10,000 Services, and whether they are met. Every row that compares two proxies has one.

use std::fmt::Write;

use crate::judge::{Goal, Pauses, Verdict, judge};
use crate::kind::{KINDS, Kind};
use crate::measure::{
    CHANGE_P50, CHANGE_P50_NO_PAUSE, CONNECT_MEAN, FIRST_SYNC, FIRST_SYNC_METRIC, LAST_TO_FIRST, MEASURES,
    MEMORY, MEMORY_AFTER, Measure, Value, ratio,
};
use crate::report::Figures;
use crate::text::times;

/// Where goals count.
pub(crate) const SERVICES: u32 = 10_000;

const OURS: &str = "ours-nftables";

/// What kube-proxy must take at least in nftables mode, times what Switchyard takes. In all other rows Switchyard is no worse.
const RATIOS: [(&Measure, f64); 6] = [
    (&FIRST_SYNC, 50.0),
    (&FIRST_SYNC_METRIC, 50.0),
    (&CHANGE_P50, 50.0),
    (&CHANGE_P50_NO_PAUSE, 50.0),
    (&MEMORY, 4.0),
    (&MEMORY_AFTER, 4.0),
];

/// The most that connecting through the last Service may take in nftables mode, times the first.
const FLAT: f64 = 1.1;

/// One goal.
struct Line {
    ours: &'static Kind,
    /// None if Switchyard is compared with itself.
    peer: Option<&'static Kind>,
    measure: &'static Measure,
    wanted: String,
    found: String,
    verdict: Verdict,
}

/// The tables; nothing if nothing was measured at that size.
pub(crate) fn markdown(figures: &Figures) -> String {
    let lines = all(figures);
    if lines.is_empty() {
        return String::new();
    }
    let mut out = String::from(ABOUT);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n{}", summary(&lines));
    for (ours, peer) in left_out(figures) {
        let _ = writeln!(out, "\nNot compared at this size: {} with {}.", ours.label, peer.label);
    }
    for ours in KINDS.iter().filter(|kind| lines.iter().any(|line| line.ours == *kind)) {
        table(&mut out, ours, &lines);
    }
    out
}

/// How many goals are met, and which are not; none if nothing was measured at that size.
pub(crate) fn outcome(figures: &Figures) -> Option<String> {
    let lines = all(figures);
    (!lines.is_empty()).then(|| summary(&lines))
}

fn summary(lines: &[Line]) -> String {
    let missed = lines.iter().filter(|line| line.verdict == Verdict::Missed);
    let met = lines.iter().filter(|line| line.verdict == Verdict::Met).count();
    let mut out = format!("Of {} goals {met} are met, {} are missed", lines.len(), missed.clone().count());
    let _ = write!(out, ", and of {} nobody can say.", lines.len() - met - missed.clone().count());
    for line in missed {
        let beside = line.peer.map(|peer| format!(" beside {}", peer.label)).unwrap_or_default();
        let _ = write!(out, "\n- MISSED: {}{beside}, {} {}", line.ours.label, line.measure.name, line.found);
    }
    out
}

/// All goals of one kind: a row for each measure, a column for each kube-proxy.
fn table(out: &mut String, ours: &Kind, lines: &[Line]) {
    let own: Vec<&Line> = lines.iter().filter(|line| line.ours == ours).collect();
    // What has no peer stands in the first column.
    let mut columns: Vec<&str> = own.iter().filter_map(|line| Some(line.peer?.label)).collect();
    columns.dedup();
    if columns.is_empty() {
        columns.push("itself");
    }
    let _ = writeln!(out, "\n| {} | goal | beside {} |", ours.label, columns.join(" | beside "));
    let _ = writeln!(out, "|---|---|{}", "---:|".repeat(columns.len()));
    for measure in &MEASURES {
        let row = || own.iter().filter(|line| line.measure.name == measure.name);
        let Some(first) = row().next() else { continue };
        let _ = write!(out, "| {} | {} |", measure.name, first.wanted);
        for line in row() {
            let _ = write!(out, " {} |", cell(line));
        }
        out.push('\n');
    }
}

fn cell(line: &Line) -> String {
    let found = if line.found.is_empty() { String::new() } else { format!("{} ", line.found) };
    match line.verdict {
        Verdict::Met => format!("{found}ok"),
        Verdict::Missed => format!("**{found}MISSED**"),
        Verdict::Open(why) => format!("{found}open: {why}"),
    }
}

/// Pairs of kinds, ours first.
fn pairs() -> impl Iterator<Item = (&'static Kind, &'static Kind)> {
    KINDS.iter().flat_map(|ours| ours.peers().into_iter().map(move |peer| (ours, peer)))
}

/// Pairs of which one was not measured to its end.
fn left_out(figures: &Figures) -> Vec<(&'static Kind, &'static Kind)> {
    let is_there = |kind: &Kind| figures.is_complete(SERVICES, kind.name);
    pairs().filter(|(ours, peer)| !is_there(ours) || !is_there(peer)).collect()
}

fn all(figures: &Figures) -> Vec<Line> {
    let left_out = left_out(figures);
    let mut lines = Vec::new();
    for (ours, peer) in pairs().filter(|pair| !left_out.contains(pair)) {
        // Where kube-proxy's order is chance, so is its ratio of the last Service to the first; and it is no time.
        let rows = MEASURES.iter().filter(|row| row.is_compared() && row.name != LAST_TO_FIRST.name);
        lines.extend(rows.map(|measure| beside(figures, ours, peer, measure)));
    }
    lines.extend(flat(figures));
    lines
}

fn beside(figures: &Figures, ours: &'static Kind, peer: &'static Kind, measure: &'static Measure) -> Line {
    let value = |kind: &Kind| figures.value(SERVICES, kind.name, measure);
    let (goal, of_peer, of_ours) = (goal(ours, measure), value(peer), value(ours));
    let (found, verdict) = if !figures.is_together(SERVICES, peer.name, ours.name) {
        (String::new(), Verdict::Open("measured on two machines, or with two builds"))
    } else if is_chance(ours, measure) {
        (found(of_peer, of_ours), Verdict::Open("chance"))
    } else {
        (found(of_peer, of_ours), judge(goal, of_peer, of_ours))
    };
    Line { ours, peer: Some(peer), measure, wanted: goal.text(), found, verdict }
}

fn goal(ours: &Kind, measure: &Measure) -> Goal {
    let least = RATIOS.iter().find(|(of, _)| of.name == measure.name);
    match (ours.backend(), least) {
        (None, Some((_, least))) => Goal::Times(*least),
        (None, None) => Goal::no_worse(measure, Pauses::KubeProxy),
        (Some(_), _) => Goal::no_worse(measure, Pauses::Both),
    }
}

/// The ratio, as far as it is known.
fn found(peer: Option<Value>, ours: Option<Value>) -> String {
    let (Some(peer), Some(ours)) = (peer, ours) else { return String::new() };
    match (peer.is_at_least, ours.is_at_least) {
        (false, true) => format!("less than {}", times(Value::exact(peer.number / ours.number))),
        _ => ratio(peer, ours).map(times).unwrap_or_default(),
    }
}

fn flat(figures: &Figures) -> Option<Line> {
    let ours = Kind::named(OURS).filter(|ours| figures.is_complete(SERVICES, ours.name))?;
    let measure = MEASURES.iter().find(|measure| measure.name == LAST_TO_FIRST.name)?;
    let value = figures.value(SERVICES, ours.name, measure);
    let verdict = match value {
        Some(value) if value.number <= FLAT => Verdict::Met,
        _ => Verdict::Missed,
    };
    let found = value.map(times).unwrap_or_default();
    Some(Line { ours, peer: None, measure, wanted: format!("at most {FLAT}"), found, verdict })
}

/// In iptables mode, kube-proxy writes its Services in another order at every sync, so which one is first or last then is chance, and to be
/// compared with one that is always the last says nothing: their mean says how long the list is.
fn is_chance(ours: &Kind, measure: &Measure) -> bool {
    let is_of_one = measure.name.starts_with("connect through") && measure.name != CONNECT_MEAN.name;
    ours.backend().is_some() && is_of_one
}

const ABOUT: &str = "
## Goals, at 10,000 Services

Ratios are what kube-proxy takes, divided by what Switchyard takes, on one machine and with one build of Switchyard. Every row that compares
the two has a goal. *No worse* allows for noise: 10 %, for a p99 25 %, as it is one of the slowest of few values, and for the end of the
churn in iptables mode one second more, the pause of both that it falls into. What Switchyard did not reach in its time, and kube-proxy did,
is missed; *open* is what a deadline hides, or what kube-proxy did not reach, or in iptables mode the place of one Service among all, which
kube-proxy leaves to chance: there the mean of the first and the last Service has the goal.
";
