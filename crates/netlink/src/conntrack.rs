//! Flows of the connection tracker: list with a filter, delete one.
//!
//! In: a [`Filter`]. Out: each [`Flow`] passed to a closure as it is read, so a table of any size needs constant memory.
//!
//! Invariants
//! - The answer does not depend on the kernel: its own filter (`CTA_FILTER`, since 5.8; older kernels ignore or refuse it) only saves
//!   work, and every flow is checked again here.
//! - A flow is deleted by tuple, zone and identity, so a new flow that took over the tuple meanwhile survives.

use std::net::IpAddr;

use nix::errno::Errno;

use crate::message::{Message, netfilter_family};
use crate::socket::{Protocol, Socket};
use crate::{Family, NetlinkError};

mod bytes;

const SUBSYSTEM: u8 = 1;
const IPCTNL_MSG_CT_NEW: u8 = 0;
const IPCTNL_MSG_CT_GET: u8 = 1;
const IPCTNL_MSG_CT_DELETE: u8 = 2;

/// One direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port; 0 for protocols without ports.
    pub src_port: u16,
    /// Destination port; 0 for protocols without ports.
    pub dst_port: u16,
}

/// Where a flow is unique. Zone 0 is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Zone {
    /// The zone holds for both directions.
    Both(u16),
    /// The zone holds for the original direction only.
    Original(u16),
    /// The zone holds for the reply direction only.
    Reply(u16),
}

/// One tracked flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The IP family.
    pub family: Family,
    /// The transport protocol, such as 17 for UDP.
    pub protocol: u8,
    /// As the first packet asked.
    pub orig: Tuple,
    /// As answers come back: its source is the endpoint that serves the flow.
    pub reply: Tuple,
    /// Where the tuples are unique.
    pub zone: Zone,
    /// The kernel's identity of this flow.
    pub id: Option<u32>,
}

/// Which flows to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// Flows of this family.
    pub family: Family,
    /// Flows of this transport protocol.
    pub protocol: Option<u8>,
    /// Flows whose first packet asked for this address.
    pub orig_dst: Option<IpAddr>,
    /// Flows whose first packet asked for this port.
    pub orig_dst_port: Option<u16>,
}

impl Filter {
    /// Every flow of a family.
    pub fn family(family: Family) -> Self {
        Self { family, protocol: None, orig_dst: None, orig_dst_port: None }
    }

    /// True if the flow passes.
    pub fn matches(&self, flow: &Flow) -> bool {
        flow.family == self.family
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.orig_dst.is_none_or(|address| address == flow.orig.dst)
            && self.orig_dst_port.is_none_or(|port| port == flow.orig.dst_port)
    }
}

/// What became of a flow that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    /// The kernel removed it.
    Yes,
    /// It had ended before, or a new flow has taken its place.
    AlreadyGone,
}

/// Who filters a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// The kernel first, then we: fast.
    InKernel,
    /// We alone: for kernels that refuse a filter.
    HereOnly,
}

/// The connection tracker of one network namespace.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
    filtering: Filtering,
}

impl Conntrack {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Self::open_with(Filtering::InKernel)
    }

    /// As [`Self::open`], with a choice of who filters.
    pub fn open_with(filtering: Filtering) -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Netfilter)?, filtering })
    }

    /// Who filters now: a kernel that refused the filter once is not asked again.
    pub fn filtering(&self) -> Filtering {
        self.filtering
    }

    /// Passes every matching flow to `each`. After a transient error ask again (see [`crate::socket::retry`]): `each` may then see
    /// some flows twice, and flows that begin or end meanwhile may or may not be seen.
    pub fn dump(&mut self, filter: &Filter, each: &mut dyn FnMut(Flow)) -> Result<(), NetlinkError> {
        if self.filtering == Filtering::InKernel {
            match self.dump_once(filter, each) {
                Err(NetlinkError::Refused { errno: Errno::EINVAL | Errno::EOPNOTSUPP, .. }) => {
                    self.filtering = Filtering::HereOnly;
                }
                result => return result,
            }
        }
        self.dump_once(filter, each)
    }

    /// Deletes this very flow. Works for protocols with ports (TCP, UDP, SCTP...).
    pub fn delete(&mut self, flow: &Flow) -> Result<Deleted, NetlinkError> {
        match self.socket.request("delete a conntrack flow", delete_message(flow)) {
            Ok(()) => Ok(Deleted::Yes),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(Deleted::AlreadyGone),
            Err(error) => Err(error),
        }
    }

    fn dump_once(&mut self, filter: &Filter, each: &mut dyn FnMut(Flow)) -> Result<(), NetlinkError> {
        let message = dump_message(filter, self.filtering);
        self.socket.dump("list conntrack flows", message, &mut |frame| {
            if frame.netfilter_kind() != (SUBSYSTEM, IPCTNL_MSG_CT_NEW) {
                return Ok(());
            }
            if let Some(flow) = bytes::read_flow(frame)?
                && filter.matches(&flow)
            {
                each(flow);
            }
            Ok(())
        })
    }
}

fn dump_message(filter: &Filter, filtering: Filtering) -> Message {
    let mut message = Message::netfilter(SUBSYSTEM, IPCTNL_MSG_CT_GET, 0, filter.family.number());
    if filtering == Filtering::InKernel {
        bytes::put_filter(&mut message, filter);
    }
    message
}

fn delete_message(flow: &Flow) -> Message {
    let mut message = Message::netfilter(SUBSYSTEM, IPCTNL_MSG_CT_DELETE, 0, flow.family.number());
    bytes::put_identity(&mut message, flow);
    message
}

/// The family in the header of a conntrack message, if it is an IP family.
fn family_of_header(fixed: [u8; 4]) -> Option<Family> {
    Family::from_number(netfilter_family(fixed))
}

#[cfg(test)]
mod tests;
