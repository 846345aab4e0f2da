//! ipvs mode: virtual servers over generic netlink, their addresses on a link of our own, and one nftables table.
//!
//! In: a plan in the planner's words. Out: a changed kernel, or an error that names the step. No program is run.
//!
//! | module | does |
//! |---|---|
//! | [`probe`] | what the kernel must have: IPVS, the scheduler, dummy links |
//! | [`sysctls`] | the settings that this mode needs |
//! | [`kernel`] | reads and writes virtual servers and addresses |
//! | [`retired`] | destinations that wait for their last connection to end |
//! | [`mode`] | drives it for one family |
//! | [`diff`] | what differs from what should be there |
//! | [`leftovers`] | removes what this mode, ours or kube-proxy's, left |

mod diff;
mod kernel;
pub mod leftovers;
pub mod mode;
pub mod probe;
mod retired;
pub mod sysctls;
#[cfg(test)]
mod tests;

pub use leftovers::{LeftoverError, Removed, find_leftovers, remove_leftovers};

/// The interface that carries every virtual address.
pub const LINK: &str = "kube-ipvs0";
