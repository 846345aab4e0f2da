//! A transaction being collected: all of it holds at once, or none of it.
//!
//! In: operations, in the order in which the kernel shall do them. Out: bytes, written once into one buffer as they come. An element
//! costs no allocation; many elements of one operation are split into messages below the limit of 64 KiB.
//!
//! Invariants
//! - Message number `n` of the batch has sequence number `n`, from 1; so an answer of the kernel leads back to an operation.
//! - Only the last message asks for an acknowledgement: a batch of any size is answered with one datagram unless it fails.
//! - What cannot be encoded spoils the batch; it is reported by [`super::Nft::commit`], and nothing is sent.

use std::fmt;

use super::objects::{put_chain, put_element, put_element_key, put_rule, put_set, put_table};
use super::{Chain, Element, NFTA_TABLE, Rule, SUBSYSTEM, Set, Table, TableId};
use crate::NetlinkError;
use crate::attribute::Attributes;
use crate::message::{Frame, Frames, Message, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE};
use crate::socket::{NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END};

/// The sequence number of the opening bracket: answers to it are about the whole.
pub(super) const BEGIN: u32 = 0;

const BRACKET: [u8; 4] = [0, 0, 0, SUBSYSTEM];
const NFNL_BATCH_GENID: u16 = 1;
const NLM_F_APPEND: u16 = 0x800;
const NEW_TABLE: u8 = 0;
const DELETE_TABLE: u8 = 2;
const NEW_CHAIN: u8 = 3;
const DELETE_CHAIN: u8 = 5;
const NEW_RULE: u8 = 6;
const DELETE_RULE: u8 = 8;
const NEW_SET: u8 = 9;
const DELETE_SET: u8 = 11;
const NEW_ELEMENTS: u8 = 12;
const DELETE_ELEMENTS: u8 = 14;
const NFTA_NAME: u16 = 2;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_ELEMENT_LIST: u16 = 3;
/// A message of elements is closed at this size; the largest element fits behind it.
const ELEMENTS_FULL: usize = 60_000;
/// Netlink and netfilter headers.
const HEADERS: usize = 20;

/// The number of an operation in its batch, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationIndex(pub usize);

