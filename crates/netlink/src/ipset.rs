//! ipset over netfilter netlink: enough to remove sets that another proxy left.
//!
//! Asking makes the kernel load ipset if it can, so ask only where it was in use.

use nix::errno::Errno;

use crate::NetlinkError;
use crate::message::{Message, NLM_F_EXCL};
use crate::socket::{Protocol, Socket};

const SUBSYSTEM: u8 = 6;
const IPSET_CMD_DESTROY: u8 = 3;
const IPSET_CMD_HEADER: u8 = 12;
const IPSET_ATTR_PROTOCOL: u16 = 1;
const IPSET_ATTR_SETNAME: u16 = 2;
/// Every kernel since 2.6.39 speaks it.
const PROTOCOL: u8 = 6;
const AF_INET: u8 = 2;

/// What became of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destroyed {
    /// It was there and is gone.
    Yes,
    /// It was not there, or the kernel has no ipset.
    Absent,
}

/// Removes a set by name. One that a rule still uses is refused.
pub fn destroy(name: &str) -> Result<Destroyed, NetlinkError> {
    match Socket::open(Protocol::Netfilter)?.request("destroy a set", message(name)) {
        Ok(()) => Ok(Destroyed::Yes),
        Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP)) => {
            Ok(Destroyed::Absent)
        }
        Err(error) => Err(error),
    }
}

/// Whether there is a set of this name; none where the kernel has no ipset.
pub fn exists(name: &str) -> Result<bool, NetlinkError> {
    let mut question = Message::netfilter(SUBSYSTEM, IPSET_CMD_HEADER, 0, AF_INET);
    question.put(IPSET_ATTR_PROTOCOL, &[PROTOCOL]).put_text(IPSET_ATTR_SETNAME, name);
    match Socket::open(Protocol::Netfilter)?.query("look for a set", question, &mut |_| Ok(())) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno(), Some(Errno::ENOENT | Errno::EINVAL | Errno::EOPNOTSUPP)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn message(name: &str) -> Message {
    // Without this flag the kernel does not tell a set that is gone from one that never was.
    let mut message = Message::netfilter(SUBSYSTEM, IPSET_CMD_DESTROY, NLM_F_EXCL, AF_INET);
    message.put(IPSET_ATTR_PROTOCOL, &[PROTOCOL]).put_text(IPSET_ATTR_SETNAME, name);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::namespace_or_skip;

    #[test]
    fn a_set_that_does_not_exist_is_absent() {
        let Some(namespace) = namespace_or_skip() else { return };
        let gone = namespace.run(|| destroy("KUBE-CLUSTER-IP").unwrap()).unwrap();
        assert_eq!(gone, Destroyed::Absent);
        assert!(!namespace.run(|| exists("KUBE-CLUSTER-IP").unwrap()).unwrap());
    }

    #[test]
    fn the_message_names_protocol_and_set() {
        let bytes = message("KUBE").finish(1, 5).unwrap();
        assert_eq!(bytes.get(4..6), Some(&[IPSET_CMD_DESTROY, SUBSYSTEM][..]));
        assert_eq!(bytes.get(20..), Some(&b"\x05\0\x01\0\x06\0\0\0\x09\0\x02\0KUBE\0\0\0\0"[..]));
    }
}
