//! IPVS on kernels that do not load it when somebody asks for its family, which are those before 5.16.
//!
//! A process that may change the network may not load modules, but the kernel loads what a rule needs. iptables' match `ipvs` needs IPVS, so
//! asking nf_tables whether it knows that match brings IPVS, wherever a module for it lies. No rule is made.

use crate::NetlinkError;
use crate::message::Message;
use crate::socket::{Protocol, Socket};

/// nf_tables' door to what was made for iptables.
const NFNL_SUBSYS_NFT_COMPAT: u8 = 11;
const NFNL_MSG_COMPAT_GET: u8 = 0;
const NFTA_COMPAT_NAME: u16 = 1;
const NFTA_COMPAT_REV: u16 = 2;
const NFTA_COMPAT_TYPE: u16 = 3;
const AF_INET: u8 = 2;

/// The revision of the match, and that it is a match and no target.
const FIRST_REVISION: u32 = 0;
const MATCH: u32 = 0;

/// Makes the kernel load IPVS.
///
/// # Errors
/// The kernel does not know the match either, or could not be asked.
pub(super) fn load() -> Result<(), NetlinkError> {
    let mut socket = Socket::open(Protocol::Netfilter)?;
    socket.query("ask for iptables' match ipvs", question(), &mut |_| Ok(()))
}

fn question() -> Message {
    let mut message = Message::netfilter(NFNL_SUBSYS_NFT_COMPAT, NFNL_MSG_COMPAT_GET, 0, AF_INET);
    message.put_text(NFTA_COMPAT_NAME, "ipvs");
    message.put(NFTA_COMPAT_REV, &FIRST_REVISION.to_be_bytes());
    message.put(NFTA_COMPAT_TYPE, &MATCH.to_be_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_what_iptables_asks() {
        let bytes = question().finish(1, 5).unwrap();
        assert_eq!(bytes.get(4..6), Some(&[NFNL_MSG_COMPAT_GET, NFNL_SUBSYS_NFT_COMPAT][..]));
        let attributes = b"\x02\0\0\0\x09\0\x01\0ipvs\0\0\0\0\x08\0\x02\0\0\0\0\0\x08\0\x03\0\0\0\0\0";
        assert_eq!(bytes.get(16..), Some(&attributes[..]));
    }
}
