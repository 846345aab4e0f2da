//! The first sync as a picture: seconds over Services, one line for batches and one for a single transaction. SVG by
//! hand; it needs no program to make and any browser to see.

use std::fmt::Write;

use super::first_sync::Curve;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Room for the axes.
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 50.0;
const TOP: f64 = 40.0;
const RIGHT: f64 = 150.0;
const GRID_LINES: u32 = 5;

/// The picture.
pub(super) fn svg(curve: &Curve) -> String {
    let most = curve.points.iter().map(|p| p.one_transaction_seconds.max(p.in_batches_seconds));
    let plot = Plot {
        services: curve.points.iter().map(|p| f64::from(p.services)).fold(1.0, f64::max),
        seconds: most.fold(0.1, f64::max),
    };
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
    );
    let _ = writeln!(out, r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#);
    let _ = writeln!(
        out,
        r#"<text x="{LEFT}" y="20" font-size="14">First sync through iptables-nft: seconds by number of Services</text>"#
    );
    plot.axes(curve, &mut out);
    let single: Vec<(u32, f64)> =
        curve.points.iter().map(|p| (p.services, p.one_transaction_seconds)).collect();
    plot.line(&single, "#c0392b", "one transaction", &mut out);
    let batches: Vec<(u32, f64)> = curve.points.iter().map(|p| (p.services, p.in_batches_seconds)).collect();
    plot.line(&batches, "#1f618d", &format!("batches of {}", curve.batch), &mut out);
    out.push_str("</svg>\n");
    out
}

/// The scales.
struct Plot {
    services: f64,
    seconds: f64,
}

impl Plot {
    fn x(&self, services: u32) -> f64 {
        LEFT + f64::from(services) / self.services * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, seconds: f64) -> f64 {
        HEIGHT - BOTTOM - seconds / self.seconds * (HEIGHT - BOTTOM - TOP)
    }

    fn axes(&self, curve: &Curve, out: &mut String) {
        for n in 0..=GRID_LINES {
            let seconds = self.seconds * f64::from(n) / f64::from(GRID_LINES);
            let y = self.y(seconds);
            let _ = writeln!(
                out,
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{:.1}" y2="{y:.1}" stroke="#dddddd"/><text x="{:.1}" y="{:.1}" text-anchor="end">{seconds:.1}</text>"##,
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0
            );
        }
        for point in &curve.points {
            let x = self.x(point.services);
            let y = HEIGHT - BOTTOM + 18.0;
            let _ = writeln!(
                out,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{}</text>"#,
                point.services
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let _ = writeln!(
            out,
            r#"<text x="{middle:.1}" y="{:.1}" text-anchor="middle">Services, 5 endpoints each</text>"#,
            HEIGHT - 10.0
        );
    }

    fn line(&self, points: &[(u32, f64)], colour: &str, name: &str, out: &mut String) {
        let places: Vec<(f64, f64)> = points.iter().map(|(n, s)| (self.x(*n), self.y(*s))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            out,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            path.join(" ")
        );
        for (x, y) in &places {
            let _ = writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#);
        }
        if let (Some((x, y)), Some((_, seconds))) = (places.last(), points.last()) {
            let _ = writeln!(
                out,
                r#"<text x="{:.1}" y="{:.1}" fill="{colour}">{name}: {seconds:.1} s</text>"#,
                x + 8.0,
                y + 4.0
            );
        }
    }
}
