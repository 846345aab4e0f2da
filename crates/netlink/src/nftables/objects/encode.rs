//! Writing objects, attribute by attribute in the order in which `nft` writes them.

use std::time::Duration;

use super::{Attachment, Base, Chain, ChainType, Element, ElementData, Extent, Hook, Rule, Set, Table};
use crate::message::Message;
use crate::nftables::expression::put_list;
use crate::nftables::types::Fields;
use crate::nftables::userdata::{self, SetData};
use crate::nftables::value::Comment;
use crate::nftables::{NFTA_LIST_ELEM, SetFlags, milliseconds};

const NFT_SET_MAP: u32 = 0x8;
const NFT_SET_CONCAT: u32 = 0x80;
/// What the kernel keeps for `nft` with one object.
const USER_DATA_MAX: usize = 256;
const VERDICT_TYPE: u32 = 0xffff_ff00;

/// The attributes of a table behind its name.
pub(in crate::nftables) fn put_table(message: &mut Message, table: &Table) {
    const FLAGS: u16 = 2;
    message.put_be32(FLAGS, u32::from(table.is_dormant));
    put_comment(message, 6, table.comment.as_ref());
}

/// The attributes of a chain behind the name of its table.
pub(in crate::nftables) fn put_chain(message: &mut Message, chain: &Chain) {
    const POLICY_ACCEPT: u32 = 1;
    message.put_text(3, &chain.name);
    match chain.attachment {
        Attachment::Regular => {}
        Attachment::Other => message.refuse("a chain is attached in a way that is not understood"),
        Attachment::Base(Base { chain_type, hook, priority }) => {
            message.put_text(7, type_name(chain_type)).put_be32(5, POLICY_ACCEPT);
            message.nest(4, |m| {
                m.put_be32(1, hook_number(hook)).put(2, &priority.to_be_bytes());
            });
        }
    }
    put_comment(message, 12, chain.comment.as_ref());
}

fn type_name(chain_type: ChainType) -> &'static str {
    match chain_type {
        ChainType::Filter => "filter",
        ChainType::Nat => "nat",
    }
}

fn hook_number(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}

/// The attributes of a rule behind the name of its table.
pub(in crate::nftables) fn put_rule(message: &mut Message, rule: &Rule) {
    message.put_text(2, &rule.chain);
    if let Some(handle) = rule.handle {
        message.put_be64(3, handle);
    }
    put_list(message, 4, &rule.expressions);
    put_comment(message, 7, rule.comment.as_ref());
}

/// The attributes of a set behind the name of its table. `id` tells new sets of one batch apart.
pub(in crate::nftables) fn put_set(message: &mut Message, set: &Set, id: u32) {
    let is_concatenation = set.key.lengths().len() > 1;
    let has_ranges_of_parts = is_concatenation && set.flags.contains(SetFlags::INTERVAL);
    let map = if set.data == SetData::None { 0 } else { NFT_SET_MAP };
    let concat = if has_ranges_of_parts { NFT_SET_CONCAT } else { 0 };
    if [Some(&set.key), value_fields(&set.data)].into_iter().flatten().any(is_foreign) {
        message.refuse("a set has a type that is not understood");
    }
    message.put_text(2, &set.name).put_be32(3, set.flags.0 | map | concat);
    message.put_be32(4, set.key.number()).put_be32(5, set.key.length());
    match &set.data {
        SetData::None => {}
        SetData::Verdict => {
            message.put_be32(6, VERDICT_TYPE).put_be32(7, 0);
        }
        SetData::Value(fields) => {
            message.put_be32(6, fields.number()).put_be32(7, fields.length());
        }
    }
    message.put_be32(10, id);
    put_description(message, set, has_ranges_of_parts);
    if let Some(timeout) = set.timeout {
        message.put_be64(11, milliseconds(timeout));
    }
    let user_data = userdata::of_set(&set.key, &set.data, set.comment.as_ref());
    if user_data.len() > USER_DATA_MAX {
        message.refuse("the typeof and the comment of a set need more than 256 bytes together");
    }
    message.put(13, &user_data);
}

fn value_fields(data: &SetData) -> Option<&Fields> {
    match data {
        SetData::Value(fields) => Some(fields),
        SetData::None | SetData::Verdict => None,
    }
}

fn is_foreign(fields: &Fields) -> bool {
    matches!(fields, Fields::Other { .. })
}

fn put_description(message: &mut Message, set: &Set, has_ranges_of_parts: bool) {
    if set.size.is_none() && !has_ranges_of_parts {
        return;
    }
    message.nest(9, |description| {
        if let Some(size) = set.size {
            description.put_be32(1, size);
        }
        if has_ranges_of_parts {
            description.nest(2, |concatenation| {
                for length in set.key.lengths() {
                    concatenation.nest(NFTA_LIST_ELEM, |field| {
                        field.put_be32(1, length);
                    });
                }
            });
        }
    });
}

/// One element of a list.
pub(in crate::nftables) fn put_element(list: &mut Message, element: &Element) {
    list.nest(NFTA_LIST_ELEM, |m| {
        put_key(m, element, element.timeout);
        match &element.data {
            ElementData::None => {}
            ElementData::Verdict(verdict) => verdict.put(m, 2),
            ElementData::Value(value) => value.put(m, 2),
            ElementData::Other => m.refuse("an element leads to something that is not understood"),
        }
        put_comment(m, 6, element.comment.as_ref());
    });
}

/// One element of a list of those that shall go.
pub(in crate::nftables) fn put_element_key(list: &mut Message, element: &Element) {
    list.nest(NFTA_LIST_ELEM, |m| put_key(m, element, None));
}

fn put_key(m: &mut Message, element: &Element, timeout: Option<Duration>) {
    const INTERVAL_END: u32 = 1;
    const CATCH_ALL: u32 = 2;
    match element.extent {
        Extent::Behind => m.put_be32(3, INTERVAL_END),
        Extent::Rest => m.put_be32(3, CATCH_ALL),
        Extent::Key | Extent::Through(_) => m,
    };
    if let Some(timeout) = timeout {
        m.put_be64(4, milliseconds(timeout));
    }
    if element.extent != Extent::Rest {
        element.key.put(m, 1);
    }
    if let Extent::Through(last) = &element.extent {
        last.put(m, 10);
    }
}

fn put_comment(message: &mut Message, kind: u16, comment: Option<&Comment>) {
    if let Some(comment) = comment {
        message.put(kind, &userdata::of_comment(comment));
    }
}
