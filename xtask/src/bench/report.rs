//! Results as a table for the terminal, and as JSON, Markdown and pictures for `docs/benchmarks`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::machine::Machine;
use super::plot::Picture;
use super::{Goal, Measured, grid};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    command: String,
    machine: Machine,
    pub(super) sections: Vec<Section>,
}

/// What one part has measured.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    pub(super) title: &'static str,
    /// What was done, for somebody who knows nothing about it yet.
    pub(super) about: &'static str,
    pub(super) lines: Vec<Measured>,
    pub(super) pictures: Vec<Picture>,
}

impl Report {
    pub(super) fn new(machine: Machine, arguments: &[&str]) -> Self {
        let mut command = "make bench".to_owned();
        if !arguments.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(command, " ARGS='{}'", arguments.join(" "));
        }
        Self { command, machine, sections: Vec::new() }
    }

    /// Everything has run.
    pub(super) fn finish(&mut self) {
        self.machine.note_load();
    }

    /// Goals that were missed.
    pub(super) fn missed(&self) -> usize {
        let lines = self.sections.iter().flat_map(|section| &section.lines);
        lines.filter(|line| line.goal == Goal::Missed).count()
    }

    /// For a terminal.
    pub(super) fn table(&self) -> String {
        self.sections.iter().map(Section::text).collect::<Vec<_>>().join("\n")
    }

    /// Writes `results.json`, `README.md` and the pictures.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join("results.json"), serde_json::to_string_pretty(self)? + "\n")?;
        fs::write(directory.join("README.md"), self.markdown())?;
        for picture in self.sections.iter().flat_map(|section| &section.pictures) {
            fs::write(directory.join(picture.file), picture.svg())?;
        }
        Ok(())
    }

    fn markdown(&self) -> String {
        let mut out = format!(
            "# Benchmarks\n\nWritten by `{}`. Counts and ratios, measured side by side in one run, are goals; times \
             move from machine to machine. Columns are numbers of Services, each with one TCP port and five endpoints.\n\n",
            self.command
        );
        out.push_str("| | |\n|---|---|\n");
        for (name, value) in self.machine.rows() {
            let _ = writeln!(out, "| {name} | {value} |");
        }
        for section in &self.sections {
            section.markdown(&mut out);
        }
        out
    }
}

impl Section {
    /// Every column as wide as its widest value.
    pub(super) fn text(&self) -> String {
        let rows = grid::rows(&self.lines);
        let width =
            |n: usize| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max();
        let mut out = format!("{}\n", self.title);
        for row in &rows {
            let cells =
                row.iter().enumerate().map(|(n, cell)| format!("{cell:<0$}", width(n).unwrap_or_default()));
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        for line in grid::loose(&self.lines) {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    pub(super) fn markdown(&self, out: &mut String) {
        let _ = writeln!(out, "\n## {}\n\n{}\n", self.title, self.about);
        for (n, row) in grid::rows(&self.lines).iter().enumerate() {
            let _ = writeln!(out, "| {} |", row.join(" | "));
            if n == 0 {
                let values = "---:|".repeat(row.len().saturating_sub(3));
                let _ = writeln!(out, "|---|{values}---|---|");
            }
        }
        let loose = grid::loose(&self.lines);
        if !loose.is_empty() {
            let _ = writeln!(out, "\n- {}", loose.join("\n- "));
        }
        for picture in &self.pictures {
            let _ = writeln!(out, "\n![{}]({})", picture.title, picture.file);
        }
    }
}
