//! Expressions: the steps of a rule, and the registers that they work on.
//!
//! A rule stops at the first comparison that fails. Values travel in sixteen registers of four bytes; who uses which is the
//! caller's choice. [`super::load_key`] gives the layout of concatenated keys.

use std::sync::Arc;
use std::time::Duration;

use super::value::{Value, Verdict};
use crate::Family;

mod decode;
mod encode;

pub(super) use decode::read_list;
pub(super) use encode::put_list;

/// One of the sixteen registers of four bytes. A longer value takes as many as it needs, from this one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(u8);

impl Register {
    /// The first one.
    pub const FIRST: Self = Self(0);

    /// By number, from 0. The kernel refuses more than 15.
    pub fn word(number: u8) -> Self {
        Self(number)
    }

    /// The first register behind a value of this many bytes that starts here.
    #[must_use]
    pub fn after(self, bytes: u32) -> Self {
        Self(u8::try_from(bytes.div_ceil(4)).map_or(u8::MAX, |words| self.0.saturating_add(words)))
    }

    /// The kernel's number. Every fourth register has two; this is the one that the kernel itself and `nft` tell.
    fn number(self) -> u32 {
        match self.0 {
            aligned @ (0 | 4 | 8 | 12) => u32::from(1 + aligned / 4),
            other => 8 + u32::from(other),
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        match u8::try_from(number).ok()? {
            aligned @ 1..=4 => Some(Self((aligned - 1) * 4)),
            word @ 8..=23 => Some(Self(word - 8)),
            _ => None,
        }
    }
}

/// What `meta` reads or sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetaKey {
    /// The priority of the packet, which its socket gave it: four bytes.
    Priority,
    /// The mark of the packet: four bytes.
    Mark,
    /// The name of the interface that the packet came in by: sixteen bytes.
    InputInterface,
    /// The name of the interface that the packet leaves by: sixteen bytes.
    OutputInterface,
    /// The transport protocol: one byte.
    Protocol,
}

/// What `ct` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CtKey {
    /// The state, as a bit: see [`ct_state`].
    State,
    /// The status, as bits: see [`CT_STATUS_DNAT`].
    Status,
    /// The mark of the connection.
    Mark,
}

/// Bits of [`CtKey::State`].
pub mod ct_state {
    /// Not a packet of any connection.
    pub const INVALID: u32 = 1;
    /// Packets were seen in both directions.
    pub const ESTABLISHED: u32 = 2;
    /// Belongs to another connection.
    pub const RELATED: u32 = 4;
    /// The first packet.
    pub const NEW: u32 = 8;
    /// Not tracked.
    pub const UNTRACKED: u32 = 64;
}

/// The bit of [`CtKey::Status`] of a connection whose destination was changed.
pub const CT_STATUS_DNAT: u32 = 32;

/// The kinds of address that the routing table tells, for [`Expression::AddressType`].
pub mod address_type {
    /// An address of this machine.
    pub const LOCAL: u32 = 2;
}

/// Which address of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Which header of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Header {
    /// IPv4 or IPv6.
    Network,
    /// TCP, UDP, SCTP.
    Transport,
}

/// How a register is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// It equals the value, for as many bytes as the value has.
    Equal,
    /// It does not.
    NotEqual,
}

/// What a lookup does with what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Found {
    /// The rule goes on if the key is in the set.
    Member,
    /// The rule goes on if the key is not in the set.
    NotMember,
    /// The data of the map go into this register; the rule ends if the key is not in it.
    Data(Register),
    /// The verdict of the map holds.
    Verdict,
}

/// How a source port is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortChoice {
    /// The same one, if it is free.
    Keep,
    /// Any, by chance.
    FullyRandom,
}

/// How a packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reject {
    /// With "unreachable" and this code, in the ICMP of the table's family.
    Unreachable(u8),
    /// With a TCP reset; the rule must have checked that it is TCP.
    TcpReset,
}