/// Operations to be done at once.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The opening bracket, the messages, the closing bracket.
    bytes: Vec<u8>,
    /// Where the closing bracket starts.
    end: usize,
    /// Where the last message starts.
    last: usize,
    messages: u32,
    sets: u32,
    /// The first message of each operation.
    operations: Vec<u32>,
    fault: Option<(OperationIndex, &'static str)>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// Nothing to do yet.
    pub fn new() -> Self {
        Self::opened(Message::new(NFNL_MSG_BATCH_BEGIN, 0, &BRACKET))
    }

    /// Nothing to do yet, and only if nobody has changed the ruleset since this generation.
    pub fn only_after(generation: super::Generation) -> Self {
        let mut begin = Message::new(NFNL_MSG_BATCH_BEGIN, 0, &BRACKET);
        begin.put_be32(NFNL_BATCH_GENID, generation.0);
        Self::opened(begin)
    }

    fn opened(begin: Message) -> Self {
        let bytes = begin.finish(BEGIN, 0).unwrap_or_default(); // Never fails: it holds no text and no value of ours.
        let end = bytes.len();
        Self { bytes, end, last: 0, messages: 0, sets: 0, operations: Vec::new(), fault: None }
    }

    /// Makes a table; one that exists keeps what is in it.
    pub fn add_table(&mut self, table: &Table) -> OperationIndex {
        self.operation(NEW_TABLE, 0, &table.id, |m| put_table(m, table))
    }

    /// Removes a table with everything in it.
    pub fn delete_table(&mut self, table: &TableId) -> OperationIndex {
        self.operation(DELETE_TABLE, 0, table, |_| {})
    }

    /// Makes a chain; one that exists keeps its rules.
    pub fn add_chain(&mut self, table: &TableId, chain: &Chain) -> OperationIndex {
        self.operation(NEW_CHAIN, NLM_F_CREATE, table, |m| put_chain(m, chain))
    }

    /// Removes a chain and its rules. Nothing may lead to it any more.
    pub fn delete_chain(&mut self, table: &TableId, chain: &str) -> OperationIndex {
        self.operation(DELETE_CHAIN, 0, table, |m| {
            m.put_text(NFTA_CHAIN_NAME, chain);
        })
    }

    /// Removes the rules of a chain.
    pub fn flush_chain(&mut self, table: &TableId, chain: &str) -> OperationIndex {
        self.operation(DELETE_RULE, 0, table, |m| {
            m.put_text(NFTA_NAME, chain);
        })
    }

    /// Adds a rule at the end of its chain. A handle in it is refused by the kernel.
    pub fn add_rule(&mut self, table: &TableId, rule: &Rule) -> OperationIndex {
        self.operation(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, table, |m| put_rule(m, rule))
    }

    /// Puts a rule in the place of the one that has its handle.
    pub fn replace_rule(&mut self, table: &TableId, rule: &Rule) -> OperationIndex {
        self.operation(NEW_RULE, NLM_F_REPLACE, table, |m| {
            if rule.handle.is_none() {
                m.refuse("the rule to be replaced has no handle");
            }
            put_rule(m, rule);
        })
    }

    /// Removes one rule.
    pub fn delete_rule(&mut self, table: &TableId, chain: &str, handle: u64) -> OperationIndex {
        self.operation(DELETE_RULE, 0, table, |m| {
            m.put_text(NFTA_NAME, chain).put_be64(NFTA_RULE_HANDLE, handle);
        })
    }

    /// Makes a set or map; one that exists must have the same type and keeps its elements.
    pub fn add_set(&mut self, table: &TableId, set: &Set) -> OperationIndex {
        self.sets += 1;
        let id = self.sets;
        self.operation(NEW_SET, NLM_F_CREATE, table, |m| put_set(m, set, id))
    }

    /// Removes a set or map and its elements. No rule may use it any more.
    pub fn delete_set(&mut self, table: &TableId, set: &str) -> OperationIndex {
        self.operation(DELETE_SET, 0, table, |m| {
            m.put_text(NFTA_NAME, set);
        })
    }

    /// Adds elements. One that exists with the same data is left alone; with other data it is refused: delete it first.
    pub fn add_elements<'a>(
        &mut self,
        table: &TableId,
        set: &str,
        elements: impl IntoIterator<Item = &'a Element>,
    ) -> OperationIndex {
        self.elements(NEW_ELEMENTS, NLM_F_CREATE, table, set, elements)
    }

    /// Removes elements by key and extent. One that does not exist is refused.
    pub fn delete_elements<'a>(
        &mut self,
        table: &TableId,
        set: &str,
        elements: impl IntoIterator<Item = &'a Element>,
    ) -> OperationIndex {
        self.elements(DELETE_ELEMENTS, 0, table, set, elements)
    }

    /// Removes all elements of a set or map.
    pub fn flush_set(&mut self, table: &TableId, set: &str) -> OperationIndex {
        self.operation(DELETE_ELEMENTS, 0, table, |m| {
            m.put_text(NFTA_NAME, set);
        })
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Bytes so far.
    pub fn byte_length(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Without the closing bracket.
    pub(super) fn open_bytes(&self) -> &[u8] {
        self.bytes.get(..self.end).unwrap_or_default()
    }

    pub(super) fn fault(&self) -> Option<(OperationIndex, &'static str)> {
        self.fault
    }

    fn start_operation(&mut self) -> OperationIndex {
        let operation = OperationIndex(self.operations.len());
        self.operations.push(self.messages + 1);
        operation
    }

    fn operation(
        &mut self,
        kind: u8,
        flags: u16,
        table: &TableId,
        body: impl FnOnce(&mut Message),
    ) -> OperationIndex {
        let operation = self.start_operation();
        self.message(operation, kind, flags, table, body);
        operation
    }

    fn elements<'a>(
        &mut self,
        kind: u8,
        flags: u16,
        table: &TableId,
        set: &str,
        elements: impl IntoIterator<Item = &'a Element>,
    ) -> OperationIndex {
        let operation = self.start_operation();
        let mut elements = elements.into_iter().peekable();
        // Without any element the message would mean all of them.
        while elements.peek().is_some() && self.fault.is_none() {
            self.message(operation, kind, flags, table, |m| {
                m.put_text(NFTA_NAME, set).nest(NFTA_ELEMENT_LIST, |list| {
                    while let Some(element) = elements.next_if(|_| list.written() < ELEMENTS_FULL) {
                        match kind {
                            DELETE_ELEMENTS => put_element_key(list, element),
                            _ => put_element(list, element),
                        }
                    }
                });
            });
        }
        operation
    }

    fn message(
        &mut self,
        operation: OperationIndex,
        kind: u8,
        flags: u16,
        table: &TableId,
        body: impl FnOnce(&mut Message),
    ) {
        if self.fault.is_some() {
            return;
        }
        self.drop_acknowledgement();
        self.bytes.truncate(self.end);
        let kind = u16::from_be_bytes([SUBSYSTEM, kind]);
        let fixed = [table.family.number(), 0, 0, 0];
        let mut message = Message::after(std::mem::take(&mut self.bytes), kind, flags, &fixed);
        message.put_text(NFTA_TABLE, &table.name);
        body(&mut message);
        let sequence = self.messages + 1;
        match message.finish(sequence, NLM_F_ACK).and_then(|bytes| self.close(bytes, sequence)) {
            Ok(()) => self.messages = sequence,
            Err(NetlinkError::Unencodable { reason }) => self.fault = Some((operation, reason)),
            Err(_) => self.fault = Some((operation, "a message cannot be finished")),
        }
    }

    /// Puts the closing bracket behind a message.
    fn close(&mut self, bytes: Vec<u8>, sequence: u32) -> Result<(), NetlinkError> {
        self.last = self.end;
        self.end = bytes.len();
        self.bytes =
            Message::after(bytes, NFNL_MSG_BATCH_END, 0, &BRACKET).finish(sequence.wrapping_add(1), 0)?;
        Ok(())
    }

    /// The last message so far asks for no answer any more.
    fn drop_acknowledgement(&mut self) {
        const FLAGS: usize = 6;
        if let Some(flags) = self.bytes.get_mut(self.last + FLAGS..self.last + FLAGS + 2)
            && let Ok(own) = <[u8; 2]>::try_from(&*flags)
        {
            flags.copy_from_slice(&(u16::from_ne_bytes(own) & !NLM_F_ACK).to_ne_bytes());
        }
    }
}

