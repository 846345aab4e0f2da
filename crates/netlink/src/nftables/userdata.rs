//! User data: bytes that the kernel keeps for `nft` and never reads. Type and length are one byte each, values may nest.
//!
//! Reading tolerates anything: what cannot be read is as if it were absent or unknown, never an error, because any program may
//! have written it.

use super::types::{Fields, Selector, Typeof};
use super::value::Comment;

/// Of tables, chains, rules and elements.
const COMMENT: u8 = 0;

const SET_KEY_BYTE_ORDER: u8 = 0;
const SET_DATA_BYTE_ORDER: u8 = 1;
const SET_KEY_TYPEOF: u8 = 3;
const SET_DATA_TYPEOF: u8 = 4;
const SET_DATA_INTERVAL: u8 = 6;
const SET_COMMENT: u8 = 7;

const TYPEOF_EXPRESSION: u8 = 0;
const TYPEOF_DATA: u8 = 1;

const EXPRESSION_VERDICT: u32 = 1;
const EXPRESSION_PAYLOAD: u32 = 7;
const EXPRESSION_META: u32 = 9;
const EXPRESSION_CONCATENATION: u32 = 13;
const EXPRESSION_NUMGEN: u32 = 23;

const HEADER_TRANSPORT: u32 = 11;
const HEADER_IPV4: u32 = 12;
const HEADER_IPV6: u32 = 13;

const META_MARK: u32 = 3;
const META_INPUT_INTERFACE: u32 = 6;
const META_OUTPUT_INTERFACE: u32 = 7;
const META_PROTOCOL: u32 = 16;

const NUMGEN_RANDOM: u32 = 1;

/// What a set or map holds for each key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetData {
    /// Nothing: a set.
    None,
    /// A verdict.
    Verdict,
    /// A value.
    Value(Fields),
}

/// What the user data of a set tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SetUserData {
    pub(super) key: Typeof,
    pub(super) data: Typeof,
    pub(super) comment: Option<Comment>,
}

/// The user data of a table, chain, rule or element.
pub(super) fn of_comment(comment: &Comment) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(comment.as_str().len() + 3);
    put_text(&mut bytes, COMMENT, comment);
    bytes
}

/// The comment in the user data of a table, chain, rule or element.
pub(super) fn read_comment(bytes: &[u8]) -> Option<Comment> {
    let (_, value) = Parts(bytes).find(|(kind, _)| *kind == COMMENT)?;
    read_text(value)
}

/// The user data of a set.
pub(super) fn of_set(key: &Fields, data: &SetData, comment: Option<&Comment>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128);
    put_u32(&mut bytes, SET_KEY_BYTE_ORDER, key.byte_order() as u32);
    match data {
        SetData::None => {}
        SetData::Verdict => put_u32(&mut bytes, SET_DATA_BYTE_ORDER, 0),
        SetData::Value(fields) => put_u32(&mut bytes, SET_DATA_BYTE_ORDER, fields.byte_order() as u32),
    }
    put_typeof(&mut bytes, SET_KEY_TYPEOF, key);
    match data {
        SetData::Verdict if matches!(key, Fields::Typeof(_)) => {
            put_expression(&mut bytes, SET_DATA_TYPEOF, EXPRESSION_VERDICT, |_| {});
        }
        SetData::Value(fields) => put_typeof(&mut bytes, SET_DATA_TYPEOF, fields),
        SetData::None | SetData::Verdict => {}
    }
    if *data != SetData::None {
        put_u32(&mut bytes, SET_DATA_INTERVAL, 0);
    }
    if let Some(comment) = comment {
        put_text(&mut bytes, SET_COMMENT, comment);
    }
    bytes
}

/// Reads the user data of a set.
pub(super) fn read_set(bytes: &[u8]) -> SetUserData {
    let mut read = SetUserData::default();
    for (kind, value) in Parts(bytes) {
        match kind {
            SET_KEY_TYPEOF => read.key = read_typeof(value),
            SET_DATA_TYPEOF => read.data = read_typeof(value),
            SET_COMMENT => read.comment = read_text(value),
            _ => {}
        }
    }
    read
}

fn put(bytes: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    bytes.extend_from_slice(&[kind, 0]);
    let start = bytes.len();
    body(bytes);
    // A concatenation has at most sixteen parts, but a length that does not fit must not lie: the value is left out.
    match u8::try_from(bytes.len() - start) {
        Ok(length) => bytes.iter_mut().skip(start - 1).take(1).for_each(|byte| *byte = length),
        Err(_) => bytes.truncate(start),
    }
}

fn put_u32(bytes: &mut Vec<u8>, kind: u8, value: u32) {
    put(bytes, kind, |bytes| bytes.extend_from_slice(&value.to_ne_bytes()));
}

fn put_text(bytes: &mut Vec<u8>, kind: u8, text: &Comment) {
    put(bytes, kind, |bytes| {
        bytes.extend_from_slice(text.as_str().as_bytes());
        bytes.push(0);
    });
}

fn put_expression(bytes: &mut Vec<u8>, kind: u8, expression: u32, body: impl FnOnce(&mut Vec<u8>)) {
    put(bytes, kind, |bytes| {
        put_u32(bytes, TYPEOF_EXPRESSION, expression);
        put(bytes, TYPEOF_DATA, body);
    });
}

