//! IPVS over generic netlink: virtual servers, their destinations, timeouts.
//!
//! In: typed [`Command`]s and questions. Out: the kernel's answer to each command, and lists. A list is always whole.
//!
//! Commands are sent many at a time and answered one by one, in order: there is no transaction, so whoever sends several must
//! live with any prefix of them. Opening a socket makes the kernel load IPVS if it can, so open one only where it is wanted.
//! IPVS tells nobody what changes; only a new list does.

use std::collections::VecDeque;

use nix::errno::Errno;

use crate::NetlinkError;
use crate::message::{Frames, Message, NLM_F_ACK};
use crate::socket::{Protocol, Socket, read_answer, retry};

mod bytes;
mod load;
#[cfg(test)]
mod tests;
mod types;

pub use types::{
    Command, Destination, Forwarding, Info, Listed, Persistence, Service, ServiceFlags, ServiceId, Timeouts,
};

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const VERSION: u8 = 1;

/// Commands in one datagram. Their answers fit the receive buffer that a system gives by default.
const AT_ONCE: usize = 64;

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
    match Ipvs::open()? {
        Some(mut ipvs) => ipvs.flush().map(|()| Flushed::Yes),
        None => Ok(Flushed::Absent),
    }
}

/// IPVS in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Ipvs {
    socket: Socket,
    /// The number that the kernel gave to IPVS.
    family: u16,
}

impl Ipvs {
    /// Opens a socket in the namespace of the calling thread; `None` if the kernel has no IPVS and cannot load it.
    pub fn open() -> Result<Option<Self>, NetlinkError> {
        let mut socket = Socket::open(Protocol::Generic)?;
        let family = match family(&mut socket)? {
            // Why it could not be loaded tells nothing more than that it is not there.
            None if load::load().is_ok() => family(&mut socket)?,
            found => found,
        };
        Ok(family.map(|family| Self { socket, family }))
    }

    /// Version and size of the table of connections.
    pub fn info(&mut self) -> Result<Info, NetlinkError> {
        let mut info = None;
        let ask = self.message(bytes::GET_INFO);
        self.socket.query("ask IPVS for its version", ask, &mut |frame| {
            info = Some(bytes::read_info(frame)?);
            Ok(())
        })?;
        info.ok_or(NetlinkError::Malformed(crate::Malformed::Absent { part: "version of IPVS" }))
    }

    /// How long idle connections are kept.
    pub fn timeouts(&mut self) -> Result<Timeouts, NetlinkError> {
        let mut timeouts = None;
        let ask = self.message(bytes::GET_CONFIG);
        self.socket.query("ask IPVS for its timeouts", ask, &mut |frame| {
            timeouts = Some(bytes::read_timeouts(frame)?);
            Ok(())
        })?;
        timeouts.ok_or(NetlinkError::Malformed(crate::Malformed::Absent { part: "timeouts" }))
    }

    /// Sets how long idle connections are kept; zero leaves one as it is.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), NetlinkError> {
        let mut message = self.message(bytes::SET_CONFIG);
        bytes::put_timeouts(&mut message, timeouts);
        self.socket.request("set the timeouts of IPVS", message)
    }

    /// All virtual servers with an address, of both families, in order. Those that packets are marked for are left out.
    pub fn services(&mut self) -> Result<Vec<Service>, NetlinkError> {
        retry(|| {
            let mut services = Vec::new();
            let ask = self.message(bytes::GET_SERVICE);
            self.socket.dump("list virtual servers", ask, &mut |frame| {
                services.extend(bytes::read_service(frame)?);
                Ok(())
            })?;
            services.sort();
            Ok(services)
        })
    }

    /// The destinations of a virtual server, in order; none if it does not exist.
    pub fn destinations(&mut self, of: ServiceId) -> Result<Vec<Listed>, NetlinkError> {
        retry(|| {
            let mut listed = Vec::new();
            let mut ask = self.message(bytes::GET_DEST);
            bytes::put_id(&mut ask, of);
            self.socket.dump("list the destinations of a virtual server", ask, &mut |frame| {
                listed.extend(bytes::read_destination(frame, of)?);
                Ok(())
            })?;
            listed.sort();
            Ok(listed)
        })
    }

    /// Sends commands, and says for each what the kernel answered: nothing if it was done. Goes on after a refusal.
    ///
    /// # Errors
    /// The socket, or answers that cannot be read. Then nobody knows what was done.
    pub fn send(&mut self, commands: &[Command]) -> Result<Vec<Option<Errno>>, NetlinkError> {
        let mut answers = Vec::with_capacity(commands.len());
        for some in commands.chunks(AT_ONCE) {
            self.send_some(some, &mut answers)?;
        }
        Ok(answers)
    }

    /// Removes all virtual servers of both families with their destinations.
    pub fn flush(&mut self) -> Result<(), NetlinkError> {
        let message = self.message(bytes::FLUSH);
        self.socket.request("flush the virtual servers", message)
    }

    fn message(&self, command: u8) -> Message {
        message(self.family, command)
    }

    fn send_some(
        &mut self,
        commands: &[Command],
        answers: &mut Vec<Option<Errno>>,
    ) -> Result<(), NetlinkError> {
        let first = self.socket.reserve(commands.len());
        let mut sequences = VecDeque::with_capacity(commands.len());
        let mut datagram = Vec::new();
        let numbers = std::iter::successors(Some(first), |number| Some(number.wrapping_add(1)));
        for (sequence, command) in numbers.zip(commands) {
            datagram.extend(bytes::command(self.family, command).finish(sequence, NLM_F_ACK)?);
            sequences.push_back(sequence);
        }
        self.socket.send(&datagram)?;
        while !sequences.is_empty() {
            for frame in Frames::new(self.socket.receive()?) {
                let frame = frame?;
                if Some(&frame.sequence) != sequences.front() {
                    continue; // Left over from an exchange that was given up.
                }
                if let Some(answer) = read_answer(&frame)? {
                    sequences.pop_front();
                    answers.push((answer.code != 0).then(|| Errno::from_raw(answer.code.wrapping_neg())));
                }
            }
        }
        Ok(())
    }
}

fn message(family: u16, command: u8) -> Message {
    Message::new(family, 0, &[command, VERSION, 0, 0])
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
    let mut message = message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
    message.put_text(CTRL_ATTR_FAMILY_NAME, "IPVS");
    message
}
