//! IPVS over generic netlink: enough to remove what another proxy left.
//!
//! Asking for the family makes the kernel load IPVS if it can, so ask only where it was in use.

use nix::errno::Errno;

use crate::NetlinkError;
use crate::message::Message;
use crate::socket::{Protocol, Socket};

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const IPVS_CMD_FLUSH: u8 = 17;
const VERSION: u8 = 1;

/// What became of the virtual servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// All virtual servers of this network namespace are gone.
    Yes,
    /// The kernel has no IPVS.
    Absent,
}

/// Removes all virtual servers with their real servers.
pub fn flush() -> Result<Flushed, NetlinkError> {
    let mut socket = Socket::open(Protocol::Generic)?;
    let Some(family) = family(&mut socket)? else { return Ok(Flushed::Absent) };
    socket.request("flush the virtual servers", flush_message(family))?;
    Ok(Flushed::Yes)
}

/// The number that the kernel gave to IPVS.
fn family(socket: &mut Socket) -> Result<Option<u16>, NetlinkError> {
    let mut id = None;
    let asked = socket.query("look for IPVS", family_message(), &mut |frame| {
        if frame.kind == GENL_ID_CTRL {
            for attribute in frame.split::<4>()?.1 {
                let attribute = attribute?;
                if attribute.kind == CTRL_ATTR_FAMILY_ID {
                    id = attribute.value.try_into().ok().map(u16::from_ne_bytes);
                }
            }
        }
        Ok(())
    });
    match asked {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
        other => other.map(|()| id),
    }
}

fn family_message() -> Message {
    let mut message = Message::new(GENL_ID_CTRL, 0, &[CTRL_CMD_GETFAMILY, VERSION, 0, 0]);
    message.put_text(CTRL_ATTR_FAMILY_NAME, "IPVS");
    message
}

fn flush_message(family: u16) -> Message {
    Message::new(family, 0, &[IPVS_CMD_FLUSH, VERSION, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::namespace_or_skip;

    #[test]
    fn the_answer_is_whether_the_kernel_has_ipvs() {
        let Some(namespace) = namespace_or_skip() else { return };
        // The namespace is this test's own: there is nothing to lose where IPVS exists.
        let (flushed, has_ipvs) =
            namespace.run(|| (flush().unwrap(), std::path::Path::new("/proc/net/ip_vs").exists())).unwrap();
        assert_eq!(flushed == Flushed::Yes, has_ipvs);
    }

    #[test]
    fn messages_have_the_form_of_generic_netlink() {
        let family = family_message().finish(7, 5).unwrap();
        assert_eq!(family.get(4..6), Some(&GENL_ID_CTRL.to_ne_bytes()[..]));
        assert_eq!(family.get(16..), Some(&b"\x03\x01\0\0\x09\0\x02\0IPVS\0\0\0\0"[..]));
        let flush = flush_message(33).finish(8, 5).unwrap();
        assert_eq!(
            (flush.get(4..6), flush.get(16..)),
            (Some(&33u16.to_ne_bytes()[..]), Some(&[17, 1, 0, 0][..]))
        );
    }
}
