//! nf_tables: the ruleset of the kernel, written in transactions and read back as values.
//!
//! In: objects ([`Table`], [`Chain`], [`Rule`], [`Set`], [`Element`]) collected in a [`Batch`]. Out: [`Nft::commit`] does all of it
//! at once or tells which operation the kernel refused; [`Nft`] also reads objects back.
//!
//! Invariants
//! - What is written and what is read back compare equal; what another program wrote and we never would, reads as something
//!   else (`Other`), so that it is seen as different.
//! - Stock `nft` lists what is written here: types, `typeof` and comments travel in its own user data.
//! - Registers, names and the order of operations are the caller's; the kernel checks them.

use std::time::Duration;

use nix::errno::Errno;

use crate::message::{Frame, Message};
use crate::socket::{Protocol, Socket};
use crate::{Family, Malformed, NetlinkError};

mod batch;
mod commit;
mod expression;
mod find;
mod objects;
mod types;
mod userdata;
mod value;

pub use batch::{Batch, Operation, OperationIndex};
pub use commit::{CommitError, Committed, Refusal, Refusals};
pub use expression::{
    CT_STATUS_DNAT, Comparison, CtKey, DynamicChange, Expression, Found, Header, MetaKey, PortChoice,
    Register, Reject, Side, address_type, ct_state,
};
pub use objects::{
    Attachment, Base, Chain, ChainType, Element, ElementData, Extent, Hook, Rule, Set, SetFlags, Table,
    TableId,
};
pub use types::{DataType, Fields, Selector, load_constants, load_key};
pub use userdata::SetData;
pub use value::{Comment, VALUE_MAX, Value, Verdict};

const SUBSYSTEM: u8 = 10;
const NFT_MSG_DELTABLE: u8 = 2;
const NFT_MSG_GETTABLE: u8 = 1;
const NFT_MSG_GETCHAIN: u8 = 4;
const NFT_MSG_GETRULE: u8 = 7;
const NFT_MSG_GETSET: u8 = 10;
const NFT_MSG_GETSETELEM: u8 = 13;
const NFT_MSG_NEWGEN: u8 = 15;
const NFT_MSG_GETGEN: u8 = 16;
/// The table's name has number 1 in the messages of every kind of object.
const NFTA_TABLE: u16 = 1;
const NFTA_TABLE_NAME: u16 = NFTA_TABLE;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_GEN_ID: u16 = 1;
const NFTA_LIST_ELEM: u16 = 1;
/// Bytes that a fresh socket sends without being asked for more; the usual default of the system is 208 KiB.
const SENDABLE_AT_FIRST: usize = 64 << 10;

/// How often the ruleset was changed; any transaction of any program raises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation after one more transaction. The kernel never uses 0.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1).max(1))
    }
}

/// The nf_tables of one network namespace.
#[derive(Debug)]
pub struct Nft {
    socket: Socket,
    sendable: usize,
}

