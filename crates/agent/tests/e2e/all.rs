//! What the tests against a real control plane share: [`control_plane`] runs it, [`api`] changes its objects, [`bulk`] very many of them,
//! [`gateway`] leads to it from any lab.

#![allow(dead_code, reason = "each test program uses another part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

pub(crate) mod api;
pub(crate) mod bulk;
pub(crate) mod control_plane;
pub(crate) mod gateway;
pub(crate) mod programs;
