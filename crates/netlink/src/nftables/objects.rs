//! The objects of a ruleset as values. What is written and what is read back compare equal.

use std::sync::Arc;
use std::time::Duration;

use super::expression::Expression;
use super::types::Fields;
use super::userdata::SetData;
use super::value::{Comment, Value, Verdict};
use crate::Family;

mod decode;
mod encode;

pub(super) use decode::{read_chain, read_count, read_elements, read_rule, read_set, read_table};
pub(super) use encode::{put_chain, put_element, put_element_key, put_rule, put_set, put_table};

/// Which table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    /// `ip` or `ip6`.
    pub family: Family,
    /// Its name.
    pub name: Arc<str>,
}

impl TableId {
    /// A table by family and name.
    pub fn new(family: Family, name: &str) -> Self {
        Self { family, name: name.into() }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table {
    /// Family and name.
    pub id: TableId,
    /// For the reader of a listing.
    pub comment: Option<Comment>,
    /// True if its base chains are switched off. Adding the table again switches them on or off.
    pub is_dormant: bool,
}

impl Table {
    /// A table that works, without comment.
    pub fn new(id: TableId) -> Self {
        Self { id, comment: None, is_dormant: false }
    }
}

/// What a base chain decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChainType {
    /// Which packets pass.
    Filter,
    /// Where connections go; sees first packets only.
    Nat,
}

/// Where in the kernel a base chain is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Packets that came in, before routing.
    Prerouting,
    /// Packets for this machine.
    Input,
    /// Packets that pass through.
    Forward,
    /// Packets of this machine.
    Output,
    /// Packets that leave, after routing.
    Postrouting,
}

/// How a base chain hangs in the kernel. Its policy is to accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base {
    /// What it decides.
    pub chain_type: ChainType,
    /// Where it is called.
    pub hook: Hook,
    /// Lower numbers are called first.
    pub priority: i32,
}

/// A chain, without its rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain {
    /// Its name. A word of the language of `nft`, such as `reject`, can be listed but not loaded again.
    pub name: Arc<str>,
    /// How packets get into it.
    pub attachment: Attachment,
    /// For the reader of a listing.
    pub comment: Option<Comment>,
}

impl Chain {
    /// A chain that only rules and maps lead to, without comment.
    pub fn regular(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), attachment: Attachment::Regular, comment: None }
    }

    /// A chain that the kernel calls, without comment.
    pub fn base(name: impl Into<Arc<str>>, base: Base) -> Self {
        Self { name: name.into(), attachment: Attachment::Base(base), comment: None }
    }
}

/// How packets get into a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attachment {
    /// Only rules and maps lead here.
    Regular,
    /// The kernel calls it.
    Base(Base),
    /// The kernel calls it in a way that we never write: another type, hook, policy or device.
    Other,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The chain that it is in.
    pub chain: Arc<str>,
    /// Its steps.
    pub expressions: Vec<Expression>,
    /// For the reader of a listing.
    pub comment: Option<Comment>,
    /// The kernel's number for it; `None` in a rule that is still to be added.
    pub handle: Option<u64>,
}

impl Rule {
    /// A rule to be added, without comment.
    pub fn new(chain: impl Into<Arc<str>>, expressions: Vec<Expression>) -> Self {
        Self { chain: chain.into(), expressions, comment: None, handle: None }
    }

    /// The same rule without its handle: what it does, for comparison.
    #[must_use]
    pub fn without_handle(self) -> Self {
        Self { handle: None, ..self }
    }
}

/// Properties of a set, to be joined with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SetFlags(pub(super) u32);

impl SetFlags {
    /// None.
    pub const NONE: Self = Self(0);
    /// Elements do not change while a rule uses the set.
    pub const CONSTANT: Self = Self(0x2);
    /// Elements are ranges.
    pub const INTERVAL: Self = Self(0x4);
    /// Elements go after some time.
    pub const TIMEOUT: Self = Self(0x10);
    /// Rules add elements.
    pub const DYNAMIC: Self = Self(0x20);

    /// True if all of `other` are in here.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for SetFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A set or map, without its elements.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set {
    /// Its name.
    pub name: Arc<str>,
    /// The parts of its keys.
    pub key: Fields,
    /// What each key leads to.
    pub data: SetData,
    /// Its properties.
    pub flags: SetFlags,
    /// How long elements stay if they do not say; with [`SetFlags::TIMEOUT`].
    pub timeout: Option<Duration>,
    /// The most elements that it takes. Always give one with [`SetFlags::DYNAMIC`]: else the kernel makes it 65535 as soon as a
    /// rule uses the set, which then reads as different from what was written.
    pub size: Option<u32>,
    /// For the reader of a listing.
    pub comment: Option<Comment>,
}

impl Set {
    /// A set or map without flags, timeout, limit and comment.
    pub fn new(name: &str, key: Fields, data: SetData) -> Self {
        Self { name: name.into(), key, data, flags: SetFlags::NONE, timeout: None, size: None, comment: None }
    }
}

/// How far an element reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    /// Just its key; in an interval set without concatenation, from its key on.
    Key,
    /// In an interval set with concatenation: from its key up to and including this one, part by part.
    Through(Value),
    /// In an interval set without concatenation: the first key behind an interval.
    Behind,
    /// All keys that no other element has; its own key is empty.
    Rest,
}

/// What an element leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ElementData {
    /// Nothing: the element of a set.
    None,
    /// A verdict.
    Verdict(Verdict),
    /// A value.
    Value(Value),
    /// Something that we never write.
    Other,
}

/// An element of a set or map. To delete one, key and extent are enough.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element {
    /// Its key.
    pub key: Value,
    /// How far it reaches.
    pub extent: Extent,
    /// What it leads to.
    pub data: ElementData,
    /// For the reader of a listing.
    pub comment: Option<Comment>,
    /// How long it stays, if that differs from the set's own timeout.
    pub timeout: Option<Duration>,
}

impl Element {
    /// The element of a set.
    pub fn new(key: Value) -> Self {
        Self { key, extent: Extent::Key, data: ElementData::None, comment: None, timeout: None }
    }

    /// The element of a map.
    pub fn mapped(key: Value, data: Value) -> Self {
        Self { data: ElementData::Value(data), ..Self::new(key) }
    }

    /// The element of a verdict map.
    pub fn verdict(key: Value, verdict: Verdict) -> Self {
        Self { data: ElementData::Verdict(verdict), ..Self::new(key) }
    }

    /// The elements that stand for one range, both ends included, in an interval set without concatenation. Keys are in network
    /// byte order; a range up to the last key of all has no end.
    pub fn range(first: Value, last: Value) -> Vec<Self> {
        let mut elements = vec![Self::new(first)];
        if let Some(behind) = successor(last) {
            elements.push(Self { extent: Extent::Behind, ..Self::new(behind) });
        }
        elements
    }
}

/// The next key in network byte order; `None` after the last.
fn successor(key: Value) -> Option<Value> {
    let mut bytes = key.as_bytes().to_vec();
    for byte in bytes.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return Some(Value::new(&bytes));
        }
    }
    None
}
