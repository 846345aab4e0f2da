//! The smallest parts: values of keys and registers, comments, verdicts.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::message::Message;

const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;

/// Bytes in the longest value that the kernel's registers hold.
pub const VALUE_MAX: usize = 64;
const OVERLONG: u8 = u8::MAX;
const COMMENT_MAX: usize = 128;

/// Up to 64 bytes: the key or data of an element, or the content of registers. Costs no allocation.
///
/// Parts are joined as `nft` joins them: a single part has its own length, and as soon as there are two, each is padded with zeros
/// to a multiple of four bytes. What does not fit is remembered and refused when it is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    bytes: [u8; VALUE_MAX], // Invariant: zero behind the length.
    length: u8,
}

impl Value {
    /// No bytes yet.
    pub const EMPTY: Self = Self { bytes: [0; VALUE_MAX], length: 0 };

    /// Exactly these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self::EMPTY.append(bytes)
    }

    /// One more part.
    #[must_use]
    pub fn part(self, bytes: &[u8]) -> Self {
        if self.length == 0 {
            return self.append(bytes);
        }
        self.padded().append(bytes).padded()
    }

    /// One more part: an address in network byte order.
    #[must_use]
    pub fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.part(&v4.octets()),
            IpAddr::V6(v6) => self.part(&v6.octets()),
        }
    }

    /// One more part: a transport protocol.
    #[must_use]
    pub fn protocol(self, number: u8) -> Self {
        self.part(&[number])
    }

    /// One more part: a port in network byte order.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.part(&port.to_be_bytes())
    }

    /// One more part: a number in the byte order of the machine, such as a mark or a slot.
    #[must_use]
    pub fn number(self, number: u32) -> Self {
        self.part(&number.to_ne_bytes())
    }

    /// One more part: the name of an interface, in the sixteen bytes that the kernel compares.
    #[must_use]
    pub fn interface(self, name: &str) -> Self {
        let mut field = [0; 16];
        if name.len() >= field.len() {
            return Self { length: OVERLONG, ..self };
        }
        for (byte, letter) in field.iter_mut().zip(name.bytes()) {
            *byte = letter;
        }
        self.part(&field)
    }

    /// The bytes; empty if they are too many.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// The bytes as a number in the byte order of the machine, if they are four.
    pub fn as_number(&self) -> Option<u32> {
        self.as_bytes().try_into().ok().map(u32::from_ne_bytes)
    }

    fn append(mut self, bytes: &[u8]) -> Self {
        let start = usize::from(self.length);
        match self.bytes.get_mut(start..start + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.length = u8::try_from(start + bytes.len()).unwrap_or(OVERLONG);
            }
            None => self.length = OVERLONG,
        }
        self
    }

    fn padded(mut self) -> Self {
        if self.length != OVERLONG {
            self.length = self.length.next_multiple_of(4);
        }
        self
    }

    /// As an attribute that holds data.
    pub(super) fn put(&self, message: &mut Message, kind: u16) {
        if self.length == OVERLONG {
            message.refuse("a value is longer than 64 bytes, or an interface name than 15");
        }
        message.nest(kind, |data| {
            data.put(NFTA_DATA_VALUE, self.as_bytes());
        });
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == OVERLONG {
            return f.write_str("Value(too long)");
        }
        f.write_str("Value(")?;
        for (index, byte) in self.as_bytes().iter().enumerate() {
            let space = if index > 0 && index % 4 == 0 { " " } else { "" };
            write!(f, "{space}{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// A comment as `nft` takes it: at most 128 bytes, no control characters, no quotes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comment(Arc<str>);

impl Comment {
    /// Cuts on a character boundary; replaces what would break the quoted text of a listing. `None` if nothing is left.
    pub fn new(text: &str) -> Option<Self> {
        let clean = |c: char| if c.is_control() || c == '"' || c == '\\' { '\'' } else { c };
        let mut cut = String::with_capacity(text.len().min(COMMENT_MAX));
        for letter in text.chars().map(clean) {
            if cut.len() + letter.len_utf8() > COMMENT_MAX {
                break;
            }
            cut.push(letter);
        }
        (!cut.is_empty()).then(|| Self(cut.into()))
    }

    /// As read from the kernel, whoever wrote it.
    pub(super) fn as_read(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a packet goes on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The packet passes this base chain.
    Accept,
    /// The packet is gone.
    Drop,
    /// With the next rule.
    Continue,
    /// In the chain that jumped here.
    Return,
    /// In this chain, then back.
    Jump(Arc<str>),
    /// In this chain, never back.
    Goto(Arc<str>),
}

impl Verdict {
    fn code(&self) -> i32 {
        match self {
            Self::Accept => 1,
            Self::Drop => 0,
            Self::Continue => -1,
            Self::Jump(_) => -3,
            Self::Goto(_) => -4,
            Self::Return => -5,
        }
    }

    /// As an attribute that holds data.
    pub(super) fn put(&self, message: &mut Message, kind: u16) {
        message.nest(kind, |data| {
            data.nest(NFTA_DATA_VERDICT, |verdict| {
                verdict.put(NFTA_VERDICT_CODE, &self.code().to_be_bytes());
                if let Self::Jump(chain) | Self::Goto(chain) = self {
                    verdict.put_text(NFTA_VERDICT_CHAIN, chain);
                }
            });
        });
    }
}

/// What a data attribute holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datum {
    Value(Value),
    Verdict(Verdict),
}

impl Datum {
    /// `None` if it is neither, or not one that we know.
    pub(super) fn read(attribute: crate::attribute::Attribute<'_>) -> Option<Self> {
        let mut inner = attribute.nested();
        let first = inner.next()?.ok()?;
        match (first.kind, inner.next()) {
            (NFTA_DATA_VALUE, None) if first.value.len() <= VALUE_MAX => {
                Some(Self::Value(Value::new(first.value)))
            }
            (NFTA_DATA_VERDICT, None) => read_verdict(first.nested()).map(Self::Verdict),
            _ => None,
        }
    }

    pub(super) fn value(self) -> Option<Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Verdict(_) => None,
        }
    }
}

fn read_verdict(attributes: crate::attribute::Attributes<'_>) -> Option<Verdict> {
    let mut code = None;
    let mut chain = None;
    for attribute in attributes {
        let attribute = attribute.ok()?;
        match attribute.kind {
            NFTA_VERDICT_CODE => code = Some(attribute.be32().ok()?.cast_signed()),
            NFTA_VERDICT_CHAIN => chain = Some(Arc::from(attribute.text())),
            _ => return None,
        }
    }
    Some(match (code?, chain) {
        (1, None) => Verdict::Accept,
        (0, None) => Verdict::Drop,
        (-1, None) => Verdict::Continue,
        (-5, None) => Verdict::Return,
        (-3, Some(chain)) => Verdict::Jump(chain),
        (-4, Some(chain)) => Verdict::Goto(chain),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_padded_as_soon_as_there_are_two() {
        assert_eq!(Value::EMPTY.port(80).as_bytes(), [0, 80]);
        let two = Value::EMPTY.protocol(6).port(80);
        assert_eq!(two.as_bytes(), [6, 0, 0, 0, 0, 80, 0, 0]);
        assert_eq!(two, Value::new(&[6, 0, 0, 0, 0, 80, 0, 0]));
        assert_eq!(format!("{two:?}"), "Value(06000000 00500000)");
    }

    #[test]
    fn too_many_bytes_are_refused_when_written() {
        let long = Value::new(&[1; 65]).port(1);
        assert_eq!(format!("{long:?}"), "Value(too long)");
        for value in [long, Value::EMPTY.interface("sixteen-letters-")] {
            let mut message = Message::new(1, 0, &[]);
            value.put(&mut message, 1);
            assert!(message.finish(1, 0).is_err());
        }
    }

    #[test]
    fn comments_are_cut_and_cleaned() {
        let comment = |text: &str| Comment::new(text).map(|comment| comment.as_str().to_owned());
        assert_eq!(comment(""), None);
        assert_eq!(comment("a\"b\n").as_deref(), Some("a'b'"));
        assert_eq!(comment(&"ä".repeat(80)).unwrap().len(), 128);
        assert_eq!(comment(&format!("a{}", "ä".repeat(80))).unwrap().len(), 127);
    }
}
