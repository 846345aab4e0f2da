//! Writing expressions, attribute by attribute in the order in which `nft` writes them.

use super::{
    Comparison, CtKey, DynamicChange, Expression, Found, Header, MetaKey, PortChoice, Register, Reject, Side,
};
use crate::message::Message;
use crate::nftables::value::{Value, Verdict};
use crate::nftables::{NFTA_LIST_ELEM, milliseconds};

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NF_NAT_RANGE_PROTO_RANDOM_FULLY: u32 = 0x10;

/// Writes the steps of a rule as one attribute.
pub(in crate::nftables) fn put_list(message: &mut Message, kind: u16, expressions: &[Expression]) {
    message.nest(kind, |list| {
        for expression in expressions {
            put(list, expression);
        }
    });
}

fn put(list: &mut Message, expression: &Expression) {
    match expression {
        Expression::Meta { key, to } => named(list, "meta", |m| {
            m.put_be32(2, meta_number(*key)).put_be32(1, to.number());
        }),
        Expression::SetMeta { key, from } => named(list, "meta", |m| {
            m.put_be32(2, meta_number(*key)).put_be32(3, from.number());
        }),
        Expression::Payload { header, offset, length, to } => named(list, "payload", |m| {
            m.put_be32(1, to.number()).put_be32(2, header_number(*header));
            m.put_be32(3, *offset).put_be32(4, *length);
        }),
        Expression::Ct { key, to } => named(list, "ct", |m| {
            m.put_be32(2, ct_number(*key)).put_be32(1, to.number());
        }),
        Expression::AddressType { of, to } => named(list, "fib", |m| {
            const ADDRESS_TYPE: u32 = 3;
            m.put_be32(3, fib_flag(*of)).put_be32(2, ADDRESS_TYPE).put_be32(1, to.number());
        }),
        Expression::Bitwise { from, to, mask, xor } => bitwise(list, *from, *to, mask, xor),
        Expression::Compare { from, comparison, value } => named(list, "cmp", |m| {
            m.put_be32(1, from.number()).put_be32(2, comparison_number(*comparison));
            value.put(m, 3);
        }),
        Expression::Lookup { set, from, found } => lookup(list, set, *from, *found),
        Expression::Random { modulus, offset, to } => named(list, "numgen", |m| {
            const RANDOM: u32 = 1;
            m.put_be32(1, to.number()).put_be32(2, *modulus).put_be32(3, RANDOM).put_be32(4, *offset);
        }),
        Expression::Load { value, to } => named(list, "immediate", |m| {
            m.put_be32(1, to.number());
            value.put(m, 2);
        }),
        Expression::Verdict(verdict) => end(list, verdict),
        Expression::Nat { .. } => nat(list, expression),
        Expression::Masquerade(choice) => named(list, "masq", |m| put_choice(m, 1, *choice)),
        Expression::Reject(reject) => put_reject(list, *reject),
        Expression::Dynamic { .. } => dynamic(list, expression),
        Expression::Counter => named(list, "counter", |_| {}),
        Expression::NoTrack => _ = list.nest(NFTA_LIST_ELEM, |m| _ = m.put_text(NFTA_EXPR_NAME, "notrack")),
        Expression::Other { .. } => {
            list.refuse("a rule holds an expression that was read and is not understood")
        }
    }
}

fn named(list: &mut Message, name: &str, body: impl FnOnce(&mut Message)) {
    list.nest(NFTA_LIST_ELEM, |expression| {
        expression.put_text(NFTA_EXPR_NAME, name).nest(NFTA_EXPR_DATA, body);
    });
}

fn bitwise(list: &mut Message, from: Register, to: Register, mask: &Value, xor: &Value) {
    const MASK_AND_XOR: u32 = 0;
    named(list, "bitwise", |m| {
        let length = u32::try_from(mask.as_bytes().len()).unwrap_or(u32::MAX);
        m.put_be32(1, from.number()).put_be32(2, to.number()).put_be32(6, MASK_AND_XOR).put_be32(3, length);
        mask.put(m, 4);
        xor.put(m, 5);
    });
}

fn lookup(list: &mut Message, set: &str, from: Register, found: Found) {
    const INVERTED: u32 = 1;
    const VERDICT_REGISTER: u32 = 0;
    named(list, "lookup", |m| {
        m.put_be32(2, from.number());
        match found {
            Found::Data(to) => m.put_be32(3, to.number()),
            Found::Verdict => m.put_be32(3, VERDICT_REGISTER),
            Found::Member | Found::NotMember => m,
        };
        m.put_text(1, set);
        if found == Found::NotMember {
            m.put_be32(5, INVERTED);
        }
    });
}

fn end(list: &mut Message, verdict: &Verdict) {
    const VERDICT_REGISTER: u32 = 0;
    named(list, "immediate", |m| {
        m.put_be32(1, VERDICT_REGISTER);
        verdict.put(m, 2);
    });
}

fn nat(list: &mut Message, expression: &Expression) {
    let Expression::Nat { side, family, address, port, choice } = expression else { return };
    named(list, "nat", |m| {
        m.put_be32(1, u32::from(*side == Side::Destination));
        m.put_be32(2, u32::from(family.number())).put_be32(3, address.number());
        if let Some(port) = port {
            m.put_be32(5, port.number());
        }
        put_choice(m, 7, *choice); // That address and port are given, the kernel sees by itself.
    });
}

fn put_choice(message: &mut Message, kind: u16, choice: PortChoice) {
    if choice == PortChoice::FullyRandom {
        message.put_be32(kind, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
    }
}

fn put_reject(list: &mut Message, reject: Reject) {
    let (kind, code) = match reject {
        Reject::Unreachable(code) => (0, code),
        Reject::TcpReset => (1, 0),
    };
    named(list, "reject", |m| {
        m.put_be32(1, kind).put(2, &[code]);
    });
}

fn dynamic(list: &mut Message, expression: &Expression) {
    let Expression::Dynamic { set, change, key, data, timeout } = expression else { return };
    let operation = match change {
        DynamicChange::Add => 0,
        DynamicChange::Update => 1,
        DynamicChange::Delete => 2,
    };
    named(list, "dynset", |m| {
        m.put_be32(4, key.number());
        if let Some(data) = data {
            m.put_be32(5, data.number());
        }
        m.put_be32(3, operation);
        if let Some(timeout) = timeout {
            m.put_be64(6, milliseconds(*timeout));
        }
        m.put_text(1, set);
    });
}

fn meta_number(key: MetaKey) -> u32 {
    match key {
        MetaKey::Priority => 2,
        MetaKey::Mark => 3,
        MetaKey::InputInterface => 6,
        MetaKey::OutputInterface => 7,
        MetaKey::Protocol => 16,
    }
}

fn ct_number(key: CtKey) -> u32 {
    match key {
        CtKey::State => 0,
        CtKey::Status => 2,
        CtKey::Mark => 3,
    }
}

fn header_number(header: Header) -> u32 {
    match header {
        Header::Network => 1,
        Header::Transport => 2,
    }
}

fn fib_flag(of: Side) -> u32 {
    match of {
        Side::Source => 1,
        Side::Destination => 2,
    }
}

fn comparison_number(comparison: Comparison) -> u32 {
    match comparison {
        Comparison::Equal => 0,
        Comparison::NotEqual => 1,
    }
}
