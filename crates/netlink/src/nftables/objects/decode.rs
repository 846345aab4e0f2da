//! Reading objects back.

use std::sync::Arc;

use super::{
    Attachment, Base, Chain, ChainType, Element, ElementData, Extent, Hook, Rule, Set, SetFlags, Table,
    TableId,
};
use crate::attribute::{Attribute, Attributes};
use crate::message::{Frame, netfilter_family};
use crate::nftables::expression::read_list;
use crate::nftables::types::Fields;
use crate::nftables::userdata::{self, SetData, SetUserData};
use crate::nftables::value::{Comment, Datum, Value};
use crate::nftables::{NFTA_TABLE, duration};
use crate::{Family, Malformed};

const NFT_SET_MAP: u32 = 0x8;
const NFT_SET_CONCAT: u32 = 0x80;
const VERDICT_TYPE: u32 = 0xffff_ff00;

/// `None` for a table of another family.
pub(in crate::nftables) fn read_table(frame: &Frame<'_>) -> Result<Option<Table>, Malformed> {
    let (fixed, attributes) = frame.split::<4>()?;
    let Some(family) = Family::from_number(netfilter_family(fixed)) else { return Ok(None) };
    let (mut name, mut comment, mut is_dormant) = (None, None, false);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            NFTA_TABLE => name = Some(text(&attribute)),
            2 => is_dormant = attribute.be32()? & 1 != 0,
            6 => comment = read_comment(&attribute),
            _ => {}
        }
    }
    let name = name.ok_or(Malformed::Absent { part: "table name" })?;
    Ok(Some(Table { id: TableId { family, name }, comment, is_dormant }))
}

/// `None` for an object of another table.
fn of_table<'a>(frame: &Frame<'a>, table: &TableId) -> Result<Option<Attributes<'a>>, Malformed> {
    let (fixed, attributes) = frame.split::<4>()?;
    if netfilter_family(fixed) != table.family.number() {
        return Ok(None);
    }
    let names_table = |attribute: Result<Attribute<'_>, _>| {
        attribute.is_ok_and(|attribute| attribute.kind == NFTA_TABLE && *attribute.text() == *table.name)
    };
    Ok(attributes.clone().any(names_table).then_some(attributes))
}

/// `None` for a chain of another table.
pub(in crate::nftables) fn read_chain(
    frame: &Frame<'_>,
    table: &TableId,
) -> Result<Option<Chain>, Malformed> {
    let Some(attributes) = of_table(frame, table)? else { return Ok(None) };
    let (mut name, mut hook, mut kind, mut comment) = (None, None, None, None);
    let mut policy = 1;
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            3 => name = Some(text(&attribute)),
            4 => hook = Some(read_hook(attribute.nested())?),
            5 => policy = attribute.be32()?,
            7 => kind = Some(attribute.text()),
            12 => comment = read_comment(&attribute),
            _ => {}
        }
    }
    let attachment = match (hook, kind.as_deref(), policy) {
        (None, None, _) => Attachment::Regular,
        (Some(Some((hook, priority))), Some("filter"), 1) => {
            Attachment::Base(Base { chain_type: ChainType::Filter, hook, priority })
        }
        (Some(Some((hook, priority))), Some("nat"), 1) => {
            Attachment::Base(Base { chain_type: ChainType::Nat, hook, priority })
        }
        _ => Attachment::Other,
    };
    Ok(Some(Chain { name: name.ok_or(Malformed::Absent { part: "chain name" })?, attachment, comment }))
}

fn read_hook(attributes: Attributes<'_>) -> Result<Option<(Hook, i32)>, Malformed> {
    let (mut hook, mut priority) = (None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            1 => hook = Some(attribute.be32()?),
            2 => priority = Some(attribute.be32()?.cast_signed()),
            _ => return Ok(None),
        }
    }
    let hook = match hook {
        Some(0) => Hook::Prerouting,
        Some(1) => Hook::Input,
        Some(2) => Hook::Forward,
        Some(3) => Hook::Output,
        Some(4) => Hook::Postrouting,
        _ => return Ok(None),
    };
    Ok(priority.map(|priority| (hook, priority)))
}

/// `None` for a rule of another table.
pub(in crate::nftables) fn read_rule(frame: &Frame<'_>, table: &TableId) -> Result<Option<Rule>, Malformed> {
    let Some(attributes) = of_table(frame, table)? else { return Ok(None) };
    let (mut chain, mut handle, mut comment) = (None, None, None);
    let mut expressions = Vec::new();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            2 => chain = Some(text(&attribute)),
            3 => handle = Some(attribute.be64()?),
            4 => expressions = read_list(attribute.nested())?,
            7 => comment = read_comment(&attribute),
            _ => {}
        }
    }
    let chain = chain.ok_or(Malformed::Absent { part: "chain of the rule" })?;
    Ok(Some(Rule { chain, expressions, comment, handle }))
}

