//! Private network namespaces, held by a file descriptor.
//!
//! A [`Namespace`] has no name and no mount: when the last descriptor, thread and socket in it are gone, the kernel removes it with
//! everything inside. So nothing is left on the machine, however the process ends.
//!
//! Code runs inside a namespace on a thread of its own. Sockets opened there stay in that namespace for ever, also when they are
//! used by other threads; files under `/proc/sys/net` belong to the namespace of the thread that opens them; child processes
//! inherit the namespace of the thread that starts them.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::sched::{CloneFlags, setns, unshare};

use crate::NetlinkError;
use crate::route::Routes;

/// A handle on one network namespace.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// Makes an empty namespace with `lo` up. Needs `CAP_SYS_ADMIN`.
    pub fn new() -> Result<Self, NetlinkError> {
        on_fresh_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(NetlinkError::errno_of("make a network namespace"))?;
            let namespace = Self::current()?;
            let mut routes = Routes::open()?;
            let loopback = routes.link_index("lo")?;
            routes.set_up(loopback)?;
            Ok(namespace)
        })?
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, NetlinkError> {
        let file = File::open("/proc/thread-self/ns/net")
            .map_err(NetlinkError::io("open this thread's network namespace"))?;
        Ok(Self { fd: file.into() })
    }

    /// A second handle on the same namespace.
    pub fn try_clone(&self) -> Result<Self, NetlinkError> {
        let fd = self.fd.try_clone().map_err(NetlinkError::io("copy the handle of a network namespace"))?;
        Ok(Self { fd })
    }

    /// Runs `body` on a fresh thread inside the namespace and waits for it. A panic of `body` goes on in the caller.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, NetlinkError> {
        on_fresh_thread(|| {
            self.enter()?;
            Ok(body())
        })?
    }

    /// Moves the calling thread into the namespace, for good. Only for threads that serve nothing else.
    pub fn enter(&self) -> Result<(), NetlinkError> {
        setns(&self.fd, CloneFlags::CLONE_NEWNET).map_err(NetlinkError::errno_of("enter a network namespace"))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn on_fresh_thread<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, NetlinkError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, body)
            .map_err(NetlinkError::io("start a thread for a network namespace"))?;
        match thread.join() {
            Ok(value) => Ok(value),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::namespace_or_skip;

    #[test]
    fn a_new_namespace_holds_only_loopback_and_the_caller_stays_outside() {
        let Some(namespace) = namespace_or_skip() else { return };
        let links = |_: ()| Routes::open().unwrap().links().unwrap();
        let inside = namespace.run(|| links(())).unwrap();
        assert_eq!(inside.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
        assert!(inside.iter().all(|link| link.is_up));
        let identity = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        assert_ne!(identity(), namespace.run(identity).unwrap());
    }
}
