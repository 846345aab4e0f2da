//! Decides. Which endpoints a frontend may use ([`choice`]), what happens to a packet ([`route`]), which rules make
//! it so ([`iptables`], [`nft`], [`ipvs`]), which kernel flows are stale ([`stale`]), where a given packet goes ([`trace`])
//! and why ([`explain`]).
//!
//! Invariants
//! - Pure: no IO, async, clock, environment or logging. Everything a decision needs is an argument.
//! - Equal inputs give byte-equal plans: whatever is printed or compared is ordered by construction.
//! - Nothing here fails. A service port that cannot be served is left out by its owner, see [`book`].

pub mod book;
pub mod choice;
pub mod claims;
pub mod explain;
pub mod health;
pub mod iptables;
pub mod ipvs;
pub mod nft;
pub mod route;
pub mod settings;
pub mod stale;
pub mod trace;
pub mod userspace;

#[cfg(test)]
mod testing;
