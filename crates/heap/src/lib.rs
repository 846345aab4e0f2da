//! Heap profiles: an allocator that remembers, for about one of every 512 KiB, who asked for it.
//!
//! In: what the program allocates and frees, once [`start`] was called. Out: [`profile`], the stacks that allocated, with
//! estimates of how much they allocated and how much of it is still in use.
//!
//! Invariants
//! - All memory comes from the system's allocator and goes back to it: [`Sampling`] only looks on, and [`grow_in_steps`] only sets it up.
//!   Before [`start`] it costs one load and one branch.
//! - Memory is bounded: so many stacks, so many samples in use; what is more is left out and counted in [`Profile::lost`].
//! - Recording never asks the recorder: what the recorder allocates itself is not sampled. It never unwinds into the
//!   program.
//! - This is the only crate with `unsafe` code, and [`allocator`] the only file: `GlobalAlloc` cannot be implemented
//!   without. See `docs/adr/0010-own-heap-profiles.md`.
//!
//! Why not the profiler of another allocator? Because every node would then run with that allocator, profile or not.

pub mod allocator;
mod filter;
mod interval;
mod named;
mod recorder;
mod symbols;

pub use allocator::{Sampling, grow_in_steps};
pub use named::{Named, named};
pub use recorder::{Amount, Profile, Stack, profile, start};
pub use symbols::{Function, functions};
