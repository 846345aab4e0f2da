//! The change ledger: a row per sync, newest first. The page brings the rows that there are; the script adds those that come.
//!
//! In: entries of the ledger. Out: rows of a table, and the same cells as JSON for the script. It only puts texts into places, so both
//! look alike and nothing has to be escaped twice.

use serde::Serialize;

use super::html::{Html, visible};
use super::layout::{Tone, nothing, table};
use super::plot;
use super::values::{Change, ChangeKind, Changes, Outcome};
use super::words::{clock, count, duration};
use crate::machine_time;

/// Names in a cell.
const NAMES: usize = 4;

const HEADINGS: [(&str, &str); 9] = [
    ("No.", "num"),
    ("Seen", "num"),
    ("Committed", "num"),
    ("Services", "name"),
    ("Family", ""),
    ("Wrote", ""),
    ("Operations", "num"),
    ("Latency", "num"),
    ("Outcome", "chips"),
];

/// One cell of a row.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Cell {
    label: &'static str,
    class: &'static str,
    text: String,
    /// The class of the chip that the text is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    chip: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
}

/// A row for the script.
#[derive(Debug, Serialize)]
struct Row {
    number: u64,
    cells: Vec<Cell>,
}

/// The content of the page.
pub(super) fn content(html: &mut Html, changes: &Changes) {
    html.element("h1", &[], "Changes");
    plot::figure(html, &changes.entries);
    ledger(html, changes, usize::MAX);
}

/// The newest entries, newest first.
pub(super) fn ledger(html: &mut Html, changes: &Changes, limit: usize) {
    html.constant("<h2 class=\"withstate\">Ledger <span id=\"live\" role=\"status\"></span></h2>");
    if changes.entries.is_empty() {
        nothing(html, "No sync yet.");
    }
    let (last, limit_text) = (changes.last.to_string(), limit.min(512).to_string());
    table(html, "Syncs, newest first", &HEADINGS, |html| {
        html.within(
            "tbody",
            &[("id", "ledger"), ("data-last", &last), ("data-limit", &limit_text)],
            |html| {
                changes.entries.iter().rev().take(limit).for_each(|change| row(html, change));
            },
        );
    });
}

fn row(html: &mut Html, change: &Change) {
    html.within("tr", &[], |html| {
        for Cell { label, class, text, chip, title } in cells(change) {
            let title = title.as_deref();
            let mut attributes = vec![("data-label", label), ("class", class)];
            attributes.extend(title.map(|title| ("title", title)));
            html.within("td", &attributes, |html| match chip {
                Some(chip) => html.element("span", &[("class", chip)], &text),
                None => html.text(&text),
            });
        }
    });
    html.constant("\n");
}

/// A change for the script: one line of JSON.
pub(super) fn event(change: &Change) -> String {
    let cells = cells(change).into_iter().map(|cell| Cell {
        text: visible(&cell.text),
        title: cell.title.as_deref().map(visible),
        ..cell
    });
    serde_json::to_string(&Row { number: change.number, cells: cells.collect() }).unwrap_or_default()
}

fn cells(change: &Change) -> Vec<Cell> {
    let (tone, outcome, cause) = match &change.outcome {
        Outcome::Written => (Tone::Good, "Written".to_owned(), None),
        Outcome::SetAside(ports) => (Tone::Warn, format!("{} set aside", count(*ports)), None),
        Outcome::Failed(cause) => (Tone::Bad, "Failed".to_owned(), Some(cause.clone())),
    };
    let kind = match change.kind {
        ChangeKind::Full => "everything",
        ChangeKind::Partial => "differences",
    };
    let texts = [
        (change.number.to_string(), None),
        (change.seen.map_or_else(|| "–".to_owned(), clock), change.seen.map(machine_time)),
        (clock(change.committed), Some(machine_time(change.committed))),
        (services(change), None),
        (change.family.to_string(), None),
        (kind.to_owned(), None),
        (count(change.operations), None),
        (
            change.latency.map_or_else(|| "–".to_owned(), duration),
            Some(format!("planning and writing took {}", duration(change.took))),
        ),
    ];
    let plain = texts.into_iter().zip(HEADINGS).map(|((text, title), (label, class))| Cell {
        label,
        class,
        text,
        chip: None,
        title,
    });
    let (label, class) = ("Outcome", "chips");
    plain.chain([Cell { label, class, text: outcome, chip: Some(tone.chip()), title: cause }]).collect()
}

fn services(change: &Change) -> String {
    let names: Vec<String> = change.services.iter().take(NAMES).map(ToString::to_string).collect();
    match change.service_count.saturating_sub(names.len()) {
        0 if names.is_empty() => "–".to_owned(),
        0 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), count(more)),
    }
}
