//! Reading expressions. What we never write, down to a single attribute, becomes [`Expression::Other`].

use std::sync::Arc;

use super::{
    Comparison, CtKey, DynamicChange, Expression, Found, Header, MetaKey, PortChoice, Register, Reject, Side,
};
use crate::attribute::{Attribute, Attributes};
use crate::nftables::duration;
use crate::nftables::value::{Datum, Value};
use crate::{Family, Malformed};

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// Address and port given: the kernel adds these bits by itself.
const NAT_IMPLIED: u32 = 3;
const FULLY_RANDOM: u32 = 0x10;
const KINDS: usize = 12;

/// Reads the steps of a rule.
pub(in crate::nftables) fn read_list(list: Attributes<'_>) -> Result<Vec<Expression>, Malformed> {
    list.map(|expression| read(expression?.nested())).collect()
}

fn read(attributes: Attributes<'_>) -> Result<Expression, Malformed> {
    let mut name = None;
    let mut data = Attributes::new(&[]);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            NFTA_EXPR_NAME => name = Some(attribute.text()),
            NFTA_EXPR_DATA => data = attribute.nested(),
            _ => {}
        }
    }
    let name = name.ok_or(Malformed::Absent { part: "expression name" })?;
    let known = Parts::read(data)?.and_then(|parts| known(&name, parts));
    Ok(known.unwrap_or(Expression::Other { name }))
}

fn known(name: &str, mut parts: Parts<'_>) -> Option<Expression> {
    let parts = &mut parts;
    let expression = match name {
        "meta" => meta(parts)?,
        "payload" => payload(parts)?,
        "ct" => Expression::Ct { to: parts.register(1)?, key: ct_key(parts.number(2)?)? },
        "fib" => fib(parts)?,
        "bitwise" => bitwise(parts)?,
        "cmp" => compare(parts)?,
        "lookup" => lookup(parts)?,
        "numgen" => numgen(parts)?,
        "immediate" => immediate(parts)?,
        "nat" => nat(parts)?,
        "masq" => Expression::Masquerade(port_choice(parts.number(1).unwrap_or(0))?),
        "reject" => reject(parts)?,
        "dynset" => dynamic(parts)?,
        "counter" => {
            let _ = (parts.take(1), parts.take(2), parts.take(3));
            Expression::Counter
        }
        "notrack" => Expression::NoTrack,
        _ => return None,
    };
    parts.is_used_up().then_some(expression)
}

fn meta(parts: &mut Parts<'_>) -> Option<Expression> {
    let key = match parts.number(2)? {
        2 => MetaKey::Priority,
        3 => MetaKey::Mark,
        6 => MetaKey::InputInterface,
        7 => MetaKey::OutputInterface,
        16 => MetaKey::Protocol,
        _ => return None,
    };
    match (parts.take(1), parts.take(3)) {
        (Some(to), None) => Some(Expression::Meta { key, to: register(to)? }),
        (None, Some(from)) => Some(Expression::SetMeta { key, from: register(from)? }),
        _ => None,
    }
}

fn payload(parts: &mut Parts<'_>) -> Option<Expression> {
    let header = match parts.number(2)? {
        1 => Header::Network,
        2 => Header::Transport,
        _ => return None,
    };
    let to = parts.register(1)?;
    Some(Expression::Payload { header, offset: parts.number(3)?, length: parts.number(4)?, to })
}

fn ct_key(number: u32) -> Option<CtKey> {
    match number {
        0 => Some(CtKey::State),
        2 => Some(CtKey::Status),
        3 => Some(CtKey::Mark),
        _ => None,
    }
}

fn fib(parts: &mut Parts<'_>) -> Option<Expression> {
    let of = match (parts.number(2)?, parts.number(3)?) {
        (3, 1) => Side::Source,
        (3, 2) => Side::Destination,
        _ => return None,
    };
    Some(Expression::AddressType { of, to: parts.register(1)? })
}

fn bitwise(parts: &mut Parts<'_>) -> Option<Expression> {
    let (from, to) = (parts.register(1)?, parts.register(2)?);
    let length = usize::try_from(parts.number(3)?).ok()?;
    let (mask, xor) = (parts.value(4)?, parts.value(5)?);
    let is_mask_and_xor = parts.number(6).unwrap_or(0) == 0;
    let fits = mask.as_bytes().len() == length && xor.as_bytes().len() == length;
    (is_mask_and_xor && fits).then_some(Expression::Bitwise { from, to, mask, xor })
}

fn compare(parts: &mut Parts<'_>) -> Option<Expression> {
    let comparison = match parts.number(2)? {
        0 => Comparison::Equal,
        1 => Comparison::NotEqual,
        _ => return None,
    };
    Some(Expression::Compare { from: parts.register(1)?, comparison, value: parts.value(3)? })
}

