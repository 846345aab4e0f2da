//! The demo's table. Pure: results in, text out.

use std::fmt::Write;

use switchyard_plan::trace::Answer;

use super::rows::From;
use super::stage::Round;
use super::traffic::Outcome;

/// More than this would push the table off the screen.
const MAX_COMPLAINTS: usize = 5;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    has_colour: bool,
}

impl Look {
    pub(super) fn new(has_colour: bool) -> Self {
        Self { has_colour }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.has_colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Where to look further.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    pub(super) files: String,
    pub(super) metrics: String,
    pub(super) logs: String,
    pub(super) ask: String,
}

/// Lines below the table.
pub(super) fn notes(notes: &Notes, look: &Look) -> String {
    let line = |name: &str, value: &str| format!("  {} {value}\n", look.paint("1", &format!("{name:<8}")));
    format!(
        "\n{}{}{}{}\n",
        line("files", &notes.files),
        line("metrics", &notes.metrics),
        line("logs", &notes.logs),
        line("ask", &notes.ask)
    )
}

/// An aligned table of all rows, and below it what is wrong with the files.
pub(super) fn table(round: &Round, look: &Look) -> String {
    let outcomes = &round.outcomes;
    let header = ["SERVICE", "TYPE", "FROM", "DIALS", "ANSWERED BY", "SEEN AS"].map(str::to_owned);
    let rows: Vec<[String; 6]> = outcomes.iter().map(cells).collect();
    let mut widths = [0; 6];
    for row in std::iter::once(&header).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; 6]| -> String {
        row.iter().zip(widths).fold(String::new(), |mut text, (cell, width)| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{cell:<width$}  ");
            text
        })
    };
    let mut text = format!("\n  {}\n", look.paint("1", &format!("   {}", line(&header))));
    for (outcome, row) in outcomes.iter().zip(&rows) {
        let (mark, why) = match &outcome.wrong {
            None => (look.paint("32", "ok "), String::new()),
            Some(why) => (look.paint("31", "BAD"), format!(" <- {why}")),
        };
        let _ = writeln!(text, "  {mark}{}{why}", line(row));
    }
    for complaint in round.complaints.iter().take(MAX_COMPLAINTS) {
        let _ = writeln!(text, "  {} {complaint}", look.paint("33", "!"));
    }
    text
}

fn cells(outcome: &Outcome) -> [String; 6] {
    let row = &outcome.row;
    let from = match row.from {
        From::Pod => "a pod on n1",
        From::Outside => "outside",
    };
    let count = |(name, n): (&String, &usize)| format!("{name} x{n}");
    let mut answers: Vec<String> = outcome.answered.iter().map(count).collect();
    answers.extend(outcome.unanswered.iter().map(|(what, n)| format!("{what} x{n}")));
    if row.is_sticky {
        answers.push("(sticky)".to_owned());
    }
    let is_due = matches!(row.expected, Answer::Endpoints(_));
    if !is_due {
        answers.push("(as it should)".to_owned());
    }
    let seen: Vec<String> = outcome.seen.iter().map(ToString::to_string).collect();
    [
        switchyard_model::Printable(&row.service).to_string(),
        row.kind.to_owned(),
        from.to_owned(),
        format!("{}/{}", row.to, row.protocol),
        answers.join(", "),
        seen.join(", "),
    ]
}
