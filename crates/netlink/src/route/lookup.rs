//! The kernel's own choice of a way: which interface leads to an address.

use std::net::IpAddr;

use nix::errno::Errno;

use super::{LinkIndex, RTA_DST, RTA_OIF, RTM_GETROUTE, RTM_NEWROUTE, Routes};
use crate::message::{Frame, Message, family_of};
use crate::{Family, Malformed, NetlinkError};

impl Routes {
    /// The name of the interface by which packets leave for an address, and so usually the one by which its packets come in. `None`
    /// if there is no way.
    pub fn interface_towards(&mut self, address: IpAddr) -> Result<Option<String>, NetlinkError> {
        let bits = Family::of(address).bits();
        let mut ask =
            Message::new(RTM_GETROUTE, 0, &[family_of(address), bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        ask.put_ip(RTA_DST, address);
        let mut link = None;
        let asked = self.socket.query("find the way to an address", ask, &mut |frame| {
            if frame.kind == RTM_NEWROUTE {
                link = read_link(frame)?;
            }
            Ok(())
        });
        match asked {
            Err(error) if error.errno().is_some_and(is_no_way) => return Ok(None),
            asked => asked?,
        }
        let Some(index) = link else { return Ok(None) };
        Ok(self.links()?.into_iter().find(|link| link.index == index).map(|link| link.name))
    }
}

/// What the kernel says where nothing leads, and where a route refuses.
fn is_no_way(errno: Errno) -> bool {
    matches!(errno, Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EACCES | Errno::EINVAL)
}

fn read_link(frame: &Frame<'_>) -> Result<Option<LinkIndex>, Malformed> {
    let (_, attributes) = frame.split::<12>()?;
    for attribute in attributes {
        let attribute = attribute?;
        if attribute.kind == RTA_OIF {
            return Ok(Some(LinkIndex(attribute.u32()?)));
        }
    }
    Ok(None)
}
