//! nftables mode: a ruleset whose number of chains and rules does not depend on the number of Services.
//!
//! In: a [`Book`](crate::book::Book) and a [`Config`]. Out: ordered [`ops::Op`]s, and the whole ruleset as values for the
//! tracer, golden tests and the comparison with what the kernel holds.
//!
//! Per frontend there is one element in a verdict map and one element per endpoint in a map of slots; chains exist per
//! *shape* (`pick-3`, `pick-3-masq`…) and are shared by all frontends of that shape. Replacing, adding or removing an
//! endpoint alters at most five elements per frontend. Only sticky Services have chains and sets of their own.
//!
//! [`Planner::partial`] plans changes; [`Planner::adopt`], [`Planner::repair`] and [`Planner::everything`] start from what
//! the kernel holds. Names of Services never get into the ruleset: where one is needed, it is hashed.
//!
//! | module | decides |
//! |---|---|
//! | [`names`] | names of table, sets and chains |
//! | [`rule`] | one rule and its text |
//! | [`element`] | keys and values of sets and maps |
//! | [`base`] | what does not depend on Services |
//! | [`shape`] | the chains that frontends share |
//! | [`slots`] | which endpoint has which slot |
//! | [`room`] | how large the sets are |
//! | [`sticky`] | chains and sets of Services with affinity |
//! | [`port`] | everything that one service port needs |
//! | [`planner`], [`ops`] | what to write |
//! | [`trace`] | where a packet goes by the ruleset |

pub mod base;
pub mod element;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod golden;
pub mod names;
pub mod ops;
pub mod planner;
pub mod port;
pub mod room;
pub mod rule;
pub mod shape;
pub(crate) mod shared;
pub mod slots;
pub mod sticky;
mod text;
pub mod trace;

pub use planner::Planner;

use ipnet::IpNet;

/// What this mode alone needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The packet mark that asks for masquerading; one bit.
    pub mark: u32,
    /// Ranges from which cluster IPs are given out: traffic to one that no Service has is dropped.
    pub service_cidrs: Vec<IpNet>,
    /// Only if endpoints are listeners of this node: the priority by which packets of the relay behind them are known.
    pub relay: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Self { mark: 1 << 14, service_cidrs: Vec::new(), relay: None }
    }
}
