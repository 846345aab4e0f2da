//! Which processes are ours: a listener on the kernel's rule changes must tell our own writes from others'.

use std::collections::VecDeque;
use std::io;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};

/// Enough for every program of a full sync; notifications arrive within moments of the write.
const REMEMBERED: usize = 256;

/// Process ids of the programs that were started last. Clones share the list.
#[derive(Clone, Debug, Default)]
pub struct Children(Arc<Mutex<VecDeque<u32>>>);

impl Children {
    /// True if one of the last programs had this process id.
    pub fn include(&self, pid: u32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&pid)
    }

    /// Starts a program and notes its process id. Whoever asks meanwhile waits: on a busy machine a short program writes its rules and
    /// ends before this thread has its next turn.
    pub(super) fn start(&self, spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Child> {
        let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let child = spawn()?;
        if pids.len() >= REMEMBERED {
            pids.pop_front();
        }
        pids.push_back(child.id());
        Ok(child)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_program_is_known_before_anybody_can_ask() {
        let children = Children::default();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let asked = &children;
            let listener = scope.spawn(move || asked.include(told.recv().unwrap()));
            let spawn = || {
                let child = Command::new("true").spawn()?;
                tell.send(child.id()).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                Ok(child)
            };
            children.start(spawn).unwrap().wait().unwrap();
            assert!(listener.join().unwrap());
        });
        assert!(!children.include(0));
    }
}
