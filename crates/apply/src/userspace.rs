//! Userspace mode: listeners of this process stand between clients and endpoints.
//!
//! In: changes of service ports. Out: open listeners, and where the kernel lets us, rules that lead to them.
//!
//! | module | does |
//! |---|---|
//! | [`mode`] | drives it for one family |
//! | [`doors`] | which listeners are open |
//! | [`address`] | where they listen |

pub mod mode;

mod address;
mod doors;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use switchyard_model::ServicePortName;
use switchyard_plan::route::Frontend;
use switchyard_relay::Relay;

pub use address::listen_address;

/// The relay, which both families share. Only the thread that writes rules uses it.
pub type SharedRelay = Arc<Mutex<Relay>>;

/// A listener on a loopback address was opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The frontend can be dialled here.
    Opened(Way),
    /// It no longer can.
    Closed(Way),
}

/// A frontend and where it can be dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Whose.
    pub port: ServicePortName,
    /// What clients would dial if there were rules.
    pub frontend: Frontend,
    /// What they dial instead.
    pub at: SocketAddr,
}

/// Who wants to know.
pub type Announce = Arc<dyn Fn(News) + Send + Sync>;