fn lookup(parts: &mut Parts<'_>) -> Option<Expression> {
    let (set, from) = (parts.name(1)?, parts.register(2)?);
    let found = match (parts.number(3), parts.number(5).unwrap_or(0)) {
        (None, 0) => Found::Member,
        (None, 1) => Found::NotMember,
        (Some(0), 0) => Found::Verdict,
        (Some(to), 0) => Found::Data(Register::from_number(to)?),
        _ => return None,
    };
    Some(Expression::Lookup { set, from, found })
}

fn numgen(parts: &mut Parts<'_>) -> Option<Expression> {
    let is_random = parts.number(3)? == 1;
    let (to, modulus, offset) = (parts.register(1)?, parts.number(2)?, parts.number(4).unwrap_or(0));
    is_random.then_some(Expression::Random { modulus, offset, to })
}

fn immediate(parts: &mut Parts<'_>) -> Option<Expression> {
    match (parts.number(1)?, Datum::read(parts.take(2)?)?) {
        (0, Datum::Verdict(verdict)) => Some(Expression::Verdict(verdict)),
        (to, Datum::Value(value)) => Some(Expression::Load { value, to: Register::from_number(to)? }),
        (_, Datum::Verdict(_)) => None,
    }
}

fn nat(parts: &mut Parts<'_>) -> Option<Expression> {
    let side = match parts.number(1)? {
        0 => Side::Source,
        1 => Side::Destination,
        _ => return None,
    };
    let family = Family::from_number(u8::try_from(parts.number(2)?).ok()?)?;
    let (address, last_address) = (parts.number(3)?, parts.number(4));
    let (port, last_port) = (parts.number(5), parts.number(6));
    let is_range =
        last_address.is_some_and(|last| last != address) || last_port.is_some_and(|last| Some(last) != port);
    let port = port.map(Register::from_number).map_or(Some(None), |port| port.map(Some))?;
    let choice = port_choice(parts.number(7).unwrap_or(0) & !NAT_IMPLIED)?;
    let address = Register::from_number(address)?;
    (!is_range).then_some(Expression::Nat { side, family, address, port, choice })
}

fn port_choice(flags: u32) -> Option<PortChoice> {
    match flags {
        0 => Some(PortChoice::Keep),
        FULLY_RANDOM => Some(PortChoice::FullyRandom),
        _ => None,
    }
}

fn reject(parts: &mut Parts<'_>) -> Option<Expression> {
    let code = parts.take(2).and_then(|code| code.u8().ok());
    Some(Expression::Reject(match (parts.number(1)?, code) {
        (0, Some(code)) => Reject::Unreachable(code),
        (1, _) => Reject::TcpReset,
        _ => return None,
    }))
}

fn dynamic(parts: &mut Parts<'_>) -> Option<Expression> {
    let change = match parts.number(3)? {
        0 => DynamicChange::Add,
        1 => DynamicChange::Update,
        2 => DynamicChange::Delete,
        _ => return None,
    };
    let data = match parts.take(5) {
        Some(data) => Some(register(data)?),
        None => None,
    };
    let timeout = parts.take(6).and_then(|timeout| timeout.be64().ok()).and_then(duration);
    let _ = parts.take(8); // Padding.
    if parts.number(9).unwrap_or(0) != 0 {
        return None;
    }
    Some(Expression::Dynamic { set: parts.name(1)?, change, key: parts.register(4)?, data, timeout })
}

fn register(attribute: Attribute<'_>) -> Option<Register> {
    Register::from_number(attribute.be32().ok()?)
}

/// The attributes of one expression, each to be taken once.
struct Parts<'a> {
    attributes: [Option<Attribute<'a>>; KINDS],
}

impl<'a> Parts<'a> {
    /// `None` if there is an attribute that no expression of ours has.
    fn read(attributes: Attributes<'a>) -> Result<Option<Self>, Malformed> {
        let mut parts = Self { attributes: [None; KINDS] };
        for attribute in attributes {
            let attribute = attribute?;
            match parts.attributes.get_mut(usize::from(attribute.kind)) {
                Some(slot @ None) => *slot = Some(attribute),
                _ => return Ok(None),
            }
        }
        Ok(Some(parts))
    }

    fn take(&mut self, kind: usize) -> Option<Attribute<'a>> {
        self.attributes.get_mut(kind)?.take()
    }

    fn number(&mut self, kind: usize) -> Option<u32> {
        self.take(kind)?.be32().ok()
    }

    fn register(&mut self, kind: usize) -> Option<Register> {
        register(self.take(kind)?)
    }

    fn value(&mut self, kind: usize) -> Option<Value> {
        Datum::read(self.take(kind)?)?.value()
    }

    fn name(&mut self, kind: usize) -> Option<Arc<str>> {
        self.take(kind).map(|name| Arc::from(name.text()))
    }

    fn is_used_up(&self) -> bool {
        self.attributes.iter().all(Option::is_none)
    }
}
