//! Pipes, through which the kernel moves data between two sockets without copying it here.
//!
//! In: sockets with data. Out: the same data in another socket. A few pipes are kept for the next who needs one; more
//! are made as long as there are descriptors. Without one, data is copied.
//!
//! Descriptors are for connections first: pipes get a quarter of them at most, and those that nobody uses go as soon as a
//! connection finds none.
//!
//! The larger a pipe, the fewer calls and wakeups for the same data. But without privileges the kernel gives one user 64 MiB
//! of pipes, and beyond that only tiny ones: the first are large, the next smaller, and a tiny one is not worth having.
//!
//! Invariant: a pipe that is given back is empty.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use nix::unistd::pipe2;
use tokio::net::TcpStream;

use crate::descriptors::{Descriptors, Permit};

/// What a large pipe holds: what the kernel gives without privileges.
const LARGE: i32 = 1024 * 1024;

/// Large pipes that there are at once.
const MAX_LARGE: usize = 32;

/// What other pipes hold.
const SIZE: i32 = 256 * 1024;

/// Below this, copying is as good.
const MIN_SIZE: usize = 64 * 1024;

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
    /// One of all.
    _one: Arc<()>,
    /// One of the large ones.
    _large: Option<Arc<()>>,
}

impl Pipe {
    fn open(permit: Permit, one: Arc<()>, large: Option<Arc<()>>) -> Option<Self> {
        let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).ok()?;
        let wish = if large.is_some() { LARGE } else { SIZE };
        // Without the right to so much it has its usual size, which is given by a question.
        let size =
            fcntl(&write, FcntlArg::F_SETPIPE_SZ(wish)).or_else(|_| fcntl(&write, FcntlArg::F_GETPIPE_SZ));
        let size = usize::try_from(size.ok()?).ok().filter(|size| *size >= MIN_SIZE)?;
        Some(Self { read, write, held: 0, size, _permit: permit, _one: one, _large: large })
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
    /// Every pipe holds one more of these.
    all: Arc<()>,
    /// Every large pipe holds one more of these.
    large: Arc<()>,
    /// Pipes that there may be.
    most: usize,
    descriptors: Arc<Descriptors>,
}

impl Pipes {
    pub(crate) fn new(descriptors: &Arc<Descriptors>) -> Self {
        let (spare, all, large) = Default::default();
        // Each has two ends.
        let most = descriptors.most() / 4 / 2;
        Self { spare, all, large, most, descriptors: descriptors.clone() }
    }

    /// An empty pipe, if there is one to be had.
    pub(super) fn borrow(&self) -> Option<Pipe> {
        let spare = self.lock().pop();
        spare.or_else(|| {
            let one = Some(&self.all).filter(|all| Arc::strong_count(all) <= self.most)?;
            let large = Some(&self.large).filter(|large| Arc::strong_count(large) <= MAX_LARGE);
            Pipe::open(self.descriptors.take(2)?, one.clone(), large.cloned())
        })
    }

    /// Closes the pipes that nobody uses.
    pub(crate) fn close_spare(&self) {
        let spare = std::mem::take(&mut *self.lock());
        drop(spare);
    }

    /// Takes a pipe back. What still holds something is closed.
    pub(super) fn give_back(&self, pipe: Pipe) {
        let mut spare = self.lock();
        if pipe.held == 0 && spare.len() < MAX_SPARE {
            spare.push(pipe);
        }
    }

    /// How many wait for their next use.
    #[cfg(test)]
    pub(crate) fn spare(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pipe>> {
        // Nothing panics while it is held.
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pipes_are_large_and_all_come_back() {
        let descriptors = Descriptors::of_limit(1024);
        let pipes = Pipes::new(&descriptors);
        let borrowed: Vec<Pipe> = (0..MAX_LARGE + 2).map_while(|_| pipes.borrow()).collect();
        let is_large = |pipe: &&Pipe| pipe.size == usize::try_from(LARGE).unwrap();
        assert_eq!(borrowed.iter().take_while(is_large).count(), MAX_LARGE.min(borrowed.len()));
        assert!(borrowed.iter().all(|pipe| pipe.size >= MIN_SIZE));
        borrowed.into_iter().for_each(|pipe| pipes.give_back(pipe));
        assert_eq!(pipes.spare(), MAX_SPARE);
        assert_eq!(Arc::strong_count(&pipes.large), MAX_SPARE + 1);
    }

    #[test]
    fn pipes_leave_descriptors_to_connections() {
        let descriptors = Descriptors::of_limit(64);
        let pipes = Pipes::new(&descriptors);
        let borrowed: Vec<Pipe> = (0..100).map_while(|_| pipes.borrow()).collect();
        assert_eq!(borrowed.len(), 4, "a quarter of 32, two for each");
        borrowed.into_iter().for_each(|pipe| pipes.give_back(pipe));
        let _held = descriptors.take(24).unwrap();
        assert!(descriptors.take(1).is_none());
        pipes.close_spare();
        assert!(descriptors.take(8).is_some());
        assert!(pipes.borrow().is_some());
    }
}
