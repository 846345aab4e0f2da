//! Desired state against the kernel, in words that fit every mode.
//!
//! In: what a mode finds when it reads back what it owns. Out: a [`Difference`], empty if the kernel holds what it should. Looking changes
//! nothing. However much differs, only the first [`LINES`] lines are kept; the rest is counted.

use std::fmt;

use switchyard_model::ServicePortName;

use crate::printable::bounded;

/// Lines that are kept.
pub const LINES: usize = 1000;

/// Longest text of a line. What is extra was written by others.
const MAX_TEXT: usize = 600;

/// On which side something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The kernel has it and should not.
    Extra,
    /// The kernel should have it and does not.
    Missing,
}

impl Side {
    /// As in a patch that mends the kernel.
    pub fn sign(self) -> char {
        match self {
            Self::Extra => '-',
            Self::Missing => '+',
        }
    }
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// On which side it is.
    pub side: Side,
    /// What it is, in one line.
    pub object: String,
    /// Whose it is, if it is one service port's.
    pub owner: Option<ServicePortName>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.side.sign(), self.object)?;
        self.owner.as_ref().map_or(Ok(()), |owner| write!(f, "  # {owner}"))
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    lines: Vec<Line>,
    count: usize,
}

impl Difference {
    /// The first lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// How many lines there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// True if the kernel holds what it should.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn missing(&mut self, owner: Option<&ServicePortName>, object: impl fmt::Display) {
        self.add(Side::Missing, owner, &object);
    }

    pub(crate) fn extra(&mut self, owner: Option<&ServicePortName>, object: impl fmt::Display) {
        self.add(Side::Extra, owner, &object);
    }

    fn add(&mut self, side: Side, owner: Option<&ServicePortName>, object: &dyn fmt::Display) {
        self.count += 1;
        if self.lines.len() < LINES {
            let object = bounded(object.to_string().as_bytes(), MAX_TEXT);
            self.lines.push(Line { side, object, owner: owner.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_counted() {
        let mut difference = Difference::default();
        assert!(difference.is_empty());
        for n in 0..LINES + 5 {
            difference.missing(None, format!("rule {n}\n\x1b[31m{}", "x".repeat(2 * MAX_TEXT)));
        }
        assert_eq!((difference.lines().len(), difference.count()), (LINES, LINES + 5));
        let shown = difference.lines()[0].to_string();
        assert!(shown.starts_with("+ rule 0 | \\u{1b}[31mx") && shown.len() <= MAX_TEXT + 2, "{shown}");
    }
}
