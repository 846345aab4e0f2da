//! Protobuf, as far as it takes to find fields.
//!
//! In: the bytes of a message. Out: its fields by number, in the order in which they came.
//!
//! API servers write lists in it in a fraction of the time that JSON takes them, and what nobody asks for (managed fields above all) is
//! skipped here without a look.

use super::lax::{Lax, Shape};

/// What every answer of an API server begins with; an envelope follows.
pub(crate) const MAGIC: &[u8] = b"k8s\0";

/// The field of the envelope that has the object.
pub(crate) const RAW: u32 = 2;

/// The bytes are no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number or a flag.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// A number of fixed size, which no field that we know has.
    Fixed,
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) | Self::Fixed => None,
        }
    }

    pub(super) fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Bytes(_) | Self::Fixed => None,
        }
    }
}

/// The bytes before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Number of the field.
    pub(crate) field: u32,
    /// Length of the head itself.
    pub(crate) length: usize,
    /// What follows.
    pub(crate) payload: Payload,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Nothing: the number is a part of the head.
    Number(u64),
    /// So many bytes.
    Bytes(u64),
    /// A number of so many bytes.
    Fixed(u64),
}

impl Payload {
    /// How many bytes follow.
    pub(crate) fn length(self) -> u64 {
        match self {
            Self::Number(_) => 0,
            Self::Bytes(length) | Self::Fixed(length) => length,
        }
    }
}

impl Head {
    /// Reads a head; nothing if its bytes are not all there.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, Broken> {
        let Some((tag, tag_length)) = number(bytes)? else { return Ok(None) };
        let field = u32::try_from(tag >> 3).map_err(|_| Broken)?;
        let rest = bytes.get(tag_length..).unwrap_or_default();
        let (payload, more) = match tag & 7 {
            0 | 2 => {
                let Some((value, more)) = number(rest)? else { return Ok(None) };
                (if tag & 7 == 0 { Payload::Number(value) } else { Payload::Bytes(value) }, more)
            }
            1 => (Payload::Fixed(8), 0),
            5 => (Payload::Fixed(4), 0),
            // Groups, which nobody has written for twenty years.
            _ => return Err(Broken),
        };
        Ok(Some(Self { field, length: tag_length + more, payload }))
    }
}

/// A number of variable length, and how many bytes it took; nothing if it is not all there.
fn number(bytes: &[u8]) -> Result<Option<(u64, usize)>, Broken> {
    // Nearly every head is two such bytes.
    if let Some(byte) = bytes.first().filter(|byte| **byte < 0x80) {
        return Ok(Some((u64::from(*byte), 1)));
    }
    let mut value = 0_u64;
    for (n, byte) in bytes.iter().copied().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * n);
        if byte < 0x80 {
            return Ok(Some((value, n + 1)));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(Broken) }
}

/// The fields of a message. After an error nothing more comes.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Those of these bytes.
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self) -> Result<(u32, Value<'a>), Broken> {
        let bytes = std::mem::take(&mut self.0);
        let head = Head::read(bytes)?.ok_or(Broken)?;
        let rest = bytes.get(head.length..).ok_or(Broken)?;
        let length = usize::try_from(head.payload.length()).map_err(|_| Broken)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(Broken)?;
        self.0 = rest;
        let value = match head.payload {
            Payload::Number(number) => Value::Number(number),
            Payload::Bytes(_) => Value::Bytes(value),
            Payload::Fixed(_) => Value::Fixed,
        };
        Ok((head.field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() { None } else { Some(self.take()) }
    }
}

/// Decodes an object; one without any field if the bytes are something else.
pub(crate) fn decode<T: Shape + Default>(bytes: &[u8]) -> T {
    let mut object = Lax::Absent;
    T::of_protobuf(&mut object, Value::Bytes(bytes));
    match object {
        Lax::Is(object) => object,
        Lax::Absent | Lax::Wrong(_) => T::default(),
    }
}

/// Key and value of an entry of a map; no key if it is none.
pub(crate) fn entry<'a>(entry: Value<'a>) -> (&'a [u8], Option<Value<'a>>) {
    let (mut key, mut value) = (&[][..], None);
    for field in Fields::of(entry.bytes().unwrap_or_default()) {
        match field {
            Ok((1, found)) => key = found.bytes().unwrap_or_default(),
            Ok((2, found)) => value = Some(found),
            Ok(_) => {}
            Err(Broken) => return (&[], None),
        }
    }
    (key, value)
}

/// The object in an answer, if it is one.
pub(crate) fn enveloped(answer: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields::of(answer.strip_prefix(MAGIC)?).map_while(Result::ok);
    fields.find_map(|(number, value)| value.bytes().filter(|_| number == RAW))
}

#[cfg(test)]
mod tests;
