//! Which processes are ours: a listener on the kernel's rule changes must tell our own writes from others'.

use std::collections::VecDeque;
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

    pub(super) fn note(&self, pid: u32) {
        let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if pids.len() >= REMEMBERED {
            pids.pop_front();
        }
        pids.push_back(pid);
    }
}
