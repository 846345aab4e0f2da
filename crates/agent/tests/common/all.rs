//! What the tests with real packets share, one set for all modes: variants of the proxy, ways to look at it and at the kernel, and two
//! stages: [`world`] for objects that change under traffic, [`proxy`] with [`stage`] for scenarios.

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses another part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends at the first surprise"
)]

#[macro_use]
pub(crate) mod variant;
pub(crate) mod api_server;
pub(crate) mod explained;
pub(crate) mod looking;
pub(crate) mod objects;
pub(crate) mod proxy;
pub(crate) mod relayed;
pub(crate) mod ruleset;
pub(crate) mod stage;
pub(crate) mod traffic;
pub(crate) mod world;
