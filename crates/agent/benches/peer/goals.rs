//! Goals: ratios at 10,000 Services, and whether they are met.

use std::fmt::Write;

use crate::kind::KINDS;
use crate::measure::{
    CHANGE_P50, CHANGE_P50_NO_PAUSE, CONNECT_LAST, CONNECT_MEAN, FIRST_SYNC, FIRST_SYNC_METRIC,
    LAST_TO_FIRST, MEASURES, MEMORY, MEMORY_AFTER, Measure, SETTLED, Value,
};
use crate::report::Figures;
use crate::text::times;

/// Where goals count.
const SERVICES: u32 = 10_000;

/// As far apart as two measurements of one thing may be.
const NOISE: f64 = 1.1;

const OURS: &str = "ours-nftables";

/// What kube-proxy of either release must take at least, times what Switchyard takes.
const RATIOS: [(&Measure, f64); 6] = [
    (&FIRST_SYNC, 50.0),
    (&FIRST_SYNC_METRIC, 50.0),
    (&CHANGE_P50, 50.0),
    (&CHANGE_P50_NO_PAUSE, 50.0),
    (&MEMORY, 4.0),
    (&MEMORY_AFTER, 4.0),
];

/// One line of the table.
struct Line {
    what: String,
    wanted: String,
    /// None if it was not measured.
    found: Option<Value>,
    is_met: bool,
}

/// The table; nothing if nothing was measured at that size.
pub(crate) fn markdown(figures: &Figures) -> String {
    let lines = all(figures);
    if lines.iter().all(|line| line.found.is_none()) {
        return String::new();
    }
    let mut out = String::from(
        "\n## Goals, at 10,000 Services\n\nRatios are what kube-proxy takes, divided by what Switchyard takes in the same run.\n\n\
         |  | goal | measured |  |\n|---|---|---:|---|\n",
    );
    for line in lines {
        let verdict = match (line.found, line.is_met) {
            (None, _) => "not measured",
            (Some(_), true) => "ok",
            (Some(_), false) => "MISSED",
        };
        let found = line.found.map(times).unwrap_or_default();
        let _ = writeln!(out, "| {} | {} | {found} | {verdict} |", line.what, line.wanted);
    }
    out
}

fn all(figures: &Figures) -> Vec<Line> {
    let mut lines = Vec::new();
    for (peer, release) in [("upstream-nftables", "1.36"), ("next-nftables", "1.37")] {
        for (measure, least) in RATIOS {
            let found = compare(figures, peer, OURS, measure);
            let what = format!("nftables, {}, beside {release}", measure.name);
            lines.push(at_least(what, found, least));
        }
        let found = compare(figures, peer, OURS, &CONNECT_LAST);
        let what = format!("nftables, {}, beside {release}", CONNECT_LAST.name);
        lines.push(at_least(what, found, 1.0 / NOISE));
    }
    let flat = figures.value(SERVICES, OURS, &LAST_TO_FIRST);
    let (what, wanted) = (format!("nftables, {}", LAST_TO_FIRST.name), "at most 1.1".to_owned());
    lines.push(Line { what, wanted, found: flat, is_met: flat.is_some_and(|flat| flat.number <= 1.1) });
    lines.extend(iptables(figures));
    lines
}

/// In iptables mode, kube-proxy writes its Services in another order at every sync, so which one is first or last then is chance: their mean
/// says how long the list is. And the end of the churn falls somewhere into the second between two syncs.
fn is_chance(measure: &Measure) -> bool {
    let is_of_one = measure.name.starts_with("connect through") && measure.name != CONNECT_MEAN.name;
    is_of_one || measure.name == SETTLED.name
}

/// Of all rows but those of chance, the one in which Switchyard does worst, and how many rows there are: kube-proxy may not have come so
/// far in its time.
fn iptables(figures: &Figures) -> Vec<Line> {
    let mut lines = Vec::new();
    let kinds = KINDS.iter().filter(|kind| kind.backend().is_some());
    for (ours, peer) in kinds.flat_map(|ours| ours.peers().into_iter().map(move |peer| (ours, peer))) {
        let rows: Vec<&Measure> = MEASURES.iter().filter(|m| m.is_compared() && !is_chance(m)).collect();
        let found = || rows.iter().filter_map(|m| Some((m, compare(figures, peer.name, ours.name, m)?)));
        let worst = found().min_by(|(_, a), (_, b)| a.number.total_cmp(&b.number));
        let what = format!(
            "{} beside {}, the worst of {} rows of {}{}",
            ours.label,
            peer.label,
            found().count(),
            rows.len(),
            worst.map(|(measure, _)| format!(": {}", measure.name)).unwrap_or_default()
        );
        lines.push(at_least(what, worst.map(|(_, value)| value), 1.0 / NOISE));
    }
    lines
}

fn compare(figures: &Figures, peer: &str, ours: &str, measure: &Measure) -> Option<Value> {
    figures.ratio(SERVICES, peer, ours, measure)
}

fn at_least(what: String, found: Option<Value>, least: f64) -> Line {
    let is_met = found.is_some_and(|found| found.number >= least);
    let wanted = match least {
        least if least < 1.0 => "no worse, within 10 %".to_owned(),
        least => format!("at least {least:.0}"),
    };
    Line { what, wanted, found, is_met }
}