/// What the kernel tells about a set.
#[derive(Default)]
struct RawSet {
    name: Option<Arc<str>>,
    flags: u32,
    key: (u32, u32),
    data: (u32, u32),
    timeout: Option<u64>,
    size: Option<u32>,
    user: SetUserData,
}

/// `None` for a set of another table.
pub(in crate::nftables) fn read_set(frame: &Frame<'_>, table: &TableId) -> Result<Option<Set>, Malformed> {
    let Some(attributes) = of_table(frame, table)? else { return Ok(None) };
    let mut raw = RawSet::default();
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            2 => raw.name = Some(text(&attribute)),
            3 => raw.flags = attribute.be32()?,
            4 => raw.key.0 = attribute.be32()?,
            5 => raw.key.1 = attribute.be32()?,
            6 => raw.data.0 = attribute.be32()?,
            7 => raw.data.1 = attribute.be32()?,
            9 => raw.size = read_size(attribute.nested())?,
            11 => raw.timeout = Some(attribute.be64()?),
            13 => raw.user = userdata::read_set(attribute.value),
            _ => {}
        }
    }
    Ok(Some(Set {
        name: raw.name.ok_or(Malformed::Absent { part: "set name" })?,
        key: Fields::read(raw.key.0, raw.key.1, &raw.user.key),
        data: match (raw.flags & NFT_SET_MAP, raw.data.0) {
            (0, _) => SetData::None,
            (_, VERDICT_TYPE) => SetData::Verdict,
            (_, data_type) => SetData::Value(Fields::read(data_type, raw.data.1, &raw.user.data)),
        },
        flags: SetFlags(raw.flags & !(NFT_SET_MAP | NFT_SET_CONCAT)),
        timeout: raw.timeout.and_then(duration),
        size: raw.size,
        comment: raw.user.comment,
    }))
}

/// The name of a set and how many elements it has. `None` for a set of another table, or if the kernel does not tell.
pub(in crate::nftables) fn read_count(
    frame: &Frame<'_>,
    table: &TableId,
) -> Result<Option<(Arc<str>, u32)>, Malformed> {
    const NAME: u16 = 2;
    const COUNT: u16 = 20;
    let Some(attributes) = of_table(frame, table)? else { return Ok(None) };
    let (mut name, mut count) = (None, None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            NAME => name = Some(text(&attribute)),
            COUNT => count = Some(attribute.be32()?),
            _ => {}
        }
    }
    Ok(name.zip(count))
}

fn read_size(description: Attributes<'_>) -> Result<Option<u32>, Malformed> {
    for attribute in description {
        let attribute = attribute?;
        if attribute.kind == 1 {
            return attribute.be32().map(Some);
        }
    }
    Ok(None)
}

/// Passes on each element of one answer.
pub(in crate::nftables) fn read_elements(
    frame: &Frame<'_>,
    each: &mut dyn FnMut(Element),
) -> Result<(), Malformed> {
    const LIST: u16 = 3;
    for attribute in frame.split::<4>()?.1 {
        let attribute = attribute?;
        if attribute.kind == LIST {
            for element in attribute.nested() {
                each(read_element(element?.nested())?);
            }
        }
    }
    Ok(())
}

fn read_element(attributes: Attributes<'_>) -> Result<Element, Malformed> {
    let (mut key, mut through, mut comment, mut timeout) = (None, None, None, None);
    let mut flags = 0;
    let mut data = ElementData::None;
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            1 => key = Datum::read(attribute).and_then(Datum::value),
            2 => {
                data = match Datum::read(attribute) {
                    Some(Datum::Value(value)) => ElementData::Value(value),
                    Some(Datum::Verdict(verdict)) => ElementData::Verdict(verdict),
                    None => ElementData::Other,
                }
            }
            3 => flags = attribute.be32()?,
            4 => timeout = duration(attribute.be64()?),
            6 => comment = read_comment(&attribute),
            10 => through = Datum::read(attribute).and_then(Datum::value),
            9 => data = ElementData::Other,
            _ => {}
        }
    }
    let extent = match (flags, through) {
        (0, None) => Extent::Key,
        (0, Some(last)) => Extent::Through(last),
        (1, _) => Extent::Behind,
        _ => Extent::Rest,
    };
    let key = match extent {
        Extent::Rest => Value::EMPTY,
        _ => key.ok_or(Malformed::Absent { part: "key of the element" })?,
    };
    Ok(Element { key, extent, data, comment, timeout })
}

fn text(attribute: &Attribute<'_>) -> Arc<str> {
    attribute.text().into()
}

fn read_comment(attribute: &Attribute<'_>) -> Option<Comment> {
    userdata::read_comment(attribute.value)
}
