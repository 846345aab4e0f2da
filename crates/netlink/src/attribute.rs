//! Reading netlink attributes.
//!
//! In: bytes from the kernel. Out: attributes, one at a time, or [`Malformed`]. Nothing is indexed and nothing is copied.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Malformed;

const TYPE_MASK: u16 = 0x3fff;

/// One attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its number, without the flag bits.
    pub kind: u16,
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The attributes inside.
    pub fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }

    /// A single byte.
    pub fn u8(&self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number in network byte order.
    pub fn be16(&self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// A number in network byte order.
    pub fn be32(&self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// A number in network byte order.
    pub fn be64(&self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A number in the byte order of the machine.
    pub fn u32(&self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    /// An address of either family, told apart by its length.
    pub fn ip(&self) -> Result<IpAddr, Malformed> {
        match self.value.len() {
            4 => self.array::<4>().map(|octets| Ipv4Addr::from(octets).into()),
            _ => self.array::<16>().map(|octets| Ipv6Addr::from(octets).into()),
        }
    }

    /// A text up to its NUL. Bytes that are not UTF-8 are replaced: a foreign name must not stop us.
    pub fn text(&self) -> String {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        String::from_utf8_lossy(self.value.get(..end).unwrap_or_default()).into_owned()
    }

    fn array<const N: usize>(&self) -> Result<[u8; N], Malformed> {
        self.value.try_into().map_err(|_| Malformed::ValueLength {
            kind: self.kind,
            found: self.value.len(),
            wanted: N,
        })
    }
}

/// A run of attributes. Ends after the first malformed one.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// Reads these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn next_attribute(&mut self) -> Result<Attribute<'a>, Malformed> {
        let (header, _) = self.rest.split_first_chunk::<4>().ok_or(Malformed::AttributeLength { kind: 0 })?;
        let [l0, l1, k0, k1] = *header;
        let kind = u16::from_ne_bytes([k0, k1]) & TYPE_MASK;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.rest.get(4..length).ok_or(Malformed::AttributeLength { kind })?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Ok(Attribute { kind, value })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let attribute = self.next_attribute();
        if attribute.is_err() {
            self.rest = &[];
        }
        Some(attribute)
    }
}