fn put_typeof(bytes: &mut Vec<u8>, kind: u8, fields: &Fields) {
    match fields {
        Fields::Typeof(selectors) => match selectors.as_slice() {
            [single] => put_selector(bytes, kind, *single),
            several => put_expression(bytes, kind, EXPRESSION_CONCATENATION, |bytes| {
                for (part, selector) in (0..).zip(several) {
                    put_selector(bytes, part, *selector);
                }
            }),
        },
        // `nft` names the parts of a concatenation only for `typeof`, but always says that there is one.
        Fields::Type(types) if types.len() > 1 => {
            put_expression(bytes, kind, EXPRESSION_CONCATENATION, |_| {});
        }
        Fields::Type(_) | Fields::Other { .. } => {}
    }
}

fn put_selector(bytes: &mut Vec<u8>, kind: u8, selector: Selector) {
    let (expression, numbers): (u32, &[u32]) = match selector {
        Selector::Ipv4Source => (EXPRESSION_PAYLOAD, &[HEADER_IPV4, 11]),
        Selector::Ipv4Destination => (EXPRESSION_PAYLOAD, &[HEADER_IPV4, 12]),
        Selector::Ipv6Source => (EXPRESSION_PAYLOAD, &[HEADER_IPV6, 8]),
        Selector::Ipv6Destination => (EXPRESSION_PAYLOAD, &[HEADER_IPV6, 9]),
        Selector::SourcePort => (EXPRESSION_PAYLOAD, &[HEADER_TRANSPORT, 1]),
        Selector::DestinationPort => (EXPRESSION_PAYLOAD, &[HEADER_TRANSPORT, 2]),
        Selector::Protocol => (EXPRESSION_META, &[META_PROTOCOL]),
        Selector::Mark => (EXPRESSION_META, &[META_MARK]),
        Selector::InputInterface => (EXPRESSION_META, &[META_INPUT_INTERFACE]),
        Selector::OutputInterface => (EXPRESSION_META, &[META_OUTPUT_INTERFACE]),
        Selector::Random { modulus } => (EXPRESSION_NUMGEN, &[NUMGEN_RANDOM, modulus, 0]),
    };
    put_expression(bytes, kind, expression, |bytes| {
        for (part, number) in (0..).zip(numbers) {
            put_u32(bytes, part, *number);
        }
    });
}

fn read_text(value: &[u8]) -> Option<Comment> {
    let text = value.strip_suffix(&[0])?;
    Some(Comment::as_read(&String::from_utf8_lossy(text)))
}

fn read_typeof(bytes: &[u8]) -> Typeof {
    let Some((expression, data)) = read_expression(bytes) else { return Typeof::Unknown };
    let selectors: Option<Vec<_>> = match expression {
        EXPRESSION_CONCATENATION | EXPRESSION_VERDICT if data.is_empty() => return Typeof::Absent,
        EXPRESSION_CONCATENATION => Parts(data).map(|(_, part)| read_selector(part)).collect(),
        _ => read_selector(bytes).map(|selector| vec![selector]),
    };
    selectors.map_or(Typeof::Unknown, Typeof::Selectors)
}

fn read_expression(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut parts = Parts(bytes);
    match (parts.next(), parts.next(), parts.next()) {
        (Some((TYPEOF_EXPRESSION, number)), Some((TYPEOF_DATA, data)), None) => {
            Some((u32::from_ne_bytes(number.try_into().ok()?), data))
        }
        _ => None,
    }
}

fn read_selector(bytes: &[u8]) -> Option<Selector> {
    let (expression, data) = read_expression(bytes)?;
    let numbers: Option<Vec<u32>> =
        Parts(data).map(|(_, value)| value.try_into().ok().map(u32::from_ne_bytes)).collect();
    Some(match (expression, numbers?.as_slice()) {
        (EXPRESSION_PAYLOAD, [HEADER_IPV4, 11]) => Selector::Ipv4Source,
        (EXPRESSION_PAYLOAD, [HEADER_IPV4, 12]) => Selector::Ipv4Destination,
        (EXPRESSION_PAYLOAD, [HEADER_IPV6, 8]) => Selector::Ipv6Source,
        (EXPRESSION_PAYLOAD, [HEADER_IPV6, 9]) => Selector::Ipv6Destination,
        (EXPRESSION_PAYLOAD, [HEADER_TRANSPORT, 1]) => Selector::SourcePort,
        (EXPRESSION_PAYLOAD, [HEADER_TRANSPORT, 2]) => Selector::DestinationPort,
        (EXPRESSION_META, [META_PROTOCOL]) => Selector::Protocol,
        (EXPRESSION_META, [META_MARK]) => Selector::Mark,
        (EXPRESSION_META, [META_INPUT_INTERFACE]) => Selector::InputInterface,
        (EXPRESSION_META, [META_OUTPUT_INTERFACE]) => Selector::OutputInterface,
        (EXPRESSION_NUMGEN, [NUMGEN_RANDOM, modulus, 0]) => Selector::Random { modulus: *modulus },
        _ => return None,
    })
}

/// Type and value of each part; ends at the first that is cut.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([kind, length], rest) = self.0.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        self.0 = rest;
        Some((*kind, value))
    }
}