impl Nft {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Netfilter)?, sendable: SENDABLE_AT_FIRST })
    }

    /// The port of the socket: notifications about our own transactions carry it.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// The generation of the ruleset now.
    pub fn generation(&mut self) -> Result<Generation, NetlinkError> {
        let mut generation = None;
        let question = Message::netfilter(SUBSYSTEM, NFT_MSG_GETGEN, 0, 0);
        self.socket.query("tell the generation of the ruleset", question, &mut |frame| {
            if frame.netfilter_kind() == (SUBSYSTEM, NFT_MSG_NEWGEN) {
                for attribute in frame.split::<4>()?.1 {
                    let attribute = attribute?;
                    if attribute.kind == NFTA_GEN_ID {
                        generation = Some(Generation(attribute.be32()?));
                    }
                }
            }
            Ok(())
        })?;
        generation.ok_or(Malformed::Absent { part: "generation" }.into())
    }

    /// All tables of one family.
    pub fn tables(&mut self, family: Family) -> Result<Vec<Table>, NetlinkError> {
        let question = Message::netfilter(SUBSYSTEM, NFT_MSG_GETTABLE, 0, family.number());
        let mut tables = Vec::new();
        self.socket.dump("list tables", question, &mut |frame| {
            tables.extend(objects::read_table(frame)?);
            Ok(())
        })?;
        Ok(tables)
    }

    /// The chains of a table.
    pub fn chains(&mut self, table: &TableId) -> Result<Vec<Chain>, NetlinkError> {
        // The kernel takes no filter here.
        let question = Message::netfilter(SUBSYSTEM, NFT_MSG_GETCHAIN, 0, table.family.number());
        self.collect("list chains", question, |frame| objects::read_chain(frame, table))
    }

    /// The rules of a table: chain by chain, and in their order in each.
    pub fn rules(&mut self, table: &TableId) -> Result<Vec<Rule>, NetlinkError> {
        let question = question(NFT_MSG_GETRULE, table);
        self.collect("list rules", question, |frame| objects::read_rule(frame, table))
    }

    /// The sets and maps of a table, without their elements.
    pub fn sets(&mut self, table: &TableId) -> Result<Vec<Set>, NetlinkError> {
        let question = question(NFT_MSG_GETSET, table);
        self.collect("list sets", question, |frame| objects::read_set(frame, table))
    }

    /// The elements of a set or map, in no order. `each` sees them one by one, also those of a dump that ends in an error.
    ///
    /// If the ruleset changes meanwhile, the kernel does not say so here, as it does for other objects: where that matters, ask for the
    /// generation before and after.
    ///
    /// Cost: the kernel starts over for every 32 KiB that it tells, so the time grows with the square of the set. Measured: 60,000
    /// elements take 0.13 s, 300,000 take 5 s. A larger buffer does not help: the kernel never tells more at once. Where the keys
    /// are known, [`Self::find_elements`] is cheaper above some 65,000 elements.
    pub fn elements(
        &mut self,
        table: &TableId,
        set: &str,
        each: &mut dyn FnMut(Element),
    ) -> Result<(), NetlinkError> {
        let mut question = question(NFT_MSG_GETSETELEM, table);
        question.put_text(NFTA_SET_ELEM_LIST_SET, set);
        self.socket.dump("list elements", question, &mut |frame| Ok(objects::read_elements(frame, each)?))
    }

    fn collect<T>(
        &mut self,
        what: &'static str,
        question: Message,
        read: impl Fn(&Frame<'_>) -> Result<Option<T>, Malformed>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut objects = Vec::new();
        self.socket.dump(what, question, &mut |frame| {
            objects.extend(read(frame)?);
            Ok(())
        })?;
        Ok(objects)
    }
}

fn question(kind: u8, table: &TableId) -> Message {
    let mut message = Message::netfilter(SUBSYSTEM, kind, 0, table.family.number());
    message.put_text(NFTA_TABLE, &table.name);
    message
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `None` for zero, by which the kernel means no timeout of its own.
fn duration(milliseconds: u64) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

/// What became of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was there and is gone, with everything in it.
    Yes,
    /// It was not there.
    Absent,
}

/// Removes a table by family and name. Nothing else is touched.
pub fn delete_table(family: Family, name: &str) -> Result<Removed, NetlinkError> {
    let mut message = Message::netfilter(SUBSYSTEM, NFT_MSG_DELTABLE, 0, family.number());
    message.put_text(NFTA_TABLE_NAME, name);
    match Socket::open(Protocol::Netfilter)?.transaction("delete a table", SUBSYSTEM, message) {
        Ok(()) => Ok(Removed::Yes),
        // A kernel without nf_tables has no tables either.
        Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP)) => {
            Ok(Removed::Absent)
        }
        Err(error) => Err(error),
    }
}

/// Whether there is a table of this family and name; none where the kernel has no nf_tables.
pub fn has_table(family: Family, name: &str) -> Result<bool, NetlinkError> {
    match Nft::open().and_then(|mut nft| nft.tables(family)) {
        Ok(tables) => Ok(tables.iter().any(|table| &*table.id.name == name)),
        Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
