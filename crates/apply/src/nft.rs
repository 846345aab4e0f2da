//! nftables mode: writes a plan as one transaction over netlink, and reads back what the kernel holds.
//!
//! In: a plan in the planner's words. Out: a changed kernel, or an error that names the operation. No program is run.
//!
//! | module | does |
//! |---|---|
//! | [`sets`] | the shared sets and maps: their types, their elements as bytes and back |
//! | [`rules`] | rules as kernel expressions |
//! | [`encode`] | changes as operations of a batch |
//! | [`observe`] | reads our table |
//! | [`slots`] | reads large maps of slots |
//! | [`writer`] | sends transactions |
//! | [`mode`] | drives it for one family |
//! | [`probe`] | what the kernel must be able to do |
//! | [`diff`] | what differs from what should be there |

pub mod mode;
pub mod probe;

pub(crate) mod diff;
mod encode;
pub(crate) mod observe;
mod rules;
mod sets;
mod slots;
#[cfg(test)]
mod tests;
pub(crate) mod tries;
pub(crate) mod writer;

use switchyard_model::Family;
use switchyard_netlink::nftables::TableId;
use switchyard_plan::nft::names::{self, Set};

/// One of our tables: its name, and the sets that it always has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    table: &'static str,
    sets: &'static [Set],
}

impl Layout {
    /// The table of nftables mode.
    pub(crate) const NFTABLES: Self = Self { table: names::TABLE, sets: &Set::ALL };
    /// The table of ipvs mode.
    pub(crate) const IPVS: Self = Self { table: names::IPVS_TABLE, sets: &Set::IPVS };

    /// The table of a family.
    pub(crate) fn id(self, family: Family) -> TableId {
        TableId::new(wire(family), self.table)
    }
}

/// The family in the words of the netlink crate.
pub(crate) fn wire(family: Family) -> switchyard_netlink::Family {
    match family {
        Family::V4 => switchyard_netlink::Family::V4,
        Family::V6 => switchyard_netlink::Family::V6,
    }
}
