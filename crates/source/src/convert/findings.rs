//! Complaints about one object, collected while it is converted.

use std::fmt::Display;
use std::iter::{Enumerate, FilterMap};
use std::slice::Iter;

use switchyard_model::{Complaint, ObjectName};

use super::text::clip;
use crate::wire::{Lax, List, Shape, Text};

/// Complaints kept about one object; the others are only counted.
const MAX_COMPLAINTS: usize = 20;

/// The good elements of a list, with their positions.
pub(crate) type Good<'a, T> =
    FilterMap<Enumerate<Iter<'a, Lax<T>>>, fn((usize, &'a Lax<T>)) -> Option<(usize, &'a T)>>;

/// The outcome of a conversion.
#[derive(Debug)]
pub(crate) struct Converted<T> {
    /// The value, unless the object is not for us or was set aside.
    pub(crate) value: Option<T>,
    /// What is wrong with the object.
    pub(crate) complaints: Vec<Complaint>,
}

/// Collects what is wrong with one object. Its name is asked for only if something is.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    problems: Vec<String>,
    uncounted: usize,
}

impl Findings {
    /// Adds a complaint. Text from outside must already be cut with [`clip`].
    pub(crate) fn say(&mut self, problem: String) {
        if self.problems.len() < MAX_COMPLAINTS {
            self.problems.push(problem);
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
    pub(crate) fn text<'a>(&mut self, field: &'a Lax<Text>, path: impl Display) -> &'a str {
        self.field(field, path).map_or("", Text::as_str)
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
    pub(crate) fn list<'a, T: Shape>(&mut self, list: &'a Lax<List<T>>, path: impl Display) -> Good<'a, T> {
        let elements = self.field(list, &path).map_or(&[][..], Vec::as_slice);
        for (n, element) in elements.iter().enumerate() {
            match element {
                Lax::Is(_) => {}
                Lax::Absent => self.say(format!("{path}[{n}] is null; it is left out")),
                Lax::Wrong(found) => {
                    self.say(format!(
                        "{path}[{n}] is {found} where {} is expected; it is left out",
                        T::WANTED
                    ));
                }
            }
        }
        elements.iter().enumerate().filter_map(|(n, element)| Some((n, element.as_ref()?)))
    }

    /// Ends the conversion.
    pub(crate) fn with<T>(self, value: Option<T>, object: impl FnOnce() -> ObjectName) -> Converted<T> {
        Converted { value, complaints: self.complaints(object) }
    }

    /// Everything that is wrong.
    pub(crate) fn complaints(mut self, object: impl FnOnce() -> ObjectName) -> Vec<Complaint> {
        if self.problems.is_empty() {
            return Vec::new();
        }
        if self.uncounted > 0 {
            self.problems.push(format!("{} more problems of this object are not listed", self.uncounted));
        }
        let object = object();
        let complaint = |problem| Complaint { object: object.clone(), problem };
        self.problems.into_iter().map(complaint).collect()
    }
}
