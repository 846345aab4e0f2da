//! What the parts of keys and data are, in the words of `nft`: `type ipv4_addr . inet_proto` or `typeof ip daddr . meta l4proto`.
//!
//! The kernel only knows lengths; names and order live in numbers and user data that it keeps for `nft`. So that a listing is
//! readable, a set is declared with the [`Selector`]s that its rules load: the same list gives both.

use super::Register;
use super::expression::{Expression, Header, MetaKey};
use super::value::Value;

const BITS_PER_TYPE: u32 = 6;

/// A type of `nft`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    /// A number of 32 bits in the byte order of the machine. `nft` has no word for it: only for `typeof`.
    Integer,
    /// `ipv4_addr`
    Ipv4Address,
    /// `ipv6_addr`
    Ipv6Address,
    /// `inet_proto`
    Protocol,
    /// `inet_service`
    Port,
    /// `mark`
    Mark,
    /// `ifname`
    Interface,
}

/// The byte order of a type, as `nft` numbers it in user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    None = 0,
    Host = 1,
    Network = 2,
}

impl DataType {
    const ALL: [Self; 7] = [
        Self::Integer,
        Self::Ipv4Address,
        Self::Ipv6Address,
        Self::Protocol,
        Self::Port,
        Self::Mark,
        Self::Interface,
    ];

    fn number(self) -> u32 {
        match self {
            Self::Integer => 4,
            Self::Ipv4Address => 7,
            Self::Ipv6Address => 8,
            Self::Protocol => 12,
            Self::Port => 13,
            Self::Mark => 19,
            Self::Interface => 41,
        }
    }

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// Bytes of a value, without padding.
    pub fn length(self) -> u32 {
        match self {
            Self::Integer | Self::Ipv4Address | Self::Mark => 4,
            Self::Ipv6Address | Self::Interface => 16,
            Self::Protocol => 1,
            Self::Port => 2,
        }
    }

    fn byte_order(self) -> ByteOrder {
        match self {
            Self::Integer | Self::Mark | Self::Interface => ByteOrder::Host,
            Self::Ipv4Address | Self::Ipv6Address | Self::Port => ByteOrder::Network,
            Self::Protocol => ByteOrder::None,
        }
    }
}

/// Something that a rule can look up and that `typeof` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// `ip saddr`
    Ipv4Source,
    /// `ip daddr`
    Ipv4Destination,
    /// `ip6 saddr`
    Ipv6Source,
    /// `ip6 daddr`
    Ipv6Destination,
    /// `th sport`
    SourcePort,
    /// `th dport`
    DestinationPort,
    /// `meta l4proto`
    Protocol,
    /// `meta mark`
    Mark,
    /// `iifname`
    InputInterface,
    /// `oifname`
    OutputInterface,
    /// `numgen random mod N`: a slot.
    Random {
        /// One more than the largest number.
        modulus: u32,
    },
}

impl Selector {
    /// The type of its values.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Ipv4Source | Self::Ipv4Destination => DataType::Ipv4Address,
            Self::Ipv6Source | Self::Ipv6Destination => DataType::Ipv6Address,
            Self::SourcePort | Self::DestinationPort => DataType::Port,
            Self::Protocol => DataType::Protocol,
            Self::Mark => DataType::Mark,
            Self::InputInterface | Self::OutputInterface => DataType::Interface,
            Self::Random { .. } => DataType::Integer,
        }
    }

    /// The expression that loads it into registers.
    pub fn load(self, to: Register) -> Expression {
        let payload = |header, offset, length| Expression::Payload { header, offset, length, to };
        match self {
            Self::Ipv4Source => payload(Header::Network, 12, 4),
            Self::Ipv4Destination => payload(Header::Network, 16, 4),
            Self::Ipv6Source => payload(Header::Network, 8, 16),
            Self::Ipv6Destination => payload(Header::Network, 24, 16),
            Self::SourcePort => payload(Header::Transport, 0, 2),
            Self::DestinationPort => payload(Header::Transport, 2, 2),
            Self::Protocol => Expression::Meta { key: MetaKey::Protocol, to },
            Self::Mark => Expression::Meta { key: MetaKey::Mark, to },
            Self::InputInterface => Expression::Meta { key: MetaKey::InputInterface, to },
            Self::OutputInterface => Expression::Meta { key: MetaKey::OutputInterface, to },
            Self::Random { modulus } => Expression::Random { modulus, offset: 0, to },
        }
    }

    fn byte_order(self) -> ByteOrder {
        match self {
            Self::Protocol => ByteOrder::Host, // A byte has none; this is what `nft` writes.
            other => other.data_type().byte_order(),
        }
    }
}

