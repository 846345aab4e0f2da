//! The latency plot: every change of the ledger as a dot, on a logarithmic scale.
//!
//! In: entries of the ledger. Out: a drawing with a title and a description for those who do not see it. Colours come from the style sheet.
//! Two changes a decade apart are as far from each other everywhere, so a slow first sync does not hide what follows.

use std::time::Duration;

use super::html::Html;
use super::values::{Change, ChangeKind, Outcome};
use super::words::{clock, counted, duration};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 225.0;
/// Dots begin here; to the left there is room for the words of the scale, on a phone too, where they are larger.
const LEFT: f64 = 100.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 32.0;

/// Powers of ten of a second that a scale may begin and end with.
const LOWEST: i32 = -5;
const HIGHEST: i32 = 4;

/// How latencies are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) count: usize,
    pub(super) median: Duration,
    /// 99% are not longer.
    pub(super) high: Duration,
    pub(super) longest: Duration,
}

impl Spread {
    /// Nothing if there is no latency.
    pub(super) fn of(changes: &[Change]) -> Option<Self> {
        let mut all: Vec<Duration> = changes.iter().filter_map(|change| change.latency).collect();
        all.sort_unstable();
        let at_least = |share: usize| all.get((all.len() * share).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { count: all.len(), median: at_least(50)?, high: at_least(99)?, longest: *all.last()? })
    }
}

/// From latencies to places.
struct Scale {
    low: i32,
    high: i32,
}

impl Scale {
    fn of(shortest: Duration, longest: Duration) -> Self {
        let low = decade(shortest).floor().clamp(f64::from(LOWEST), f64::from(HIGHEST - 2));
        let high = decade(longest).ceil().clamp(low + 2.0, f64::from(HIGHEST));
        let whole = |from: i32, to: f64| (from..=HIGHEST).find(|n| f64::from(*n) >= to).unwrap_or(HIGHEST);
        Self { low: whole(LOWEST, low), high: whole(LOWEST, high) }
    }

    fn y(&self, latency: Duration) -> f64 {
        let share = (decade(latency) - f64::from(self.low)) / f64::from(self.high - self.low);
        HEIGHT - BOTTOM - share.clamp(0.0, 1.0) * (HEIGHT - BOTTOM - TOP)
    }
}

fn decade(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9).log10()
}

/// The plot with its caption; a word instead if nothing has changed yet.
pub(super) fn figure(html: &mut Html, changes: &[Change]) {
    let Some(spread) = Spread::of(changes) else { return };
    let shown: Vec<(&Change, Duration)> =
        changes.iter().filter_map(|change| Some((change, change.latency?))).collect();
    html.within("figure", &[], |html| {
        html.within("figcaption", &[], |html| {
            html.constant("<strong>Sync latency</strong> from the moment that a change is seen until the kernel has it");
            html.constant("<span class=\"legend\"><span class=\"key part\">differences</span><span class=\"key full\">everything</span><span class=\"key failed\">failed</span></span>");
        });
        drawing(html, &shown, spread);
    });
    html.constant("\n");
}

fn drawing(html: &mut Html, shown: &[(&Change, Duration)], spread: Spread) {
    let shortest = shown.iter().map(|(_, latency)| *latency).min().unwrap_or_default();
    let scale = Scale::of(shortest, spread.longest);
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    let label = format!(
        "Latency of the last {}: median {}, 99% within {}, longest {}",
        counted(spread.count, "change", "changes"),
        duration(spread.median),
        duration(spread.high),
        duration(spread.longest)
    );
    html.within("svg", &[("viewBox", &view), ("role", "img"), ("aria-label", &label)], |html| {
        html.element("title", &[], &label);
        grid(html, &scale);
        ends(html, shown);
        let steps = f64::from(u32::try_from(shown.len().saturating_sub(1)).unwrap_or(u32::MAX)).max(1.0);
        for (place, (change, latency)) in (0_u32..).zip(shown) {
            let share = if shown.len() == 1 { 0.5 } else { f64::from(place) / steps };
            dot(
                html,
                LEFT + 6.0 + share * (WIDTH - LEFT - RIGHT - 12.0),
                scale.y(*latency),
                change,
                *latency,
            );
        }
        level(html, &scale, spread.median, "median");
    });
}

