//! Copies between two streams, each direction by itself.
//!
//! In: two streams. Out: when both directions have ended, or one failed.
//!
//! Little is copied through a buffer that belongs to the thread, much is moved by the kernel through a [`Pipe`] that is
//! borrowed while data flows. So an idle connection holds neither.
//!
//! Invariants
//! - The end of one direction is passed on and leaves the other open.
//! - Nothing is read before what was read last has been written: a slow reader slows its writer down.
//! - A reset is never passed on as a regular end, whoever is told of it first.
//! - Where data never ends, other tasks get their turns.

use std::cell::RefCell;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{MsgFlags, recv};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::pipe::{Pipe, Pipes};

/// What is read at once through the buffer.
const BUFFER: usize = 64 * 1024;

/// A read of so much asks for a pipe.
const MUCH: usize = 16 * 1024;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into());
}

/// What a step did.
enum Step {
    /// So many bytes were read at last and written; none if nothing is there any more.
    Passed(usize),
    /// These were read and not written.
    Left(Vec<u8>),
    /// The reader is at its end.
    End,
    /// The writer takes nothing more.
    Deaf(io::Error),
}

/// What the directions of a connection know of each other.
#[derive(Debug, Default)]
struct Ends {
    /// One direction has come to its end.
    is_one: AtomicBool,
    /// A peer is gone without having said goodbye, and writing to it told so: reading from it will not.
    is_broken: AtomicBool,
}

impl Ends {
    /// Writing failed. A peer that has said its last word may be deaf.
    fn deaf(&self, error: &io::Error) -> io::Result<()> {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Passes the end of one direction on. If the peer is gone, the other direction finds out. If both have come to their end, or if
    /// this was no regular one, the peer is told by the close that follows.
    fn end(&self, to: &TcpStream) -> io::Result<()> {
        let is_last = self.is_one.swap(true, Ordering::Relaxed);
        if !is_last && !self.is_broken.load(Ordering::Relaxed) {
            let _ = SockRef::from(to).shutdown(Shutdown::Write);
        }
        Ok(())
    }
}

/// Copies until both directions have ended. An error says that the connection is broken.
pub(super) async fn both_ways(one: &TcpStream, other: &TcpStream, pipes: &Pipes) -> io::Result<()> {
    let ends = Ends::default();
    let way = |from, to| one_way(from, to, &ends, pipes);
    tokio::try_join!(way(one, other), way(other, one))?;
    if ends.is_broken.load(Ordering::Relaxed) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
}

async fn one_way(from: &TcpStream, to: &TcpStream, ends: &Ends, pipes: &Pipes) -> io::Result<()> {
    let mut is_much = false;
    loop {
        from.readable().await?;
        // The runtime does not count this as work: without it nobody else would get a turn while there is something to read.
        consume_budget().await;
        let pipe = if is_much { pipes.borrow() } else { None };
        let step = match pipe {
            // Kept off the connection's own memory: most connections never come here.
            Some(pipe) => Box::pin(through(pipe, from, to, pipes)).await?,
            None => step(from, to)?,
        };
        match step {
            Step::Passed(bytes) => is_much = bytes >= MUCH,
            Step::Left(rest) => {
                is_much = true;
                if let Err(error) = Box::pin(write_all(to, rest)).await {
                    return ends.deaf(&error);
                }
            }
            Step::End => return ends.end(to),
            Step::Deaf(error) => return ends.deaf(&error),
        }
    }
}

/// Reads once and writes it. Only reading can fail: who cannot be written to may still have something to say.
fn step(from: &TcpStream, to: &TcpStream) -> io::Result<Step> {
    SCRATCH.with_borrow_mut(|buffer| {
        let Some(count) = read(from, buffer)? else { return Ok(Step::Passed(0)) };
        if count == 0 {
            return Ok(Step::End);
        }
        let mut rest = buffer.get(..count).unwrap_or_default();
        while !rest.is_empty() {
            match to.try_write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Step::Left(rest.to_vec()));
                }
                Err(error) => return Ok(Step::Deaf(error)),
            }
        }
        Ok(Step::Passed(count))
    })
}

/// Reads what is there; `None` if nothing is.
///
/// A read that does not fill the buffer has taken everything: it is reported to the runtime as "would block", so that
/// nobody asks again before more has come. (The end of a stream is kept by the runtime apart from that.)
fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut taken = None;
    let all = from.try_io(Interest::READABLE, || {
        let count = recv(from.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?;
        taken = Some(count);
        if (1..buffer.len()).contains(&count) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match all {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(taken),
    }
}

async fn write_all(to: &TcpStream, bytes: Vec<u8>) -> io::Result<()> {
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Moves data through a pipe for as long as there is much of it.
async fn through(mut pipe: Pipe, from: &TcpStream, to: &TcpStream, pipes: &Pipes) -> io::Result<Step> {
    loop {
        match from.try_io(Interest::READABLE, || pipe.fill(from)) {
            Ok(0) => {
                pipes.give_back(pipe);
                return Ok(Step::End);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                pipes.give_back(pipe);
                return Ok(Step::Passed(0));
            }
            Err(error) => return Err(error),
        }
        while pipe.holds() > 0 {
            match to.try_io(Interest::WRITABLE, || pipe.empty(to)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if let Err(error) = to.writable().await {
                        return Ok(Step::Deaf(error));
                    }
                }
                Err(error) => return Ok(Step::Deaf(error)),
            }
        }
        from.readable().await?;
        consume_budget().await;
    }
}

#[cfg(test)]
mod tests;
