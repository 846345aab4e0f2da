//! One blocking netlink socket: requests with an acknowledgement, questions with replies, dumps.
//!
//! In: a [`Message`]. Out: each reply passed to a closure, then success, or the kernel's refusal with its own explanation.
//!
//! Invariants
//! - A reply counts only if the kernel sent it and its sequence number is that of the request; leftovers of an earlier,
//!   abandoned exchange are skipped.
//! - A dump is always read to its end, so that the next one is not refused as "busy"; the first error is reported.
//! - Lost, cut or interrupted answers are errors ([`NetlinkError::is_transient`]), never a shorter answer. [`retry`] asks again.
//! - No exchange waits longer than ten seconds for the kernel's next datagram.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use netlink_sys::SocketAddr;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;

use crate::NetlinkError;
use crate::message::{Frame, Message, NLM_F_ACK, NLM_F_DUMP};

mod answer;

pub(crate) use answer::{Answer, read_answer};
use answer::{Step, read_datagram};

/// How often a dump is tried before an interruption is reported.
pub const DUMP_TRIES: u32 = 5;

const FIRST_BUFFER: usize = 64 << 10;
const LARGEST_BUFFER: usize = 16 << 20;
const MSG_TRUNC: i32 = 0x20;
const MSG_DONTWAIT: i32 = 0x40;
const PATIENCE_SECONDS: i64 = 10;

/// Which part of the kernel a socket talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Links, addresses, routes (`NETLINK_ROUTE`).
    Route,
    /// Conntrack, nf_tables, counters (`NETLINK_NETFILTER`).
    Netfilter,
    /// Generic netlink (`NETLINK_GENERIC`).
    Generic,
}

impl Protocol {
    fn number(self) -> isize {
        match self {
            Self::Route => 0,
            Self::Netfilter => 12,
            Self::Generic => 16,
        }
    }
}

pub(crate) const NFNL_MSG_BATCH_BEGIN: u16 = 16;
pub(crate) const NFNL_MSG_BATCH_END: u16 = 17;

/// A blocking socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Socket {
    /// Shared with a [`Membership`], if there is one.
    inner: Arc<netlink_sys::Socket>,
    port: u32,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Whether a socket hears a multicast group. What was heard before stays readable.
#[derive(Debug, Clone)]
pub struct Membership {
    socket: Arc<netlink_sys::Socket>,
    group: u32,
}

impl Membership {
    /// Hears nothing from now on.
    pub fn leave(&self) -> Result<(), NetlinkError> {
        self.socket.drop_membership(self.group).map_err(NetlinkError::io("leave a netlink multicast group"))
    }

    /// Hears everything from now on.
    pub fn join(&self) -> Result<(), NetlinkError> {
        self.socket.add_membership(self.group).map_err(NetlinkError::io("join a netlink multicast group"))
    }
}

impl Socket {
    /// Opens and binds a socket in the namespace of the calling thread.
    pub fn open(protocol: Protocol) -> Result<Self, NetlinkError> {
        let mut inner =
            netlink_sys::Socket::new(protocol.number()).map_err(NetlinkError::io("open a netlink socket"))?;
        let address = inner.bind_auto().map_err(NetlinkError::io("bind a netlink socket"))?;
        let patience = TimeVal::new(PATIENCE_SECONDS, 0);
        setsockopt(&inner, sockopt::ReceiveTimeout, &patience)
            .map_err(NetlinkError::errno_of("limit the waiting time of a netlink socket"))?;
        // Comforts that old kernels lack; everything works without them.
        let _ = inner.set_cap_ack(true);
        let _ = inner.set_ext_ack(true);
        let _ = inner.set_netlink_get_strict_chk(true);
        let inner = Arc::new(inner);
        Ok(Self { inner, port: address.port_number(), sequence: 0, buffer: Vec::with_capacity(FIRST_BUFFER) })
    }

    /// The port of this socket: notifications about its changes carry it.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends a change and waits for its acknowledgement. `what` is a verb phrase for the error text.
    pub fn request(&mut self, what: &'static str, message: Message) -> Result<(), NetlinkError> {
        self.exchange(what, message, NLM_F_ACK, &mut |_| Ok(()))
    }

