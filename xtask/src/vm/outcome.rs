//! What a guest's account is worth. Pure: lines of its serial line in, a verdict out.
//!
//! The guest frames each test program with lines that begin with `@vm` and a word that only this run knows. Success needs all of it: the
//! right kernel, every program begun and ended in order with status 0, every program's own count complete and free of failures (of one that measures: its figures), the closing
//! line, a console without a crash, and an emulator that ended by itself. Whatever is missing is a complaint.

use super::guest::{Judged, Step};
use crate::bench::ipvs::MARK as FIGURES;

/// What stands before the guest's own lines.
pub(super) const MARK: &str = "@vm";

/// Lines of the console that nobody should see, each as it begins or after the time of the message.
const CRASHES: [&str; 7] = [
    "Kernel panic",
    "Oops",
    "BUG: ",
    "kernel BUG at",
    "general protection fault",
    "Out of memory",
    "rcu_sched self-detected stall",
];

/// Tests that ran to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// How the emulator ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, as after the guest's power-off.
    Normal,
    /// With an error, or killed by somebody else.
    Failed,
    /// Killed at the deadline.
    Deadline,
}

/// The judgement of one run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) counts: Counts,
    /// Why this is no success; empty for a success.
    pub(super) complaints: Vec<String>,
    /// Lines of figures, if the step was to print some.
    pub(super) figures: Vec<String>,
}

/// The account so far.
pub(super) struct Account<'a> {
    /// The word that only this run knows.
    word: &'a str,
    release: &'a str,
    steps: &'a [Step],
    booted: bool,
    closed: bool,
    ended: usize,
    running: Option<Program>,
    verdict: Verdict,
}

/// What a test program has told so far.
#[derive(Default)]
struct Program {
    announced: Option<usize>,
    summaries: Vec<Summary>,
    failures: Vec<String>,
}

#[derive(Clone, Copy)]
struct Summary {
    counts: Counts,
    ignored: usize,
}

impl<'a> Account<'a> {
    pub(super) fn new(word: &'a str, release: &'a str, steps: &'a [Step]) -> Self {
        let (booted, closed, ended, running, verdict) = (false, false, 0, None, Verdict::default());
        Self { word, release, steps, booted, closed, ended, running, verdict }
    }

    /// What runs now, for whoever waits.
    pub(super) fn stage(&self) -> &str {
        match (&self.running, self.booted) {
            (Some(_), _) => self.steps.get(self.ended).map_or("something unknown", |step| step.name.as_str()),
            (None, false) => "boot",
            (None, true) => "between tests",
        }
    }

    /// Takes a line.
    pub(super) fn line(&mut self, line: &str) {
        let own = line.strip_prefix(MARK).and_then(|rest| rest.trim_start().strip_prefix(self.word));
        match own {
            Some(own) => self.own_line(&own.split_whitespace().collect::<Vec<_>>()),
            None => self.test_line(line),
        }
    }

    fn own_line(&mut self, words: &[&str]) {
        let position = self.ended.to_string();
        match *words {
            ["boot", release] if !self.booted => {
                self.booted = true;
                if release != self.release {
                    self.complain(format!("the guest runs {release}, not {}", self.release));
                }
            }
            ["begin", number] if self.booted && self.running.is_none() && number == position => {
                self.running = Some(Program::default());
            }
            ["end", number, status] if number == position && self.running.is_some() => {
                let program = self.running.take().unwrap_or_default();
                self.judge(&program, status);
                self.ended += 1;
            }
            ["done"] if self.ended == self.steps.len() && self.running.is_none() => self.closed = true,
            _ => self.complain(format!("the guest's account is out of order: {}", words.join(" "))),
        }
    }

    fn test_line(&mut self, line: &str) {
        let Some(program) = &mut self.running else { return };
        if line.starts_with(FIGURES) {
            self.verdict.figures.push(line.to_owned());
        }
        if let Some(count) = announced(line) {
            // Only the first counts: a second harness inside of a test has a summary of its own, which is a complaint.
            program.announced = program.announced.or(Some(count));
        }
        program.summaries.extend(summary(line));
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            program.failures.push(name.to_owned());
        }
        if line.starts_with("SKIPPED") {
            self.complain(line.to_owned());
        }
    }

    fn judge(&mut self, program: &Program, status: &str) {
        let step = self.steps.get(self.ended);
        let name = step.map_or("something unknown", |step| step.name.as_str()).to_owned();
        let judged = step.map_or(Judged::Tests, |step| step.judged);
        let complaint = match (program.announced, program.summaries.as_slice()) {
            _ if judged == Judged::Figures => {
                let is_good = status == "0" && !self.verdict.figures.is_empty();
                (!is_good).then(|| format!("status {status} and {} figures", self.verdict.figures.len()))
            }
            (Some(announced), [summary]) => {
                let Summary { counts, ignored } = *summary;
                self.verdict.counts.add(counts);
                let ran = counts.passed + counts.failed;
                if ran + ignored != announced {
                    Some(format!("{announced} tests were announced, {ran} ran"))
                } else if counts.failed > 0 || status != "0" {
                    let names = program.failures.join(", ");
                    Some(format!("{} failed, status {status}: {names}", counts.failed))
                } else if ignored > 0 {
                    Some(format!("{ignored} tests were ignored"))
                } else if ran == 0 && judged == Judged::Tests {
                    Some("no test ran".to_owned())
                } else {
                    None
                }
            }
            (_, summaries) => Some(format!("status {status} and {} summaries of tests", summaries.len())),
        };
        if let Some(complaint) = complaint {
            self.complain(format!("{name}: {complaint}"));
        }
    }

    /// The end: what the console said, and how the emulator ended.
    pub(super) fn finish(mut self, console: &str, end: End) -> Verdict {
        for line in console.lines().filter(|line| is_crash(line)).take(5) {
            self.complain(format!("console: {line}"));
        }
        match end {
            End::Normal => {}
            End::Failed => self.complain("the emulator failed".to_owned()),
            End::Deadline => self.complain(format!("the deadline passed during: {}", self.stage())),
        }
        if !self.closed {
            let stage = self.stage().to_owned();
            self.complain(format!("the account ends without its closing line, during: {stage}"));
        }
        if self.verdict.counts == Counts::default() && self.verdict.figures.is_empty() {
            self.complain("no test ran at all".to_owned());
        }
        self.verdict
    }

    fn complain(&mut self, text: String) {
        self.verdict.complaints.push(text);
    }
}

/// `running 3 tests`.
fn announced(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("running ")?;
    rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?.parse().ok()
}

/// `test result: ok. 3 passed; 0 failed; 0 ignored; ...`, also behind the output of a test that did not end its own line.
fn summary(line: &str) -> Option<Summary> {
    let (_, rest) = line.split_once("test result: ")?;
    let (_, rest) = rest.split_once(". ")?;
    let mut numbers = rest.split("; ").map(|part| part.split_once(' '));
    let mut number = |expected: &str| {
        let (number, what) = numbers.next()??;
        (what == expected).then(|| number.parse().ok())?
    };
    let counts = Counts { passed: number("passed")?, failed: number("failed")? };
    Some(Summary { counts, ignored: number("ignored")? })
}

fn is_crash(line: &str) -> bool {
    let text = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, text)) => text,
        None => line,
    };
    CRASHES.iter().any(|crash| text.starts_with(crash))
}

#[cfg(test)]
mod tests;
