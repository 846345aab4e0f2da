//! The EndpointSlices of one Service.
//!
//! Nearly every Service has one slice or two, and there may be ten thousand Services: a sorted list without spare room
//! takes a tenth of the memory of a map, whose smallest node has room for eleven.

use std::sync::Arc;

use crate::EndpointSlice;

/// Slices in the order of their names, each name once. All are of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Slices(Vec<Arc<EndpointSlice>>);

impl Slices {
    /// True if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &EndpointSlice> + Clone {
        self.0.iter().map(|slice| &**slice)
    }

    /// Adds a slice, or replaces the one of its name.
    pub(crate) fn put(&mut self, slice: Arc<EndpointSlice>) {
        match self.position(&slice.name.name) {
            Ok(at) => {
                if let Some(old) = self.0.get_mut(at) {
                    *old = slice;
                }
            }
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, slice);
            }
        }
    }

    /// Takes a slice away, if it is there.
    pub(crate) fn remove(&mut self, name: &str) {
        if let Ok(at) = self.position(name) {
            self.0.remove(at);
            self.0.shrink_to_fit();
        }
    }

    /// Where the slice is, or where it would belong.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|slice| (*slice.name.name).cmp(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, ServiceName, SliceName};

    fn slice(name: &str, trigger: u64) -> EndpointSlice {
        EndpointSlice {
            name: SliceName::new("ns", name),
            service: ServiceName::new("ns", "web"),
            family: Family::V4,
            ports: vec![],
            endpoints: vec![],
            trigger: Some(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(trigger)),
        }
    }

    #[test]
    fn names_are_unique_and_in_order() {
        let mut slices = Slices::default();
        for (name, trigger) in [("b", 1), ("c", 2), ("a", 3), ("b", 4)] {
            slices.put(slice(name, trigger).into());
        }
        assert_eq!(slices.iter().map(|s| &*s.name.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(slices.iter().nth(1), Some(&slice("b", 4)));
        slices.remove("b");
        slices.remove("b");
        assert_eq!(slices.iter().map(|s| &*s.name.name).collect::<Vec<_>>(), ["a", "c"]);
        ["a", "c"].into_iter().for_each(|name| slices.remove(name));
        assert!(slices.is_empty());
    }
}
