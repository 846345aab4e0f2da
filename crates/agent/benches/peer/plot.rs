//! One measure over the number of Services, a line for each kind of proxy, both axes logarithmic. SVG by hand.
//!
//! Switchyard's lines are solid, kube-proxy's are dashed; a hollow point with an arrow is a bound: not done after that time.

use std::fmt::Write;

use crate::kind::{KINDS, Kind, Program};
use crate::measure::{Measure, Value};
use crate::report::Figures;
use crate::text::thousands;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Names beside line ends keep this distance.
const NAME_HEIGHT: f64 = 14.0;

/// The scales: decimal logarithms of what lies at the edges.
struct Plot {
    services: (f64, f64),
    values: (f64, f64),
}

struct Line {
    kind: &'static Kind,
    points: Vec<(u32, Value)>,
}

/// The picture.
pub(crate) fn svg(title: &str, measure: &Measure, figures: &Figures) -> String {
    let line = |kind| Line { kind, points: figures.points(kind, measure) };
    let lines: Vec<Line> = KINDS.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let sizes = || points().map(|(services, _)| f64::from(*services));
    let values = || points().map(|(_, value)| value.number.max(1e-6));
    let plot = Plot {
        services: span(sizes(), |log| log),
        values: (span(values(), f64::floor).0, span(values(), f64::ceil).1),
    };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
    );
    let _ = writeln!(out, r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#);
    let _ = writeln!(out, r#"<text x="{LEFT}" y="20" font-size="14">{title}</text>"#);
    plot.axes(&mut out, points().map(|(services, _)| *services).collect());
    lines.iter().for_each(|line| plot.line(line, &mut out));
    plot.names(&lines, &mut out);
    out.push_str("</svg>\n");
    out
}

/// The logarithms of the smallest and the largest value, apart from each other.
fn span(values: impl Iterator<Item = f64> + Clone, edge: impl Fn(f64) -> f64) -> (f64, f64) {
    let low = edge(values.clone().fold(f64::INFINITY, f64::min).log10());
    let high = edge(values.fold(0.0, f64::max).log10());
    if low.is_finite() && high > low { (low, high) } else { (low.min(0.0), low.min(0.0) + 1.0) }
}

impl Plot {
    fn x(&self, services: u32) -> f64 {
        let (low, high) = self.services;
        LEFT + (f64::from(services).log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        HEIGHT - BOTTOM - (value.max(1e-6).log10() - low) / (high - low) * (HEIGHT - BOTTOM - TOP)
    }

    fn axes(&self, out: &mut String, mut sizes: Vec<u32>) {
        let (mut decade, high) = self.values;
        while decade <= high + 0.5 {
            let (value, right) = (10_f64.powf(decade), WIDTH - RIGHT);
            let y = self.y(value);
            let _ = writeln!(
                out,
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{right:.1}" y2="{y:.1}" stroke="#dddddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{value}</text>"##,
                LEFT - 6.0,
                y + 4.0
            );
            decade += 1.0;
        }
        sizes.sort_unstable();
        sizes.dedup();
        for services in sizes {
            let (x, y, text) = (self.x(services), HEIGHT - BOTTOM + 18.0, thousands(services));
            let _ = writeln!(out, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{text}</text>"#);
        }
        let (middle, y) = (LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - 10.0);
        let _ = writeln!(
            out,
            r#"<text x="{middle:.1}" y="{y:.1}" text-anchor="middle">Services, 5 endpoints each</text>"#
        );
    }

    fn line(&self, line: &Line, out: &mut String) {
        let (colour, dashes) = style(line.kind);
        let places =
            || line.points.iter().map(|(services, value)| (self.x(*services), self.y(value.number), value));
        let path: Vec<String> = places().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>"#,
            path.join(" ")
        );
        for (x, y, value) in places() {
            let fill = if value.is_at_least { "white" } else { colour };
            let _ =
                writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{fill}" stroke="{colour}"/>"#);
            if value.is_at_least {
                let tip = y - 14.0;
                let _ = writeln!(
                    out,
                    r#"<path d="M{x:.1} {:.1}V{tip:.1}m-3 4l3 -4l3 4" fill="none" stroke="{colour}"/>"#,
                    y - 4.0
                );
            }
        }
    }

    /// Names beside the ends of their lines, none over another.
    fn names(&self, lines: &[Line], out: &mut String) {
        let end = |line: &Line| line.points.last().map(|(_, value)| (self.y(value.number), line.kind));
        let mut names: Vec<(f64, &Kind)> = lines.iter().filter_map(end).collect();
        names.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let (mut free, x) = (0.0_f64, WIDTH - RIGHT + 10.0);
        for (y, kind) in names {
            let y = y.max(free);
            free = y + NAME_HEIGHT;
            let (colour, _) = style(kind);
            let _ =
                writeln!(out, r#"<text x="{x:.1}" y="{:.1}" fill="{colour}">{}</text>"#, y + 4.0, kind.label);
        }
    }
}

/// A colour for each way to write rules.
fn style(kind: &Kind) -> (&'static str, &'static str) {
    let colour = match (kind.backend(), kind.program) {
        (None, Program::Next) => "#8e44ad",
        (None, _) if kind.is_relay() => "#148f77",
        (None, _) => "#1f618d",
        (Some("legacy"), Program::Next) => "#b7950b",
        (Some("legacy"), _) => "#7d8a00",
        (Some(_), Program::Next) => "#e67e22",
        (Some(_), _) => "#c0392b",
    };
    let dashes = if kind.program == Program::Ours { "" } else { r#" stroke-dasharray="6 4""# };
    (colour, dashes)
}
