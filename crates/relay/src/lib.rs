//! Relays: listeners, and the targets that their clients are connected to. Sockets only.
//!
//! In: where to listen, which targets may be used, how long a client stays with one. Out: bytes from clients to targets
//! and back, and [`Counts`].
//!
//! | module | does |
//! |---|---|
//! | [`relay`] | opens, changes and closes listeners |
//! | [`backends`] | which target a client gets |
//! | [`tcp`] | accepts, tries targets, copies both ways |
//! | [`udp`] | one flow per client |
//! | [`own`] | which targets are the relay itself |
//! | [`descriptors`] | how many files may be open |
//! | [`counts`] | what happened |
//!
//! Invariants
//! - A change of targets, or the end of a listener, never ends a TCP connection that runs. A UDP flow to a target that
//!   went away ends at once.
//! - Nothing here grows without bound: connections and flows are limited by file descriptors, flows and remembered
//!   clients of one listener also by number.
//! - Nobody wakes up while no byte moves: there is no timer but those of UDP flows, and one for the attempts to connect
//!   and the beginning of a connection.
//! - A connection that is idle holds no buffer.

mod backends;
mod counts;
mod descriptors;
mod generations;
mod own;
mod relay;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

pub use backends::Targets;
pub use counts::Counts;
pub use descriptors::{Limit, raise_limit};
pub use relay::{Config, Listen, ListenError, ListenerId, Origin, Relay, Transport};
pub use udp::{affordable_flows, local_ports};