/// Loads a concatenated key into registers from `first` on, in the layout that `nft` uses: each part starts on a register of
/// its own and takes as many as its bytes need.
pub fn load_key(parts: &[Selector], first: Register) -> Vec<Expression> {
    let mut next = first;
    let load = |part: &Selector| {
        let at = next;
        next = next.after(part.data_type().length());
        part.load(at)
    };
    parts.iter().map(load).collect()
}

/// Loads a concatenation of constants into registers from `first` on. Each part is loaded on its own: stock `nft` aborts when it
/// lists a rule that loads several at once.
pub fn load_constants(parts: &[Value], first: Register) -> Vec<Expression> {
    let mut next = first;
    let load = |part: &Value| {
        let to = next;
        next = next.after(u32::try_from(part.as_bytes().len()).unwrap_or(u32::MAX));
        Expression::Load { value: *part, to }
    };
    parts.iter().map(load).collect()
}

/// The parts of a key or of data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fields {
    /// Declared with `type`.
    Type(Vec<DataType>),
    /// Declared with `typeof`.
    Typeof(Vec<Selector>),
    /// Something that we never write.
    Other {
        /// The number of the type.
        data_type: u32,
        /// Bytes of a value.
        length: u32,
    },
}

impl Fields {
    fn data_types(&self) -> Vec<DataType> {
        match self {
            Self::Type(types) => types.clone(),
            Self::Typeof(selectors) => selectors.iter().map(|selector| selector.data_type()).collect(),
            Self::Other { .. } => Vec::new(),
        }
    }

    /// The number of the type, with those of a concatenation packed into one.
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Other { data_type, .. } => *data_type,
            known => {
                let pack = |packed: u32, kind: &DataType| (packed << BITS_PER_TYPE) | kind.number();
                known.data_types().iter().fold(0, pack)
            }
        }
    }

    /// Bytes of a value, with the padding of a concatenation.
    pub fn length(&self) -> u32 {
        match (self, self.data_types().as_slice()) {
            (Self::Other { length, .. }, _) => *length,
            (_, [single]) => single.length(),
            (_, types) => types.iter().map(|kind| kind.length().next_multiple_of(4)).sum(),
        }
    }

    /// Bytes of each part, without padding.
    pub(super) fn lengths(&self) -> Vec<u32> {
        self.data_types().iter().map(|kind| kind.length()).collect()
    }

    pub(super) fn byte_order(&self) -> ByteOrder {
        match self {
            Self::Type(types) => match types.as_slice() {
                [single] => single.byte_order(),
                _ => ByteOrder::None,
            },
            Self::Typeof(selectors) => match selectors.as_slice() {
                [single] => single.byte_order(),
                _ => ByteOrder::None,
            },
            Self::Other { .. } => ByteOrder::None,
        }
    }

    /// What the kernel tells: the number of the type, the length, and what the user data say about `typeof`.
    pub(super) fn read(data_type: u32, length: u32, declared: &Typeof) -> Self {
        let other = Self::Other { data_type, length };
        let fields = match declared {
            Typeof::Absent => unpack(data_type).map(Self::Type),
            Typeof::Selectors(selectors) => Some(Self::Typeof(selectors.clone())),
            Typeof::Unknown => None,
        };
        match fields {
            Some(fields) if fields.number() == data_type && fields.length() == length => fields,
            _ => other,
        }
    }
}

/// What user data say about `typeof`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Typeof {
    /// Nothing: declared with `type`.
    #[default]
    Absent,
    Selectors(Vec<Selector>),
    /// Something that we never write.
    Unknown,
}

fn unpack(mut packed: u32) -> Option<Vec<DataType>> {
    let mut types = Vec::new();
    while packed != 0 {
        types.push(DataType::from_number(packed & ((1 << BITS_PER_TYPE) - 1))?);
        packed >>= BITS_PER_TYPE;
    }
    types.reverse();
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_concatenations_are_packed_as_nft_packs_them() {
        let slots = Fields::Typeof(vec![
            Selector::Ipv4Destination,
            Selector::Protocol,
            Selector::DestinationPort,
            Selector::Random { modulus: 65536 },
        ]);
        assert_eq!((slots.number(), slots.length()), (0x001c_c344, 16));
        let typed = Fields::Type(vec![DataType::Ipv6Address, DataType::Protocol, DataType::Port]);
        assert_eq!(Fields::read(typed.number(), typed.length(), &Typeof::Absent), typed);
        let foreign = Fields::Other { data_type: 63, length: 4 };
        assert_eq!(Fields::read(63, 4, &Typeof::Absent), foreign);
    }

    #[test]
    fn a_key_is_loaded_into_registers_one_after_the_other() {
        let key = [Selector::Ipv6Destination, Selector::Protocol, Selector::DestinationPort];
        let registers: Vec<_> = load_key(&key, Register::FIRST)
            .into_iter()
            .map(|load| match load {
                Expression::Payload { to, .. } | Expression::Meta { to, .. } => to,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(registers, [Register::word(0), Register::word(4), Register::word(5)]);
    }
}
