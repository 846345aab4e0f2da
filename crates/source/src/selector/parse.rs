//! From text to requirements.
//!
//! In: any text. Out: requirements, or the place of the first mistake. Each step looks at the rest of the text once, so the time is linear.

use std::collections::BTreeSet;

use super::{Requirement, SelectorError, Wanted};
use crate::convert::{clip, is_dns_subdomain, is_label_value};

/// Longest selector: longer ones do not fit into a request.
const MAX_LENGTH: usize = 4096;

/// What ends a word.
const MARKS: [char; 7] = ['=', '!', '(', ')', ',', '<', '>'];

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut reader = Reader { text, rest: text };
    if text.len() > MAX_LENGTH {
        let problem = format!("it is longer than {MAX_LENGTH} bytes");
        return Err(SelectorError { at: MAX_LENGTH + 1, problem });
    }
    let mut all = Vec::new();
    reader.skip_blanks();
    if reader.rest.is_empty() {
        return Ok(all);
    }
    loop {
        all.push(reader.requirement()?);
        if reader.rest.is_empty() {
            return Ok(all);
        }
        if !reader.takes(",") {
            return Err(reader.wrong(&format!("a comma is missing before {}", reader.found())));
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.takes("!") {
            let key = self.key()?;
            return Ok(Requirement { key, wanted: Wanted::Absent });
        }
        let key = self.key()?;
        let wanted = self.wanted()?;
        Ok(Requirement { key, wanted })
    }

    fn wanted(&mut self) -> Result<Wanted, SelectorError> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Wanted::Present);
        }
        if self.takes("!=") {
            return Ok(Wanted::NoneOf(BTreeSet::from([self.value()?])));
        }
        if self.takes("==") || self.takes("=") {
            return Ok(Wanted::OneOf(BTreeSet::from([self.value()?])));
        }
        if self.takes(">") {
            return self.number().map(Wanted::Above);
        }
        if self.takes("<") {
            return self.number().map(Wanted::Below);
        }
        match self.word() {
            "in" => {
                self.pass("in");
                self.values("in").map(Wanted::OneOf)
            }
            "notin" => {
                self.pass("notin");
                self.values("notin").map(Wanted::NoneOf)
            }
            _ => {
                let found = self.found();
                Err(self.wrong(&format!("=, !=, in, notin or a comma should be there, not {found}")))
            }
        }
    }

    fn values(&mut self, operator: &str) -> Result<BTreeSet<String>, SelectorError> {
        if !self.takes("(") {
            return Err(self.wrong(&format!("( is missing after {operator}")));
        }
        if self.rest.starts_with(')') {
            return Err(self.wrong(&format!("{operator} needs a value")));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.takes(")") {
                return Ok(values);
            }
            if !self.takes(",") {
                return Err(self.wrong(&format!(", or ) should be there, not {}", self.found())));
            }
        }
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        let word = self.word();
        let (prefix, name) = word.split_once('/').unwrap_or(("", word));
        let is_key = is_label_value(name) && (!word.contains('/') || is_dns_subdomain(prefix));
        if !is_key {
            return Err(self.wrong(&format!("the name of a label should be there, not {}", self.found())));
        }
        self.pass(word);
        Ok(word.to_owned())
    }

    /// A value may be empty.
    fn value(&mut self) -> Result<String, SelectorError> {
        let word = self.word();
        if !word.is_empty() && !is_label_value(word) {
            return Err(self.wrong(&format!("no label has the value {}", self.found())));
        }
        self.pass(word);
        Ok(word.to_owned())
    }

    fn number(&mut self) -> Result<i64, SelectorError> {
        let word = self.word();
        let number = word
            .parse()
            .map_err(|_| self.wrong(&format!("a whole number should be there, not {}", self.found())))?;
        self.pass(word);
        Ok(number)
    }

    /// The word that comes next.
    fn word(&self) -> &'a str {
        let end = self.rest.find(|c: char| c.is_whitespace() || MARKS.contains(&c));
        end.and_then(|end| self.rest.get(..end)).unwrap_or(self.rest)
    }

    /// What comes next, for people.
    fn found(&self) -> String {
        match (self.word(), self.rest.chars().next()) {
            (_, None) => "the end".to_owned(),
            ("", Some(mark)) => format!("{mark:?}"),
            (word, Some(_)) => format!("{:?}", clip(word)),
        }
    }

    fn takes(&mut self, mark: &str) -> bool {
        let is_there = self.rest.starts_with(mark);
        if is_there {
            self.pass(mark);
        }
        is_there
    }

    /// Goes behind what comes next, and the blanks after it.
    fn pass(&mut self, known: &str) {
        self.rest = self.rest.get(known.len()..).unwrap_or_default();
        self.skip_blanks();
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn wrong(&self, problem: &str) -> SelectorError {
        let read = self.text.len().saturating_sub(self.rest.len());
        let at = self.text.get(..read).unwrap_or_default().chars().count() + 1;
        SelectorError { at, problem: problem.to_owned() }
    }
}
