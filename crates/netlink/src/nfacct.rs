//! Named packet counters of the kernel (nfacct), which iptables rules can count into.
//!
//! Many kernels are built without them: [`Accounts::ensure`] tells, and a rule that names a missing counter would be refused.

use nix::errno::Errno;

use crate::NetlinkError;
use crate::message::{Message, NLM_F_CREATE, NLM_F_EXCL};
use crate::socket::{Protocol, Socket};

/// Bytes in the longest counter name, without the closing NUL.
pub const NAME_MAX: usize = 31;

const SUBSYSTEM: u8 = 7;
const NFNL_MSG_ACCT_NEW: u8 = 0;
const NFNL_MSG_ACCT_GET: u8 = 1;
const NFACCT_NAME: u16 = 1;
const NFACCT_PKTS: u16 = 2;

/// Whether a counter can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Available {
    /// It exists.
    Yes,
    /// The kernel has no named counters.
    No,
}

/// The named counters of one network namespace.
#[derive(Debug)]
pub struct Accounts {
    socket: Socket,
}

impl Accounts {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Netfilter)? })
    }

    /// Makes the counter if it is missing; one that exists keeps its value.
    pub fn ensure(&mut self, name: &str) -> Result<Available, NetlinkError> {
        check_name(name)?;
        match self.ask(name) {
            Ok(_) => return Ok(Available::Yes),
            Err(error) if error.errno() == Some(Errno::ENOENT) => {}
            Err(error) => return unavailable(error),
        }
        match self.socket.request("make a counter", new_message(name)) {
            Ok(()) => Ok(Available::Yes),
            Err(error) if matches!(error.errno(), Some(Errno::EEXIST | Errno::EBUSY)) => Ok(Available::Yes),
            Err(error) => unavailable(error),
        }
    }

    /// Packets counted so far; `None` if there is no such counter, or no counters at all.
    pub fn packets(&mut self, name: &str) -> Result<Option<u64>, NetlinkError> {
        check_name(name)?;
        match self.ask(name) {
            Ok(packets) => Ok(packets),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
            Err(error) => unavailable(error).map(|_| None),
        }
    }

    /// Whether the kernel has named counters at all. Nothing is made.
    pub fn probe(&mut self) -> Result<Available, NetlinkError> {
        match self.ask("IMayExist") {
            Ok(_) => Ok(Available::Yes),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(Available::Yes),
            Err(error) => unavailable(error),
        }
    }

    fn ask(&mut self, name: &str) -> Result<Option<u64>, NetlinkError> {
        let mut message = Message::netfilter(SUBSYSTEM, NFNL_MSG_ACCT_GET, 0, 0);
        message.put_text(NFACCT_NAME, name);
        let mut packets = None;
        self.socket.query("look at a counter", message, &mut |frame| {
            if frame.netfilter_kind() == (SUBSYSTEM, NFNL_MSG_ACCT_NEW) {
                for attribute in frame.split::<4>()?.1 {
                    let attribute = attribute?;
                    if attribute.kind == NFACCT_PKTS {
                        packets = Some(attribute.be64()?);
                    }
                }
            }
            Ok(())
        })?;
        Ok(packets)
    }
}

fn new_message(name: &str) -> Message {
    let mut message = Message::netfilter(SUBSYSTEM, NFNL_MSG_ACCT_NEW, NLM_F_CREATE | NLM_F_EXCL, 0);
    message.put_text(NFACCT_NAME, name);
    message
}

/// A refusal means "no counters here", unless we simply may not ask.
fn unavailable(error: NetlinkError) -> Result<Available, NetlinkError> {
    match error {
        NetlinkError::Refused { errno: Errno::EPERM | Errno::EACCES, .. } => Err(error),
        NetlinkError::Refused { .. } => Ok(Available::No),
        other => Err(other),
    }
}

fn check_name(name: &str) -> Result<(), NetlinkError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(NetlinkError::Unencodable { reason: "a counter name has 1 to 31 bytes" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::namespace_or_skip;

    #[test]
    fn ensure_agrees_with_the_probe_whether_or_not_the_kernel_has_counters() {
        let Some(namespace) = namespace_or_skip() else { return };
        namespace
            .run(|| {
                let mut accounts = Accounts::open().unwrap();
                let probe = accounts.probe().unwrap();
                eprintln!("named counters: {probe:?}");
                assert_eq!(accounts.ensure("ct_state_invalid").unwrap(), probe);
                assert_eq!(accounts.ensure("ct_state_invalid").unwrap(), probe);
                let wanted = (probe == Available::Yes).then_some(0);
                assert_eq!(accounts.packets("ct_state_invalid").unwrap(), wanted);
                assert!(accounts.ensure("").is_err());
            })
            .unwrap();
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_request_that_makes_a_counter() {
        let bytes = new_message("abc").finish(3, 4).unwrap();
        let wanted =
            [28, 0, 0, 0, 0, 7, 5, 6, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1, 0, b'a', b'b', b'c', 0];
        assert_eq!(bytes, wanted);
    }
}
