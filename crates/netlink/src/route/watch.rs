//! Tells that addresses of the node come or go.
//!
//! In: notifications of the kernel. Out: that there was one. What it said is not looked at: after a burst, or after lost
//! notifications, only a new list is true.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::NetlinkError;
use crate::socket::{Protocol, Socket};

const RTNLGRP_IPV4_IFADDR: u32 = 5;
const RTNLGRP_IPV6_IFADDR: u32 = 9;

/// A listener in one network namespace.
#[derive(Debug)]
pub struct AddressMonitor {
    socket: Socket,
}

impl AddressMonitor {
    /// Listens in the namespace of the calling thread, from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Route)?;
        for group in [RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR] {
            socket.membership(group).join()?;
        }
        Ok(Self { socket })
    }

    /// Waits until an address came or went since the last call.
    pub fn wait(&mut self) -> Result<(), NetlinkError> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(NetlinkError::errno_of("wait for changes of addresses")(errno)),
            }
        }
        loop {
            match self.socket.receive_now() {
                Ok(None) => return Ok(()),
                Ok(Some(_)) | Err(NetlinkError::Overrun | NetlinkError::Truncated { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
