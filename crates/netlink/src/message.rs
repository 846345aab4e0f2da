//! Writing one netlink message.
//!
//! In: a message type, flags, the fixed header of the subsystem, then attributes. Out: bytes, once a socket gives the sequence
//! number. Nesting goes by closure, so a length cannot be left open. What does not fit the protocol (an attribute above 64 KiB,
//! a NUL inside a text) is remembered and reported by [`Message::finish`].

use std::net::IpAddr;

use crate::{Family, NetlinkError};

/// Marks an attribute that holds attributes.
pub const NLA_F_NESTED: u16 = 1 << 15;
/// A request, as opposed to an answer.
pub const NLM_F_REQUEST: u16 = 1;
/// Asks for an acknowledgement.
pub const NLM_F_ACK: u16 = 4;
/// Asks for all objects.
pub const NLM_F_DUMP: u16 = 0x300;
/// Refuse if the object exists.
pub const NLM_F_EXCL: u16 = 0x200;
/// Make the object.
pub const NLM_F_CREATE: u16 = 0x400;
/// Replace an object that exists.
pub const NLM_F_REPLACE: u16 = 0x100;

const HEADER: usize = 16;

/// One message being written.
#[derive(Debug, Clone)]
pub struct Message {
    bytes: Vec<u8>,
    start: usize,
    fault: Option<&'static str>,
}

impl Message {
    /// Starts a message: netlink header, then the fixed header of the subsystem.
    pub fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        Self::after(Vec::with_capacity(256), kind, flags, fixed)
    }

    /// Starts a message behind others, in the same buffer; [`Self::finish`] gives the whole buffer back.
    pub(crate) fn after(mut bytes: Vec<u8>, kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let start = bytes.len(); // Invariant: a multiple of four.
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        let mut message = Self { bytes, start, fault: None };
        message.fixed(fixed);
        message
    }

    /// Bytes of this message so far.
    pub(crate) fn written(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Remembers why this message cannot be sent.
    pub(crate) fn refuse(&mut self, reason: &'static str) {
        self.fault = Some(reason);
    }

    /// Starts a message of the netfilter family: subsystem, operation, IP family.
    pub fn netfilter(subsystem: u8, operation: u8, flags: u16, family: u8) -> Self {
        let kind = u16::from_be_bytes([subsystem, operation]);
        Self::new(kind, flags, &[family, 0, 0, 0])
    }

    /// Appends bytes that are not an attribute, such as the header inside a nested link description.
    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// One attribute.
    pub fn put(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.attribute(kind, |message| message.bytes.extend_from_slice(value))
    }

    /// One number in the byte order of the machine.
    pub fn put_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// One number in network byte order.
    pub fn put_be32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// One number in network byte order.
    pub fn put_be64(&mut self, kind: u16, value: u64) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// One number in network byte order.
    pub fn put_be16(&mut self, kind: u16, value: u16) -> &mut Self {
        self.put(kind, &value.to_be_bytes())
    }

    /// One address, four or sixteen bytes.
    pub fn put_ip(&mut self, kind: u16, address: IpAddr) -> &mut Self {
        match address {
            IpAddr::V4(v4) => self.put(kind, &v4.octets()),
            IpAddr::V6(v6) => self.put(kind, &v6.octets()),
        }
    }

    /// One text, closed with a NUL as the kernel wants it.
    pub fn put_text(&mut self, kind: u16, text: &str) -> &mut Self {
        if text.contains('\0') {
            self.fault = Some("a name contains a NUL byte");
        }
        self.attribute(kind, |message| {
            message.bytes.extend_from_slice(text.as_bytes());
            message.bytes.push(0);
        })
    }

    /// An attribute that holds attributes.
    pub fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Self)) -> &mut Self {
        self.attribute(kind | NLA_F_NESTED, body)
    }

    /// The bytes, with length and sequence number filled in and `flags` added.
    pub fn finish(mut self, sequence: u32, flags: u16) -> Result<Vec<u8>, NetlinkError> {
        if let Some(reason) = self.fault {
            return Err(NetlinkError::Unencodable { reason });
        }
        let length = u32::try_from(self.written())
            .map_err(|_| NetlinkError::Unencodable { reason: "a message is longer than 4 GiB" })?;
        let start = self.start;
        self.overwrite(start, &length.to_ne_bytes());
        let own = self.bytes.get(start + 6..start + 8).and_then(|b| <[u8; 2]>::try_from(b).ok());
        self.overwrite(start + 6, &(own.map_or(0, u16::from_ne_bytes) | flags).to_ne_bytes());
        self.overwrite(start + 8, &sequence.to_ne_bytes());
        Ok(self.bytes)
    }

    fn attribute(&mut self, kind: u16, body: impl FnOnce(&mut Self)) -> &mut Self {
        let at = self.bytes.len(); // Invariant: a multiple of four.
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        body(self);
        match u16::try_from(self.bytes.len() - at) {
            Ok(length) => self.overwrite(at, &length.to_ne_bytes()),
            Err(_) => self.fault = Some("an attribute is longer than 64 KiB"),
        }
        self.pad(); // Padding does not count in the length.
        self
    }

    fn overwrite(&mut self, at: usize, value: &[u8]) {
        for (byte, new) in self.bytes.iter_mut().skip(at).zip(value) {
            *byte = *new;
        }
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// One message as it came from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The message type.
    pub kind: u16,
    /// The `NLM_F_*` flags.
    pub flags: u16,
    /// The sequence number of the request that this answers.
    pub sequence: u32,
    /// The port of the socket that this answers, or that caused this notification.
    pub port: u32,
    /// Everything after the netlink header.
    pub body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits off the fixed header of the subsystem.
    pub fn split<const N: usize>(
        &self,
    ) -> Result<([u8; N], crate::attribute::Attributes<'a>), crate::Malformed> {
        let (fixed, rest) = self.body.split_first_chunk::<N>().ok_or(crate::Malformed::Message)?;
        let rest = rest.get(N.next_multiple_of(4) - N..).unwrap_or_default();
        Ok((*fixed, crate::attribute::Attributes::new(rest)))
    }

    /// Subsystem and operation of a netfilter message.
    pub fn netfilter_kind(&self) -> (u8, u8) {
        let [subsystem, operation] = self.kind.to_be_bytes();
        (subsystem, operation)
    }
}

/// The messages of one datagram, in order. Ends after the first malformed one.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Reads one datagram.
    pub fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    fn next_frame(&mut self) -> Option<Frame<'a>> {
        let (header, _) = self.rest.split_first_chunk::<HEADER>()?;
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, p0, p1, p2, p3] = *header;
        let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let body = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Frame {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            port: u32::from_ne_bytes([p0, p1, p2, p3]),
            body,
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, crate::Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = self.next_frame();
        if frame.is_none() {
            self.rest = &[];
        }
        Some(frame.ok_or(crate::Malformed::Message))
    }
}

/// The fixed header of a netfilter message: family, version, resource. Out: the family.
pub(crate) fn netfilter_family(fixed: [u8; 4]) -> u8 {
    let [family, ..] = fixed;
    family
}

/// The IP family of an address as the kernel numbers it.
pub(crate) fn family_of(address: IpAddr) -> u8 {
    Family::of(address).number()
}

#[cfg(test)]
mod tests;
