//! Reading parts of a large set: elements by their keys, and how many there are.
//!
//! In: keys that the caller expects. Out: for each key, in order, its element or that there is none.
//!
//! Why not a dump? The kernel starts over for every 32 KiB that it tells, so the time of a dump grows with the square of the set.
//! Here each key is one lookup. Measured on Linux 6.18, time of the processor: 3.3 microseconds for each key, so 0.2 s for 60,000 and
//! 1.0 s for 300,000, where dumps take 0.2 s and 5.5 s.

use std::collections::BTreeMap;
use std::sync::Arc;

use nix::errno::Errno;

use super::objects::{put_element_key, read_count, read_elements};
use super::{
    Element, NFT_MSG_GETSET, NFT_MSG_GETSETELEM, NFTA_SET_ELEM_LIST_SET, NFTA_TABLE, Nft, SUBSYSTEM, TableId,
    question,
};
use crate::message::{Frames, Message};
use crate::socket::read_answer;
use crate::{Malformed, NetlinkError};

/// Keys in one datagram. The answers must fit the socket's receive buffer; more at once saves nothing.
const KEYS_AT_ONCE: usize = 64;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const WHAT: &str = "look elements up";

impl Nft {
    /// Looks elements up by key and extent. `each` sees the number of the key, from 0, and its element; `None` if the kernel
    /// has none, also if there is no such set at all. With intervals, the element that holds the key is found.
    ///
    /// Elements that nobody asks for are not seen; [`Self::element_counts`] tells whether there are any.
    pub fn find_elements<'a>(
        &mut self,
        table: &TableId,
        set: &str,
        keys: impl IntoIterator<Item = &'a Element>,
        each: &mut dyn FnMut(usize, Option<Element>),
    ) -> Result<(), NetlinkError> {
        let mut keys = keys.into_iter();
        let mut done = 0;
        let mut at_once = KEYS_AT_ONCE;
        let mut waiting: Vec<&Element> = Vec::with_capacity(KEYS_AT_ONCE);
        loop {
            waiting.extend(keys.by_ref().take(KEYS_AT_ONCE - waiting.len()));
            let asked = waiting.get(..at_once).unwrap_or(&waiting);
            if asked.is_empty() {
                return Ok(());
            }
            let mut answered = 0;
            let result = self.find_few(table, set, asked, &mut |element| {
                each(done + answered, element);
                answered += 1;
            });
            match result {
                // The rest of the answers did not fit the buffer: fewer keys at once from here on.
                Err(NetlinkError::Overrun) if at_once > 1 => at_once /= 2,
                other => other?,
            }
            done += answered;
            waiting.drain(..answered);
        }
    }

    /// One datagram of one-key questions: the kernel answers each of them, in order, before the call that sends them returns.
    fn find_few(
        &mut self,
        table: &TableId,
        set: &str,
        keys: &[&Element],
        each: &mut dyn FnMut(Option<Element>),
    ) -> Result<(), NetlinkError> {
        self.forget_old_answers()?;
        let kind = u16::from_be_bytes([SUBSYSTEM, NFT_MSG_GETSETELEM]);
        let first = self.socket.reserve(keys.len());
        let mut bytes = Vec::with_capacity(keys.len() * 128);
        let mut sequence = first;
        for key in keys {
            let mut message = Message::after(bytes, kind, 0, &[table.family.number(), 0, 0, 0]);
            message.put_text(NFTA_TABLE, &table.name).put_text(NFTA_SET_ELEM_LIST_SET, set);
            message.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |list| put_element_key(list, key));
            bytes = message.finish(sequence, 0)?;
            sequence = sequence.wrapping_add(1);
        }
        self.socket.send(&bytes)?;
        let mut answers = Answers { next: first, left: keys.len() };
        while answers.left > 0 {
            let datagram = self.socket.receive_now()?.ok_or(NetlinkError::Overrun)?;
            answers.read(datagram, each)?;
        }
        Ok(())
    }

    /// How many elements each set and map of a table has, by name. Kernels before 6.16 do not tell: their sets are absent.
    /// [`super::Extent::Rest`] is not counted.
    pub fn element_counts(&mut self, table: &TableId) -> Result<BTreeMap<Arc<str>, u32>, NetlinkError> {
        let counts = self
            .collect("count elements", question(NFT_MSG_GETSET, table), |frame| read_count(frame, table))?;
        Ok(counts.into_iter().collect())
    }
}

/// Which answer comes next.
pub(super) struct Answers {
    pub(super) next: u32,
    pub(super) left: usize,
}

impl Answers {
    pub(super) fn read(
        &mut self,
        datagram: &[u8],
        each: &mut dyn FnMut(Option<Element>),
    ) -> Result<(), NetlinkError> {
        for frame in Frames::new(datagram) {
            let frame = frame?;
            if self.left == 0 || frame.sequence != self.next {
                // One that is missing was dropped by the kernel, which drops all behind it too.
                return Err(NetlinkError::Overrun);
            }
            let element = match read_answer(&frame)? {
                None => {
                    let mut found = None;
                    read_elements(&frame, &mut |element| found = Some(element))?;
                    Some(found.ok_or(Malformed::Absent { part: "element" })?)
                }
                Some(answer) => match Errno::from_raw(answer.code.saturating_neg()) {
                    Errno::ENOENT => None,
                    Errno::ENOBUFS | Errno::EAGAIN => return Err(NetlinkError::Overrun),
                    errno => {
                        return Err(NetlinkError::Refused { request: WHAT, extack: answer.extack, errno });
                    }
                },
            };
            each(element);
            self.next = self.next.wrapping_add(1);
            self.left -= 1;
        }
        Ok(())
    }
}
