//! Why a talk with the kernel failed.

use nix::errno::Errno;

/// Why a talk with the kernel failed. The cause is in `source()`.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// A system call on the socket or on a namespace failed.
    #[error("cannot {action}")]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The kernel understood who we are and said no.
    #[error("the kernel refused to {request}{}", hint(.extack.as_deref()))]
    Refused {
        /// What was asked, as a verb phrase.
        request: &'static str,
        /// The kernel's own explanation, if it gave one.
        extack: Option<String>,
        /// The error number of the answer.
        #[source]
        errno: Errno,
    },
    /// The kernel's list changed while it was being read: ask again.
    #[error("the list changed while the kernel was reading it out for {request}; ask again")]
    Interrupted {
        /// What was asked, as a verb phrase.
        request: &'static str,
    },
    /// The socket's receive buffer overflowed and messages are lost: ask again.
    #[error("the netlink receive buffer overflowed and messages are lost; ask again")]
    Overrun,
    /// A message did not fit the buffer; the buffer has grown since: ask again.
    #[error("a netlink message of {bytes} bytes did not fit the buffer, which has grown since; ask again")]
    Truncated {
        /// The full length of the message.
        bytes: usize,
    },
    /// The kernel's bytes do not follow the protocol.
    #[error("the kernel's answer cannot be read")]
    Malformed(#[from] Malformed),
    /// A request that the protocol cannot carry.
    #[error("the request cannot be encoded: {reason}")]
    Unencodable {
        /// What does not fit.
        reason: &'static str,
    },
    /// The object that was asked for does not exist.
    #[error("there is no {kind} named {name:?}")]
    Missing {
        /// The kind of object.
        kind: &'static str,
        /// Its name.
        name: String,
    },
}

impl NetlinkError {
    /// The error number, if the kernel or a system call gave one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } => Some(*errno),
            Self::Io { source, .. } => source.raw_os_error().map(Errno::from_raw),
            _ => None,
        }
    }

    /// True if the same question, asked again at once, may well succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::Overrun | Self::Truncated { .. })
    }

    /// For `map_err`: names the failed system call.
    pub(crate) fn io(action: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    /// For `map_err`: names the failed system call.
    pub(crate) fn errno_of(action: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Io { action, source: errno.into() }
    }
}

/// How bytes from the kernel break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A message ends before its length says.
    #[error("a message is shorter than its header says")]
    Message,
    /// An attribute ends before its length says.
    #[error("attribute {kind} is shorter than its header says")]
    AttributeLength {
        /// The attribute's number, 0 if even that is missing.
        kind: u16,
    },
    /// An attribute's value does not have the length of its type.
    #[error("attribute {kind} has {found} bytes where {wanted} are due")]
    ValueLength {
        /// The attribute's number.
        kind: u16,
        /// Bytes found.
        found: usize,
        /// Bytes due.
        wanted: usize,
    },
    /// A part that every such message has is absent.
    #[error("the message has no {part}")]
    Absent {
        /// What is absent.
        part: &'static str,
    },
}

fn hint(extack: Option<&str>) -> String {
    extack.map(|text| format!(" ({text})")).unwrap_or_default()
}
