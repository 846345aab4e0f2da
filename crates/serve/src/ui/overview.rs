//! How the proxy is: counts, the latency plot and the latest changes.
//!
//! In: counts and the ledger. Out: the first page.

use super::changes;
use super::html::Html;
use super::plot::{self, Spread};
use super::values::Overview;
use super::words::{count, counted, duration};

/// Rows of the ledger on this page.
const ROWS: usize = 12;

/// The content of the page.
pub(super) fn content(html: &mut Html, overview: &Overview) {
    html.element("h1", &[("class", "unseen")], "Overview");
    if !overview.is_started {
        html.constant("<p class=\"notice\" role=\"status\"><strong>Starting.</strong> Nothing is written before Services and EndpointSlices are both known.</p>");
    }
    html.within("ul", &[("class", "tiles")], |html| tiles(html, overview));
    plot::figure(html, &overview.changes.entries);
    changes::ledger(html, &overview.changes, ROWS);
    html.constant("<p><a href=\"changes\">All changes</a></p>");
}

fn tiles(html: &mut Html, overview: &Overview) {
    let sum = |part: fn(&super::FamilyCounts) -> usize| overview.families.iter().map(part).sum::<usize>();
    let families = overview.families.iter().map(|family| format!("{} {}", family.family, family.node_ip));
    tile(html, "services", "Services", &count(overview.services), &families.collect::<Vec<_>>().join(", "));
    let ports = counted(sum(|family| family.service_ports), "port", "ports");
    tile(
        html,
        "services",
        "Endpoints",
        &count(sum(|family| family.endpoints)),
        &format!("behind {ports} of Services"),
    );
    let spread = Spread::of(&overview.changes.entries);
    let (median, rest) = match &spread {
        None => ("–".to_owned(), "nothing has changed yet".to_owned()),
        Some(spread) => (
            duration(spread.median),
            format!(
                "99% within {}, of the last {}",
                duration(spread.high),
                counted(spread.count, "change", "changes")
            ),
        ),
    };
    tile(html, "changes", "Median latency", &median, &rest);
    let (text, tone) = match overview.set_aside {
        0 => ("all objects are taken as they are", ""),
        _ => ("objects, frontends, ports of Services", "attention"),
    };
    html.within("li", &[("class", tone)], |html| {
        inside(html, "set-aside", "Set aside", &count(overview.set_aside), text)
    });
}

fn tile(html: &mut Html, link: &'static str, name: &'static str, value: &str, more: &str) {
    html.within("li", &[], |html| inside(html, link, name, value, more));
}

fn inside(html: &mut Html, link: &'static str, name: &'static str, value: &str, more: &str) {
    html.within("a", &[("href", link)], |html| {
        html.element("span", &[("class", "label")], name);
        html.element("strong", &[], value);
        html.element("span", &[("class", "more")], more);
    });
}
