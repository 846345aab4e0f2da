//! What a failed write asks of the loop.

/// The only thing the loop may ask of an error. Texts and exit codes stay inside this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Somebody changed the kernel while we planned: observe, plan and commit again at once.
    Replan,
    /// What we believe about the kernel is wrong: the next commit must be a full one.
    FullSync,
    /// One line of the input is refused: set the object that made it aside and commit the rest.
    Quarantine {
        /// Number of the refused line in the input, counted from 1.
        line: usize,
    },
    /// Nothing is wrong with the plan; try again later.
    Backoff,
    /// Trying again cannot help until an operator changes the node.
    Stop,
}
