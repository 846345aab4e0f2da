//! kube-proxy's own iptables chains and rules, from the book of one family.
//!
//! In: a [`Book`](crate::book::Book) and a [`Config`]. Out: restore input, whole or only what changed, and the same
//! rules as values for the tracer.
//!
//! Names, comments and the order of arguments are kube-proxy's, to the letter: people and programs read these chains.
//!
//! | module | decides |
//! |---|---|
//! | [`names`] | chain names |
//! | [`rule`] | one rule and its text |
//! | [`base`] | what does not depend on Services: jumps, static rules, top-level chains |
//! | [`dispatch`] | the rules of one service port in the top-level chains |
//! | [`chains`] | the chains of one service port |
//! | [`planner`] | what to write for a full and for a partial sync |
//! | [`restore`] | restore input and who owns which line of it |
//! | [`trace`] | where a packet goes by these rules |

pub mod base;
pub mod chains;
pub mod dispatch;
pub mod names;
pub mod planner;
pub mod restore;
pub mod rule;
pub mod trace;

#[cfg(test)]
mod golden;

pub use planner::{Batch, Planner, RuleCounts};

/// Whether a kernel packet counter can be used in rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counter {
    /// It exists.
    Present,
    /// It does not.
    #[default]
    Absent,
}

/// Whether packets that connection tracking calls INVALID are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidPackets {
    /// They are.
    #[default]
    Dropped,
    /// They are not, because the node's connection tracking is set to be liberal.
    Kept,
}

/// What this mode alone needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The packet mark that asks for masquerading; one bit.
    pub mark: u32,
    /// How source ports are chosen when masquerading; old versions of iptables cannot randomise them fully.
    pub random_fully: bool,
    /// What happens to INVALID packets.
    pub invalid: InvalidPackets,
    /// Counter of dropped INVALID packets.
    pub invalid_counter: Counter,
    /// Counter of packets to node ports on loopback addresses.
    pub loopback_counter: Counter,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mark: 1 << 14,
            random_fully: true,
            invalid: InvalidPackets::Dropped,
            invalid_counter: Counter::Absent,
            loopback_counter: Counter::Absent,
        }
    }
}