    /// Sends a question; `each` sees the replies, then the acknowledgement ends it.
    pub fn query(
        &mut self,
        what: &'static str,
        message: Message,
        each: &mut dyn FnMut(&Frame<'_>) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        self.exchange(what, message, NLM_F_ACK, each)
    }

    /// Asks for all objects of a kind; `each` sees them one by one, also those of a dump that ends in an error.
    pub fn dump(
        &mut self,
        what: &'static str,
        message: Message,
        each: &mut dyn FnMut(&Frame<'_>) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        self.exchange(what, message, NLM_F_DUMP, each)
    }

    /// Sends one change of a subsystem that takes changes in transactions only, and waits for its acknowledgement.
    pub fn transaction(
        &mut self,
        what: &'static str,
        subsystem: u8,
        message: Message,
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let bracket = |kind: u16| Message::new(kind, 0, &[0, 0, 0, subsystem]).finish(sequence, 0);
        let mut bytes = bracket(NFNL_MSG_BATCH_BEGIN)?;
        bytes.extend(message.finish(sequence, NLM_F_ACK)?);
        bytes.extend(bracket(NFNL_MSG_BATCH_END)?);
        self.send(&bytes)?;
        self.replies(what, sequence, NLM_F_ACK, &mut |_| Ok(()))
    }

    /// Membership in a multicast group; not joined yet.
    pub(crate) fn membership(&self, group: u32) -> Membership {
        Membership { socket: self.inner.clone(), group }
    }

    /// Asks for a receive buffer of this size, above the system's limit if we may.
    pub(crate) fn enlarge(&self, bytes: usize) {
        // A smaller buffer only means that an overrun comes sooner, and an overrun is reported.
        if setsockopt(&*self.inner, sockopt::RcvBufForce, &bytes).is_err() {
            let _ = setsockopt(&*self.inner, sockopt::RcvBuf, &bytes);
        }
    }

    /// Sequence numbers for this many messages; the first of them.
    pub(crate) fn reserve(&mut self, messages: usize) -> u32 {
        let first = self.sequence.wrapping_add(1);
        self.sequence = self.sequence.wrapping_add(u32::try_from(messages).unwrap_or(u32::MAX));
        first
    }

    /// Never wait in [`Self::receive`].
    pub(crate) fn set_non_blocking(&self) -> Result<(), NetlinkError> {
        self.inner.set_non_blocking(true).map_err(NetlinkError::io("make a netlink socket non-blocking"))
    }

    /// The next datagram from the kernel.
    pub(crate) fn receive(&mut self) -> Result<&[u8], NetlinkError> {
        self.receive_with(MSG_TRUNC)
    }

    /// The next datagram from the kernel if one is here; `None` if not.
    pub(crate) fn receive_now(&mut self) -> Result<Option<&[u8]>, NetlinkError> {
        match self.receive_with(MSG_TRUNC | MSG_DONTWAIT) {
            Ok(datagram) => Ok(Some(datagram)),
            Err(error) if error.errno() == Some(Errno::EAGAIN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn receive_with(&mut self, flags: i32) -> Result<&[u8], NetlinkError> {
        loop {
            self.buffer.clear();
            let (length, sender) = match self.inner.recv_from(&mut self.buffer, flags) {
                Ok(received) => received,
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EINTR) => continue,
                    Some(Errno::ENOBUFS) => return Err(NetlinkError::Overrun),
                    _ => return Err(NetlinkError::io("receive from a netlink socket")(error)),
                },
            };
            if sender.port_number() != 0 {
                continue; // Another process wrote to our port: not the kernel's word.
            }
            if length > self.buffer.len() {
                self.grow(length);
                return Err(NetlinkError::Truncated { bytes: length });
            }
            return Ok(&self.buffer);
        }
    }

    fn grow(&mut self, wanted: usize) {
        let target = wanted.next_power_of_two().min(LARGEST_BUFFER);
        self.buffer = Vec::with_capacity(target.max(FIRST_BUFFER));
    }

    /// Lets datagrams of this many bytes be sent, above the system's limit if we may.
    pub(crate) fn allow_sending(&self, bytes: usize) -> Result<(), Errno> {
        setsockopt(&*self.inner, sockopt::SndBufForce, &bytes)
            .or_else(|_| setsockopt(&*self.inner, sockopt::SndBuf, &bytes))
    }

    /// Sends one datagram. The kernel has dealt with it, and its answers wait to be read, when this returns.
    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), NetlinkError> {
        let kernel = SocketAddr::new(0, 0);
        loop {
            match self.inner.send_to(bytes, &kernel, 0) {
                Ok(_) => return Ok(()), // A datagram is sent whole or not at all.
                Err(error) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
                Err(error) => return Err(NetlinkError::io("send to a netlink socket")(error)),
            }
        }
    }

    fn exchange(
        &mut self,
        what: &'static str,
        message: Message,
        flags: u16,
        each: &mut dyn FnMut(&Frame<'_>) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        self.send(&message.finish(sequence, flags)?)?;
        self.replies(what, sequence, flags, each)
    }

    /// Reads up to the end of the exchange with this sequence number.
    fn replies(
        &mut self,
        what: &'static str,
        sequence: u32,
        flags: u16,
        each: &mut dyn FnMut(&Frame<'_>) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        let mut first_error = None;
        loop {
            let datagram = match self.receive() {
                Ok(datagram) => datagram,
                // The rest of a dump still comes and must be taken off the socket.
                Err(error @ NetlinkError::Truncated { .. }) if flags == NLM_F_DUMP => {
                    first_error.get_or_insert(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            match read_datagram(datagram, what, sequence, each, &mut first_error) {
                Step::More => {}
                Step::End => return first_error.map_or(Ok(()), Err),
                Step::Lost(error) => return Err(first_error.unwrap_or(error)),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Asks again after a transient error, at most [`DUMP_TRIES`] times in all.
pub fn retry<T>(mut ask: impl FnMut() -> Result<T, NetlinkError>) -> Result<T, NetlinkError> {
    let mut tries = 1;
    loop {
        match ask() {
            Err(error) if error.is_transient() && tries < DUMP_TRIES => tries += 1,
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests;
