//! Elements that several service ports may need, and how often each is needed.
//!
//! In: what a service port needed before and needs now. Out: the changes of elements. One that another service port needs too is added once
//! and deleted with the last of them. nftables and ipvs mode have the same kind of sets, so both count here.

use std::collections::BTreeMap;

use switchyard_model::ServicePortName;

use super::element::{Data, Place};
use super::ops::{Change, Op};

/// Elements of one service port.
type Elements = BTreeMap<Place, Data>;

/// See the module. Only places of sets that service ports share are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared(BTreeMap<Place, usize>);

impl Shared {
    /// Counts an element that a service port needs. True if no other needs it yet.
    pub(crate) fn count(&mut self, place: Place) -> bool {
        if !place.set.is_shared_by_ports() {
            return true;
        }
        let count = self.0.entry(place).or_default();
        *count += 1;
        *count == 1
    }

    /// True if more than one service port needs the element.
    pub(crate) fn is_needed_twice(&self, place: &Place) -> bool {
        place.set.is_shared_by_ports() && self.0.get(place).is_some_and(|count| *count > 1)
    }

    /// Deletes what is not needed any more, or with other data.
    pub(crate) fn delete(
        &mut self,
        name: &ServicePortName,
        old: &Elements,
        new: &Elements,
        ops: &mut Vec<Op>,
    ) {
        for (place, data) in old {
            if new.get(place) == Some(data) {
                continue;
            }
            if place.set.is_shared_by_ports() {
                let left = self.0.get(place).copied().unwrap_or_default().saturating_sub(1);
                if left > 0 {
                    self.0.insert(*place, left);
                    continue;
                }
                self.0.remove(place);
            }
            ops.push(Op::of(name, Change::DeleteElement(*place)));
        }
    }

    /// Adds what is needed now, or with other data.
    pub(crate) fn add(&mut self, name: &ServicePortName, old: &Elements, new: &Elements, ops: &mut Vec<Op>) {
        for (place, data) in new {
            if old.get(place) == Some(data) {
                continue;
            }
            if place.set.is_shared_by_ports() {
                let count = self.0.entry(*place).or_default();
                *count += 1;
                if *count > 1 {
                    continue;
                }
            }
            ops.push(Op::of(name, Change::AddElement(*place, data.clone())));
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
