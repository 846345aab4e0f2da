//! Sending a batch as one transaction and reading what became of it.
//!
//! The kernel deals with a batch while it is being sent, so all answers are there when the call returns: nothing is waited for.

use nix::errno::Errno;

use super::Nft;
use super::batch::{BEGIN, Batch, Operation, OperationIndex};
use crate::NetlinkError;
use crate::message::Frames;
use crate::socket::{Answer, read_answer};

/// The kernel keeps some of the buffer to itself; doubling the request is its own habit.
const SPARE: usize = 4096;
/// Refusals that are kept; one bad operation can make every later one fail.
const REFUSALS_KEPT: usize = 64;

/// A transaction that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Operations in it.
    pub operations: usize,
    /// Messages in it.
    pub messages: u32,
    /// Bytes sent.
    pub bytes: usize,
}

/// One operation that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which; `None` if the kernel refused the batch as a whole.
    pub operation: Option<Operation>,
    /// Why.
    pub errno: Errno,
    /// The kernel's own explanation, if it gave one.
    pub extack: Option<String>,
}

/// Why a transaction does not hold. Unless the variant says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Somebody else changed the ruleset since the generation that the batch was made for: read it again.
    #[error("the ruleset was changed by another program since it was read; read it again")]
    Raced,
    /// The kernel refused operations. The first is the one to look at: later ones may fail because of it.
    #[error("the kernel refused the transaction: {}", told(.refusals))]
    Refused {
        /// Which, and why.
        refusals: Refusals,
        /// The error number of the first.
        #[source]
        errno: Errno,
    },
    /// The batch is too large to be sent at once: split it.
    #[error("the kernel does not take a transaction of {bytes} bytes at once; split it")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The system's answer.
        #[source]
        errno: Errno,
    },
    /// An operation does not fit the protocol.
    #[error("operation {} of the transaction cannot be encoded: {reason}", .operation.0)]
    Unencodable {
        /// Which.
        operation: OperationIndex,
        /// What does not fit.
        reason: &'static str,
    },
    /// The kernel's answers were lost: the transaction may hold or not. Read the ruleset again.
    #[error("the kernel's answer to the transaction was lost; read the ruleset again")]
    Unknown,
    /// The socket failed, or an answer could not be read.
    #[error("cannot send the transaction")]
    Socket(#[from] NetlinkError),
}

/// At least one refusal, in the order of the operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    first: Refusal,
    others: Vec<Refusal>,
}

impl Refusals {
    /// The refusal to look at.
    pub fn first(&self) -> &Refusal {
        &self.first
    }

    /// All that were kept, the first included.
    pub fn iter(&self) -> impl Iterator<Item = &Refusal> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl CommitError {
    /// The error number, if the kernel gave one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } | Self::TooLarge { errno, .. } => Some(*errno),
            Self::Socket(error) => error.errno(),
            Self::Raced | Self::Unencodable { .. } | Self::Unknown => None,
        }
    }
}

fn told(refusals: &Refusals) -> String {
    let Refusal { operation, extack, .. } = refusals.first();
    let what = operation.as_ref().map_or_else(|| "as a whole".to_owned(), ToString::to_string);
    let why = extack.as_deref().map(|text| format!(" ({text})")).unwrap_or_default();
    let more = match refusals.others.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{what}{why}{more}")
}

impl Nft {
    /// Does all operations of the batch at once, or none. An empty batch is not sent.
    pub fn commit(&mut self, batch: &Batch) -> Result<Committed, CommitError> {
        let committed =
            Committed { operations: batch.len(), messages: batch.messages(), bytes: batch.byte_length() };
        match self.transact(batch, batch.bytes())? {
            Sent::Yes => Ok(committed),
            Sent::Nothing => Ok(Committed { bytes: 0, ..committed }),
        }
    }

