//! Pipes, through which the kernel moves data between two sockets without copying it here.
//!
//! In: sockets with data. Out: the same data in another socket. A few pipes are kept for the next who needs one; more
//! are made as long as there are descriptors. Without one, data is copied.
//!
//! Invariant: a pipe that is given back is empty.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;
use tokio::net::TcpStream;

use crate::descriptors::{Descriptors, Permit};

/// What a pipe should hold.
const SIZE: usize = 256 * 1024;

/// Pipes that wait for their next use.
const MAX_SPARE: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
    size: usize,
    _permit: Permit,
}

impl Pipe {
    fn open(permit: Permit) -> io::Result<Self> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let size = i32::try_from(SIZE).unwrap_or(i32::MAX);
        // Without the right to a larger one it has its usual size, which is given by a question.
        let size =
            fcntl(&write, FcntlArg::F_SETPIPE_SZ(size)).or_else(|_| fcntl(&write, FcntlArg::F_GETPIPE_SZ));
        let size = size.ok().and_then(|size| usize::try_from(size).ok()).unwrap_or(4096);
        Ok(Self { read, write, held: 0, size, _permit: permit })
    }

    /// Bytes in it.
    pub(super) fn holds(&self) -> usize {
        self.held
    }

    /// Takes what is there, but only into an empty pipe: so "would block" means that nothing was there.
    pub(super) fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
        let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        let count = splice(from, None, &self.write, None, self.size, flags)?;
        self.held += count;
        Ok(count)
    }

    /// Gives what it holds, or part of it.
    pub(super) fn empty(&mut self, to: &TcpStream) -> io::Result<usize> {
        let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        let count = splice(&self.read, None, to, None, self.held, flags)?;
        self.held = self.held.saturating_sub(count);
        Ok(count)
    }
}

/// Pipes for all connections.
#[derive(Debug)]
pub(crate) struct Pipes {
    spare: Mutex<Vec<Pipe>>,
    descriptors: Arc<Descriptors>,
}

impl Pipes {
    pub(crate) fn new(descriptors: &Arc<Descriptors>) -> Self {
        Self { spare: Mutex::default(), descriptors: descriptors.clone() }
    }

    /// An empty pipe, if there is one to be had.
    pub(super) fn borrow(&self) -> Option<Pipe> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.or_else(|| Pipe::open(self.descriptors.take(2)?).ok())
    }

    /// Takes a pipe back. What still holds something is closed.
    pub(super) fn give_back(&self, pipe: Pipe) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if pipe.held == 0 && spare.len() < MAX_SPARE {
            spare.push(pipe);
        }
    }
}
