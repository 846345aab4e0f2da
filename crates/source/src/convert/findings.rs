//! Complaints about one object, collected while it is converted.

use std::fmt::Display;

use switchyard_model::{Complaint, ObjectName};

use super::text::clip;
use crate::wire::{Lax, List, Shape};

/// Complaints kept about one object; the others are only counted.
const MAX_COMPLAINTS: usize = 20;

/// The outcome of a conversion.
#[derive(Debug)]
pub(crate) struct Converted<T> {
    /// The value, unless the object is not for us or was set aside.
    pub(crate) value: Option<T>,
    /// What is wrong with the object.
    pub(crate) complaints: Vec<Complaint>,
}

/// Collects what is wrong with one object.
#[derive(Debug)]
pub(crate) struct Findings {
    object: ObjectName,
    complaints: Vec<Complaint>,
    uncounted: usize,
}

impl Findings {
    /// Nothing is wrong yet.
    pub(crate) fn about(object: ObjectName) -> Self {
        Self { object, complaints: Vec::new(), uncounted: 0 }
    }

    /// Adds a complaint. Text from outside must already be cut with [`clip`].
    pub(crate) fn say(&mut self, problem: String) {
        if self.complaints.len() < MAX_COMPLAINTS {
            self.complaints.push(Complaint { object: self.object.clone(), problem });
        } else {
            self.uncounted += 1;
        }
    }

    /// A value that cannot be used, and what is done about it.
    pub(crate) fn bad(&mut self, path: impl Display, value: &str, why: &str, done: &str) {
        self.say(format!("{path} `{}` is {why}; {done}", clip(value)));
    }

    /// A value that makes the whole object unusable.
    pub(crate) fn set_aside(&mut self, path: impl Display, value: &str, why: &str) {
        self.bad(path, value, why, "the object is set aside until this is corrected");
    }

    /// A field's value; a wrong type is a finding and counts as absent.
    pub(crate) fn field<'a, T: Shape>(&mut self, field: &'a Lax<T>, path: impl Display) -> Option<&'a T> {
        match field {
            Lax::Is(value) => Some(value),
            Lax::Absent => None,
            Lax::Wrong(found) => {
                self.say(format!("{path} is {found} where {} is expected; the field is ignored", T::WANTED));
                None
            }
        }
    }

    /// The text of a field; empty if it is absent or of a wrong type.
    pub(crate) fn text<'a>(&mut self, field: &'a Lax<String>, path: impl Display) -> &'a str {
        self.field(field, path).map_or("", String::as_str)
    }

    /// A field without which the object is of no use.
    pub(crate) fn required<'a, T: Shape>(&mut self, field: &'a Lax<T>, path: impl Display) -> Option<&'a T> {
        match field {
            Lax::Is(value) => return Some(value),
            Lax::Absent => self.say(format!("{path} is missing; the object is set aside")),
            Lax::Wrong(found) => {
                self.say(format!(
                    "{path} is {found} where {} is expected; the object is set aside",
                    T::WANTED
                ));
            }
        }
        None
    }

    /// The elements of a list with their positions; elements that are null or of a wrong type are findings.
    pub(crate) fn list<'a, T: Shape>(&mut self, list: &'a Lax<List<T>>, path: &str) -> Vec<(usize, &'a T)> {
        let elements = self.field(list, path).map_or(&[][..], Vec::as_slice);
        let mut good = Vec::with_capacity(elements.len());
        for (n, element) in elements.iter().enumerate() {
            match element {
                Lax::Is(value) => good.push((n, value)),
                Lax::Absent => self.say(format!("{path}[{n}] is null; it is left out")),
                Lax::Wrong(found) => {
                    self.say(format!(
                        "{path}[{n}] is {found} where {} is expected; it is left out",
                        T::WANTED
                    ));
                }
            }
        }
        good
    }

    /// Ends the conversion.
    pub(crate) fn with<T>(mut self, value: Option<T>) -> Converted<T> {
        if self.uncounted > 0 {
            let problem = format!("{} more problems of this object are not listed", self.uncounted);
            self.complaints.push(Complaint { object: self.object, problem });
        }
        Converted { value, complaints: self.complaints }
    }
}
