//! Lines that say what runs, for whoever waits.

use std::time::Instant;

/// Counts steps.
pub(super) struct Progress {
    begin: Instant,
    total: usize,
    done: usize,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        Self { begin: Instant::now(), total, done: 0 }
    }

    /// The next step begins.
    pub(super) fn step(&mut self, what: &str) {
        self.done += 1;
        let seconds = self.begin.elapsed().as_secs();
        println!("[{:>2} of {}, {:>2}:{:02}] {what}", self.done, self.total, seconds / 60, seconds % 60);
    }
}