impl Reject {
    /// What plain `reject` means.
    pub fn port_unreachable(family: Family) -> Self {
        match family {
            Family::V4 => Self::Unreachable(3),
            Family::V6 => Self::Unreachable(4),
        }
    }
}

/// What a rule does to a dynamic set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DynamicChange {
    /// Adds the element if it is missing.
    Add,
    /// Adds the element, or gives it its full time again.
    Update,
    /// Removes the element.
    Delete,
}

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    missing_docs,
    reason = "the fields `to` and `from` are registers, the others have types that say what they are"
)]
pub enum Expression {
    /// Loads a property of the packet.
    Meta { key: MetaKey, to: Register },
    /// Sets a property of the packet.
    SetMeta { key: MetaKey, from: Register },
    /// Loads bytes of the packet.
    Payload { header: Header, offset: u32, length: u32, to: Register },
    /// Loads a property of the connection.
    Ct { key: CtKey, to: Register },
    /// Loads the kind of an address, by the routing table: `fib daddr type`.
    AddressType { of: Side, to: Register },
    /// `to = (from & mask) ^ xor`
    Bitwise { from: Register, to: Register, mask: Value, xor: Value },
    /// Goes on if the comparison holds.
    Compare { from: Register, comparison: Comparison, value: Value },
    /// Looks up a key in a set or map of the same table.
    Lookup { set: Arc<str>, from: Register, found: Found },
    /// Loads `offset` plus a random number below `modulus`, in the byte order of the machine.
    Random { modulus: u32, offset: u32, to: Register },
    /// Loads a constant. For the parts of a concatenation see [`super::load_constants`].
    Load { value: Value, to: Register },
    /// Ends the rule.
    Verdict(Verdict),
    /// Changes the destination (or source) to the content of registers.
    Nat { side: Side, family: Family, address: Register, port: Option<Register>, choice: PortChoice },
    /// Changes the source to the address of the outgoing interface.
    Masquerade(PortChoice),
    /// Refuses the packet.
    Reject(Reject),
    /// Changes a dynamic set of the same table.
    Dynamic {
        set: Arc<str>,
        change: DynamicChange,
        key: Register,
        data: Option<Register>,
        /// Overrides the timeout of the set.
        timeout: Option<Duration>,
    },
    /// Counts packets and bytes. What was counted is not read back.
    Counter,
    /// The packet is not tracked.
    NoTrack,
    /// Something that we never write: an expression, or a variant of one.
    Other { name: String },
}

impl Expression {
    /// `from = from & mask`
    pub fn and(from: Register, mask: u32) -> Self {
        Self::masked(from, mask, 0)
    }

    /// `from = from ^ bits`
    pub fn xor(from: Register, bits: u32) -> Self {
        Self::masked(from, u32::MAX, bits)
    }

    /// `from = from | bits`
    pub fn or(from: Register, bits: u32) -> Self {
        Self::masked(from, !bits, bits)
    }

    /// Goes on if the register equals the value.
    pub fn equal(from: Register, value: Value) -> Self {
        Self::Compare { from, comparison: Comparison::Equal, value }
    }

    /// Goes on if the register differs from the value.
    pub fn not_equal(from: Register, value: Value) -> Self {
        Self::Compare { from, comparison: Comparison::NotEqual, value }
    }

    fn masked(register: Register, mask: u32, xor: u32) -> Self {
        let (mask, xor) = (Value::EMPTY.number(mask), Value::EMPTY.number(xor));
        Self::Bitwise { from: register, to: register, mask, xor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_that_the_kernel_tells() {
        for word in 0..16 {
            let register = Register::word(word);
            assert_eq!(Register::from_number(register.number()), Some(register));
        }
        assert_eq!(Register::from_number(8), Some(Register::FIRST));
        assert_eq!(Register::word(1).number(), 9);
        assert_eq!(Register::word(4).number(), 2);
        assert_eq!(Register::FIRST.after(6), Register::word(2));
        assert_eq!(Register::from_number(0), None);
        assert_eq!(Register::from_number(24), None);
    }
}