    /// Lets the kernel judge a batch as in [`Self::commit`]. Nothing is changed, and nobody is notified: without its closing
    /// bracket, the kernel takes all operations back when it has seen the last one. What it finds only when it looks at all chains
    /// together, such as a loop or a chain that is called from a wrong hook, is not told.
    pub fn check(&mut self, batch: &Batch) -> Result<(), CommitError> {
        self.transact(batch, batch.open_bytes()).map(|_| ())
    }

    fn transact(&mut self, batch: &Batch, bytes: &[u8]) -> Result<Sent, CommitError> {
        if let Some((operation, reason)) = batch.fault() {
            return Err(CommitError::Unencodable { operation, reason });
        }
        if batch.messages() == 0 {
            return Ok(Sent::Nothing);
        }
        self.make_room(bytes.len())?;
        self.forget_old_answers()?;
        self.socket.send(bytes).map_err(|error| match error.errno() {
            Some(errno @ (Errno::EMSGSIZE | Errno::ENOBUFS | Errno::ENOMEM)) => {
                CommitError::TooLarge { bytes: bytes.len(), errno }
            }
            _ => CommitError::Socket(error),
        })?;
        self.outcome(batch).map(|()| Sent::Yes)
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), CommitError> {
        if bytes <= self.sendable {
            return Ok(());
        }
        let wanted = bytes + SPARE;
        self.socket.allow_sending(wanted).map_err(|errno| CommitError::TooLarge { bytes, errno })?;
        self.sendable = bytes;
        Ok(())
    }

    pub(super) fn forget_old_answers(&mut self) -> Result<(), NetlinkError> {
        loop {
            match self.socket.receive_now() {
                Ok(None) => return Ok(()),
                Ok(Some(_)) | Err(NetlinkError::Overrun | NetlinkError::Truncated { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn outcome(&mut self, batch: &Batch) -> Result<(), CommitError> {
        let mut read = Outcome { batch, is_acknowledged: false, refusals: Vec::new() };
        loop {
            match self.socket.receive_now() {
                Ok(Some(datagram)) => read.datagram(datagram)?,
                Ok(None) => return read.result(),
                // Refusals come in order, so those that did fit are the first.
                Err(NetlinkError::Overrun | NetlinkError::Truncated { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether there was anything to send.
enum Sent {
    Yes,
    Nothing,
}

/// What the answers to one batch tell.
struct Outcome<'a> {
    batch: &'a Batch,
    is_acknowledged: bool,
    refusals: Vec<Refusal>,
}

impl Outcome<'_> {
    fn datagram(&mut self, datagram: &[u8]) -> Result<(), CommitError> {
        for frame in Frames::new(datagram) {
            let frame = frame.map_err(NetlinkError::from)?;
            if let Some(answer) = read_answer(&frame).map_err(NetlinkError::from)? {
                self.answer(frame.sequence, answer)?;
            }
        }
        Ok(())
    }

    fn answer(&mut self, sequence: u32, answer: Answer) -> Result<(), CommitError> {
        if answer.code >= 0 {
            self.is_acknowledged |= sequence == self.batch.messages();
            return Ok(());
        }
        let errno = Errno::from_raw(answer.code.saturating_neg());
        if sequence == BEGIN && errno == Errno::ERESTART {
            return Err(CommitError::Raced);
        }
        if self.refusals.len() < REFUSALS_KEPT {
            let operation = match sequence {
                BEGIN => None,
                _ => self.batch.locate(sequence, answer.offset),
            };
            self.refusals.push(Refusal { operation, errno, extack: answer.extack });
        }
        Ok(())
    }

    fn result(self) -> Result<(), CommitError> {
        let mut refusals = self.refusals.into_iter();
        match refusals.next() {
            Some(first) => {
                let errno = first.errno;
                Err(CommitError::Refused { refusals: Refusals { first, others: refusals.collect() }, errno })
            }
            None if self.is_acknowledged => Ok(()),
            None => Err(CommitError::Unknown),
        }
    }
}

#[cfg(test)]
mod tests;