/// What a message of a batch is about, found again for an error text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number.
    pub index: OperationIndex,
    /// Which of its elements the kernel does not like, from 0, if it is about elements and the kernel told.
    pub element: Option<usize>,
    description: String,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (operation {}", self.description, self.index.0)?;
        match self.element {
            Some(element) => write!(f, ", element {element})"),
            None => f.write_str(")"),
        }
    }
}

impl Batch {
    /// The operation that message `sequence` belongs to; `offset` is what the kernel points at in it.
    pub(super) fn locate(&self, sequence: u32, offset: Option<usize>) -> Option<Operation> {
        let index = self.operations.partition_point(|first| *first <= sequence).checked_sub(1)?;
        let first = *self.operations.get(index)?;
        let mut elements_before = 0;
        for frame in Frames::new(&self.bytes).flatten().filter(|frame| frame.sequence >= first) {
            if frame.sequence == sequence {
                let element = offset.and_then(|offset| element_at(&frame, offset));
                return Some(Operation {
                    index: OperationIndex(index),
                    element: element.map(|element| elements_before + element),
                    description: describe(&frame),
                });
            }
            elements_before += element_offsets(&frame).count();
        }
        None
    }
}

/// Where each element of a message starts, counted from its header.
fn element_offsets<'a>(frame: &Frame<'a>) -> impl Iterator<Item = usize> + use<'a> {
    let (_, operation) = frame.netfilter_kind();
    let is_about_elements = matches!(operation, NEW_ELEMENTS | DELETE_ELEMENTS);
    let mut position = HEADERS;
    let mut list = None;
    for attribute in Attributes::new(frame.body.get(4..).unwrap_or_default()).flatten() {
        if is_about_elements && attribute.kind == NFTA_ELEMENT_LIST {
            list = Some((position + 4, attribute.nested()));
            break;
        }
        position += 4 + attribute.value.len().next_multiple_of(4);
    }
    let (start, elements) = list.unwrap_or((0, Attributes::new(&[])));
    elements.flatten().scan(start, |next, element| {
        let at = *next;
        *next += 4 + element.value.len().next_multiple_of(4);
        Some(at)
    })
}

/// The element that this offset is in.
fn element_at(frame: &Frame<'_>, offset: usize) -> Option<usize> {
    element_offsets(frame).take_while(|start| *start <= offset).count().checked_sub(1)
}

fn describe(frame: &Frame<'_>) -> String {
    let (_, operation) = frame.netfilter_kind();
    let (verb, name) = match operation {
        NEW_TABLE => ("add table", NFTA_TABLE),
        DELETE_TABLE => ("delete table", NFTA_TABLE),
        NEW_CHAIN => ("add chain", NFTA_CHAIN_NAME),
        DELETE_CHAIN => ("delete chain", NFTA_CHAIN_NAME),
        NEW_RULE => ("add rule to chain", NFTA_NAME),
        DELETE_RULE => ("delete rules of chain", NFTA_NAME),
        NEW_SET => ("add set", NFTA_NAME),
        DELETE_SET => ("delete set", NFTA_NAME),
        NEW_ELEMENTS => ("add elements to set", NFTA_NAME),
        _ => ("delete elements of set", NFTA_NAME),
    };
    let attributes = Attributes::new(frame.body.get(4..).unwrap_or_default());
    let name =
        attributes.flatten().find(|attribute| attribute.kind == name).map(|attribute| attribute.text());
    format!("{verb} {:?}", name.unwrap_or_default())
}
