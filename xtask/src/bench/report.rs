//! Results as a table for the terminal, and as JSON, Markdown and pictures for `docs/benchmarks`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::machine::Machine;
use super::plot::Picture;
use super::{Goal, Measured};

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

    /// For a terminal: every column as wide as its widest value.
    pub(super) fn table(&self) -> String {
        let mut widths = [0; 4];
        for row in self.sections.iter().flat_map(Section::rows) {
            for (width, cell) in widths.iter_mut().zip(&row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let [what, value, wanted, goal] = widths;
        let line = |[a, b, c, d]: &[String; 4]| {
            let text = format!("{a:<what$}  {b:>value$}  {c:<wanted$}  {d:<goal$}");
            text.trim_end().to_owned() + "\n"
        };
        let of_section = |section: &Section| -> String { section.rows().iter().map(line).collect() };
        let sections =
            self.sections.iter().map(|section| format!("{}\n{}", section.title, of_section(section)));
        sections.collect::<Vec<_>>().join("\n")
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
             move from machine to machine.\n\n",
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
    fn rows(&self) -> Vec<[String; 4]> {
        let row = |line: &Measured| {
            let goal = match line.goal {
                Goal::Met => "ok",
                Goal::Missed => "MISSED",
                Goal::None => "",
            };
            [line.what.clone(), line.value.clone(), line.wanted.to_owned(), goal.to_owned()]
        };
        self.lines.iter().map(row).collect()
    }

    fn markdown(&self, out: &mut String) {
        let _ = writeln!(out, "\n## {}\n\n{}\n", self.title, self.about);
        out.push_str("| what | measured | goal |  |\n|---|---:|---|---|\n");
        for row in self.rows() {
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
        for picture in &self.pictures {
            let _ = writeln!(out, "\n![{}]({})", picture.title, picture.file);
        }
    }
}
