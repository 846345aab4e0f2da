//! Who changes nf_tables, as it happens.
//!
//! In: notifications of the kernel (multicast group `NFNLGRP_NFTABLES`). Out: [`Change`]s, in order. One transaction ends with one
//! [`ChangeKind::NewGeneration`], which names the process; the changes before it belong to it. `port` tells transactions of our own
//! sockets from foreign ones. iptables-nft uses the tables `nat`, `filter`, `mangle` and `raw` of the families 2 and 10.
//!
//! Invariants
//! - Nothing is lost silently: a full buffer or an unreadable message is a [`ChangeKind::Overrun`], after which the reader must look at
//!   the rules themselves.
//! - One read is bounded: equal changes in a row are told once, and at most 64 datagrams are taken.
//!
//! Cost: while anybody listens, the kernel writes a notification for every changed object, our own included. A mode that writes
//! many thousands of elements should not listen meanwhile ([`Monitor::membership`]); the generation tells whether it missed something.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::NetlinkError;
use crate::message::{Frame, Frames, netfilter_family};
use crate::socket::{Membership, Protocol, Socket};

const NFNLGRP_NFTABLES: u32 = 7;
const SUBSYSTEM: u8 = 10;
const BUFFER: usize = 4 << 20;
const DATAGRAMS_PER_READ: usize = 64;

const NFT_MSG_NEWGEN: u8 = 15;
const NFTA_GEN_PROC_PID: u16 = 2;
const NFTA_GEN_PROC_NAME: u16 = 3;
/// The table's name has number 1 in the messages of every kind of object.
const NFTA_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_RULE_CHAIN: u16 = 2;

/// What was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// A table was made or changed.
    NewTable,
    /// A table was removed.
    DeleteTable,
    /// A chain was made or changed.
    NewChain,
    /// A chain was removed.
    DeleteChain,
    /// A rule was added or replaced.
    NewRule,
    /// A rule was removed.
    DeleteRule,
    /// A set or map was made or changed.
    NewSet,
    /// A set or map was removed.
    DeleteSet,
    /// Elements were added.
    NewElements,
    /// Elements were removed, or timed out.
    DeleteElements,
    /// Some other object (counter, quota, flow table) was made, changed or removed.
    Object,
    /// A transaction is complete.
    NewGeneration,
    /// Notifications were lost: anything may have changed.
    Overrun,
}

/// One change of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What was changed.
    pub kind: ChangeKind,
    /// The family of the table: 1 inet, 2 ip, 5 netdev, 7 bridge, 10 ip6; 0 if it concerns none.
    pub family: u8,
    /// The table.
    pub table: Option<String>,
    /// The chain, for chains and rules.
    pub chain: Option<String>,
    /// The netlink port that wrote the transaction; 0 if the kernel itself acted.
    pub port: u32,
    /// The process that wrote the transaction; told by [`ChangeKind::NewGeneration`] only.
    pub pid: Option<u32>,
    /// The name of that process.
    pub program: Option<String>,
}

/// Whether there is something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// [`Monitor::read`] will return something.
    Ready,
    /// The time is over.
    TimedOut,
}

/// A listener on the changes of nf_tables in one network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// Listens in the namespace of the calling thread, from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Netfilter)?;
        socket.enlarge(BUFFER);
        socket.set_non_blocking()?;
        let monitor = Self { socket };
        monitor.membership().join()?;
        Ok(monitor)
    }

    /// Lets another thread stop the listening for a while.
    pub fn membership(&self) -> Membership {
        self.socket.membership(NFNLGRP_NFTABLES)
    }

    /// Waits until there is something to read, or `timeout` is over.
    pub fn wait(&self, timeout: Duration) -> Result<Wake, NetlinkError> {
        // A time that no clock can reach is a year, which nobody waits for.
        let end = Instant::now() + timeout.min(Duration::from_secs(365 * 24 * 3600));
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let millis = PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, millis) {
                Ok(0) if Instant::now() >= end => return Ok(Wake::TimedOut),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(Wake::Ready),
                Err(errno) => return Err(NetlinkError::errno_of("wait for nf_tables notifications")(errno)),
            }
        }
    }

    /// The changes that have arrived; does not wait. More may be left: the descriptor stays readable then.
    pub fn read(&mut self) -> Result<Vec<Change>, NetlinkError> {
        let mut changes = Vec::new();
        for _ in 0..DATAGRAMS_PER_READ {
            match self.socket.receive() {
                Ok(datagram) => read_datagram(datagram, &mut changes),
                Err(NetlinkError::Overrun | NetlinkError::Truncated { .. }) => note(&mut changes, overrun()),
                Err(error) if error.errno() == Some(Errno::EAGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(changes)
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn read_datagram(datagram: &[u8], changes: &mut Vec<Change>) {
    for frame in Frames::new(datagram) {
        match frame.and_then(|frame| read_change(&frame)) {
            Ok(Some(change)) => note(changes, change),
            Ok(None) => {}
            Err(_) => note(changes, overrun()),
        }
    }
}

fn note(changes: &mut Vec<Change>, change: Change) {
    if changes.last() != Some(&change) {
        changes.push(change);
    }
}

fn overrun() -> Change {
    let kind = ChangeKind::Overrun;
    Change { kind, family: 0, table: None, chain: None, port: 0, pid: None, program: None }
}

fn kind_of(operation: u8) -> Option<ChangeKind> {
    Some(match operation {
        0 => ChangeKind::NewTable,
        2 => ChangeKind::DeleteTable,
        3 => ChangeKind::NewChain,
        5 => ChangeKind::DeleteChain,
        6 => ChangeKind::NewRule,
        8 => ChangeKind::DeleteRule,
        9 => ChangeKind::NewSet,
        11 => ChangeKind::DeleteSet,
        12 => ChangeKind::NewElements,
        14 => ChangeKind::DeleteElements,
        NFT_MSG_NEWGEN => ChangeKind::NewGeneration,
        18 | 20 | 22 | 24 => ChangeKind::Object,
        _ => return None,
    })
}

fn read_change(frame: &Frame<'_>) -> Result<Option<Change>, crate::Malformed> {
    let (subsystem, operation) = frame.netfilter_kind();
    let Some(kind) = kind_of(operation).filter(|_| subsystem == SUBSYSTEM) else { return Ok(None) };
    let (fixed, attributes) = frame.split::<4>()?;
    let mut change = Change { kind, family: netfilter_family(fixed), port: frame.port, ..overrun() };
    for attribute in attributes {
        let attribute = attribute?;
        match (kind, attribute.kind) {
            (ChangeKind::NewGeneration, NFTA_GEN_PROC_PID) => change.pid = Some(attribute.be32()?),
            (ChangeKind::NewGeneration, NFTA_GEN_PROC_NAME) => change.program = Some(attribute.text()),
            (ChangeKind::NewGeneration, _) => {}
            (_, NFTA_TABLE) => change.table = Some(attribute.text()),
            (ChangeKind::NewChain | ChangeKind::DeleteChain, NFTA_CHAIN_NAME)
            | (ChangeKind::NewRule | ChangeKind::DeleteRule, NFTA_RULE_CHAIN) => {
                change.chain = Some(attribute.text());
            }
            _ => {}
        }
    }
    Ok(Some(change))
}

#[cfg(test)]
mod tests;
