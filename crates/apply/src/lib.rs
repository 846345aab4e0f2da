//! Writes what the planner decided into the kernel, and reads it back.
//!
//! In: text and small structs that a planner made. Out: a changed kernel, or an error that says which object, why
//! and what to do next ([`NextStep`]).
//!
//! Invariants
//! - Nothing here decides about a Service: what to write arrives as a plan.
//! - Nothing here logs; the caller handles the error and logs it once.
//! - Nothing that was not named by the caller is flushed or deleted.

pub mod diff;
pub mod flows;
pub mod iptables;
pub mod ipvs;
pub mod nft;
pub mod report;
pub mod sysctl;
pub mod userspace;

mod mode;
mod next_step;
mod printable;
mod unconfirmed;

pub use mode::Mode;
pub use next_step::NextStep;
