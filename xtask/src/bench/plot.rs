//! Measurements as a picture: one value over the number of Services, one line for each thing that was measured. SVG by
//! hand; it needs no program to make and any browser to see.

use std::fmt::Write;

use serde::Serialize;

use super::thousands;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Room for the axes.
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 170.0;
const GRID_LINES: u32 = 5;
/// Names beside line ends keep this distance.
const NAME_HEIGHT: f64 = 14.0;
const COLOURS: [&str; 3] = ["#1f618d", "#c0392b", "#7d8a00"];
const GOAL_COLOUR: &str = "#888888";

/// What to draw. In the results this is where the points are.
#[derive(Debug, Serialize)]
pub(super) struct Picture {
    /// The file that it goes to.
    pub(super) file: &'static str,
    pub(super) title: String,
    /// Behind the value at the end of each line.
    pub(super) unit: &'static str,
    pub(super) lines: Vec<Line>,
    /// A value not to be passed.
    pub(super) goal: Option<f64>,
}

/// One thing that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// Services and value.
    pub(super) points: Vec<(u32, f64)>,
}

impl Picture {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let plot = Plot {
            services: points().map(|(services, _)| f64::from(*services)).fold(1.0, f64::max),
            most: round(points().map(|(_, value)| *value).chain(self.goal).fold(0.1, f64::max)),
        };
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
        );
        let _ = writeln!(out, r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#);
        let _ = writeln!(out, r#"<text x="{LEFT}" y="20" font-size="14">{}</text>"#, self.title);
        plot.values(&mut out);
        plot.services(self.lines.first().map_or(&[], |line| &line.points), &mut out);
        if let Some(goal) = self.goal {
            plot.goal(goal, &mut out);
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.into_iter().cycle()) {
            plot.line(line, colour, &mut out);
        }
        plot.names(self, &mut out);
        out.push_str("</svg>\n");
        out
    }
}

/// The scales.
struct Plot {
    services: f64,
    most: f64,
}

impl Plot {
    fn x(&self, services: u32) -> f64 {
        LEFT + f64::from(services) / self.services * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value / self.most * (HEIGHT - BOTTOM - TOP)
    }

    fn values(&self, out: &mut String) {
        for n in 0..=GRID_LINES {
            let value = self.most * f64::from(n) / f64::from(GRID_LINES);
            let y = self.y(value);
            let _ = writeln!(
                out,
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#dddddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"##,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                short(value)
            );
        }
    }

    fn services(&self, points: &[(u32, f64)], out: &mut String) {
        for (services, _) in points {
            let (x, y) = (self.x(*services), HEIGHT - BOTTOM + 18.0);
            let _ = writeln!(
                out,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{}</text>"#,
                thousands(*services)
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let _ = writeln!(
            out,
            r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">Services, 5 endpoints each</text>"#,
            HEIGHT - 10.0
        );
    }

    fn goal(&self, goal: f64, out: &mut String) {
        let y = self.y(goal);
        let _ = writeln!(
            out,
            r#"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="{GOAL_COLOUR}" stroke-dasharray="6 4"/>"#,
            WIDTH - RIGHT
        );
    }

    fn line(&self, line: &Line, colour: &str, out: &mut String) {
        let places = || line.points.iter().map(|(services, value)| (self.x(*services), self.y(*value)));
        let path: Vec<String> = places().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            path.join(" ")
        );
        for (x, y) in places() {
            let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#);
        }
    }

    /// Names beside the ends of their lines, none over another.
    fn names(&self, picture: &Picture, out: &mut String) {
        let mut names = Vec::new();
        for (line, colour) in picture.lines.iter().zip(COLOURS.into_iter().cycle()) {
            if let Some((_, value)) = line.points.last() {
                let text = format!("{}: {}{}", line.name, short(*value), picture.unit);
                names.push((self.y(*value), text, colour));
            }
        }
        if let Some(goal) = picture.goal {
            names.push((self.y(goal), format!("goal: {}{}", short(goal), picture.unit), GOAL_COLOUR));
        }
        names.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let mut free = 0.0_f64;
        for (y, text, colour) in names {
            let y = y.max(free);
            free = y + NAME_HEIGHT;
            let x = WIDTH - RIGHT + 8.0;
            let _ = writeln!(out, r#"<text x="{x:.1}" y="{:.1}" fill="{colour}">{text}</text>"#, y + 4.0);
        }
    }
}

/// The next larger number whose fifths are round.
fn round(value: f64) -> f64 {
    let mut unit = 1e-3;
    loop {
        for step in [1.0, 2.0, 4.0, 5.0] {
            let top = unit * step * f64::from(GRID_LINES);
            if top >= value || !top.is_finite() {
                return top;
            }
        }
        unit *= 10.0;
    }
}

/// As many digits as a reader wants.
fn short(value: f64) -> String {
    let is_whole = (value - value.round()).abs() < 1e-9;
    if value >= 100.0 || is_whole {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_ends_at_a_round_number_that_holds_everything() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        for (value, top) in [(0.1, 0.1), (2.5, 2.5), (2.6, 5.0), (82.5, 100.0), (159.0, 200.0), (5e4, 5e4)] {
            assert!(close(round(value), top), "{value}: {} instead of {top}", round(value));
        }
    }

    #[test]
    fn names_do_not_lie_over_each_other() {
        let line =
            |name: &str, value| Line { name: name.to_owned(), points: vec![(1_000, 1.0), (10_000, value)] };
        let picture = Picture {
            file: "x.svg",
            title: "x".to_owned(),
            unit: " s",
            lines: vec![line("a", 2.0), line("b", 2.01)],
            goal: Some(2.0),
        };
        let svg = picture.svg();
        let place = |name: &str| -> f64 {
            let line = svg.lines().find(|line| line.contains(name)).unwrap();
            line.split("y=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap()
        };
        let mut places = [place("a: "), place("b: "), place("goal: ")];
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= NAME_HEIGHT - 0.1), "{places:?}");
    }
}
