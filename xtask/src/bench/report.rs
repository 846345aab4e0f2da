//! Results as a table for the terminal, and as JSON, Markdown and a picture for `docs/benchmarks`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::first_sync::Curve;
use super::machine::Machine;
use super::{Goal, Measured, plot};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    command: String,
    machine: Machine,
    pub(super) lines: Vec<Measured>,
    pub(super) curve: Option<Curve>,
}

impl Report {
    pub(super) fn new(machine: Machine, arguments: &[&str]) -> Self {
        let mut command = "make bench".to_owned();
        if !arguments.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(command, " ARGS='{}'", arguments.join(" "));
        }
        Self { command, machine, lines: Vec::new(), curve: None }
    }

    /// Everything has run.
    pub(super) fn finish(&mut self) {
        self.machine.note_load();
    }

    /// Goals that were missed.
    pub(super) fn missed(&self) -> usize {
        self.lines.iter().filter(|line| line.goal == Goal::Missed).count()
    }

    /// For a terminal: every column as wide as its widest value.
    pub(super) fn table(&self) -> String {
        let rows = self.rows();
        let mut widths = [0; 4];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let [what, value, wanted, goal] = widths;
        let line = |[a, b, c, d]: &[String; 4]| {
            let text = format!("{a:<what$}  {b:>value$}  {c:<wanted$}  {d:<goal$}");
            text.trim_end().to_owned() + "\n"
        };
        rows.iter().map(line).collect()
    }

    /// Writes `results.json`, `README.md` and, if the first sync was measured, `first-sync.svg`.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("results.json"), serde_json::to_string_pretty(self)? + "\n")?;
        fs::write(directory.join("README.md"), self.markdown())?;
        if let Some(curve) = &self.curve {
            fs::write(directory.join("first-sync.svg"), plot::svg(curve))?;
        }
        Ok(())
    }

    fn rows(&self) -> Vec<[String; 4]> {
        let head = ["what", "measured", "goal", ""].map(str::to_owned);
        let row = |line: &Measured| {
            let goal = match line.goal {
                Goal::Met => "ok",
                Goal::Missed => "MISSED",
                Goal::None => "",
            };
            [line.what.clone(), line.value.clone(), line.wanted.to_owned(), goal.to_owned()]
        };
        std::iter::once(head).chain(self.lines.iter().map(row)).collect()
    }

    fn markdown(&self) -> String {
        let mut out = format!(
            "# Benchmarks\n\nWritten by `{}`. Counts and ratios are goals; times move from machine to machine.\n\n",
            self.command
        );
        out.push_str("| | |\n|---|---|\n");
        for (name, value) in self.machine.rows() {
            let _ = writeln!(out, "| {name} | {value} |");
        }
        out.push('\n');
        for (n, row) in self.rows().iter().enumerate() {
            let _ = writeln!(out, "| {} |", row.join(" | "));
            if n == 0 {
                out.push_str("|---|---:|---|---|\n");
            }
        }
        if self.curve.is_some() {
            out.push_str(
                "\nThe first sync writes the same rules in bounded batches, as Switchyard does, and in one \
                 transaction:\n\n![Seconds of the first sync by number of Services](first-sync.svg)\n",
            );
        }
        out
    }
}