fn grid(html: &mut Html, scale: &Scale) {
    for power in scale.low..=scale.high {
        let time = Duration::from_secs_f64(10_f64.powi(power));
        let y = format!("{:.1}", scale.y(time));
        line(html, "grid", 0.0, &y);
        let y = format!("{:.1}", scale.y(time) - 5.0);
        html.element("text", &[("class", "tick"), ("x", "0"), ("y", &y)], &round(power));
    }
}

/// A power of ten of a second.
fn round(power: i32) -> String {
    let (factor, unit) = match power {
        ..=-4 => (power + 6, "µs"),
        -3..=-1 => (power + 3, "ms"),
        _ => (power, "s"),
    };
    let zeros = usize::try_from(factor).unwrap_or_default();
    format!("1{} {unit}", "0".repeat(zeros))
}

/// When the first and the last of them were committed.
fn ends(html: &mut Html, shown: &[(&Change, Duration)]) {
    let y = (HEIGHT - 8.0).to_string();
    let sides = [(shown.first(), LEFT, "start"), (shown.last().filter(|_| shown.len() > 1), WIDTH, "end")];
    for (change, x, anchor) in sides {
        let Some((change, _)) = change else { continue };
        let place = [("class", "tick"), ("x", &*x.to_string()), ("y", &*y), ("text-anchor", anchor)];
        html.element("text", &place, &clock(change.committed));
    }
}

fn line(html: &mut Html, class: &'static str, left: f64, y: &str) {
    let (left, right) = (left.to_string(), WIDTH.to_string());
    html.within("line", &[("class", class), ("x1", &left), ("x2", &right), ("y1", y), ("y2", y)], |_| {});
}

/// A dotted line across the dots, named above all of them, where its words cover none.
fn level(html: &mut Html, scale: &Scale, latency: Duration, name: &'static str) {
    line(html, "level", LEFT, &format!("{:.1}", scale.y(latency)));
    let (x, y) = (WIDTH.to_string(), (TOP - 5.0).to_string());
    let text = format!("dotted: {name} {}", duration(latency));
    html.element("text", &[("class", "note"), ("x", &x), ("y", &y), ("text-anchor", "end")], &text);
}

fn dot(html: &mut Html, x: f64, y: f64, change: &Change, latency: Duration) {
    let class = match (&change.outcome, change.kind) {
        (Outcome::Failed(_), _) => "dot failed",
        (_, ChangeKind::Full) => "dot full",
        (_, ChangeKind::Partial) => "dot part",
    };
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    html.within("circle", &[("class", class), ("cx", &x), ("cy", &y), ("r", "3.2")], |html| {
        html.element("title", &[], &format!("No. {}: {}", change.number, duration(latency)));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_what_they_are_made_for() {
        for (shortest, longest) in
            [(0, 0), (1, 900), (50, 3_000_000), (7_000_000, 7_000_000_000), (0, u64::MAX)]
        {
            let (shortest, longest) = (Duration::from_micros(shortest), Duration::from_micros(longest));
            let scale = Scale::of(shortest, longest);
            assert!(scale.high - scale.low >= 2 && scale.low >= LOWEST && scale.high <= HIGHEST);
            let inside = TOP..=HEIGHT - BOTTOM;
            assert!(inside.contains(&scale.y(shortest)) && inside.contains(&scale.y(longest)));
            assert!(scale.y(longest) <= scale.y(shortest));
        }
    }

    #[test]
    fn powers_of_ten_are_named() {
        assert_eq!(
            [-5, -4, -3, -2, -1, 0, 1, 4].map(round),
            ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "10000 s"]
        );
    }
}
