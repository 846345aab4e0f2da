//! Pods of one name among slices.
//!
//! In: slices, in any order. Out: the addresses of each pod of the name. A pod in slices of several Services is one pod.

use super::Pods;
use crate::convert::address;
use crate::wire::{Lax, List, Meta, PodEndpoints, PodSlice, TargetRef};

/// Pods, and addresses of a pod, beyond which no more are noted: nobody would read a longer list.
const MOST: usize = 64;

/// See the module.
pub(crate) struct Search {
    namespace: Option<String>,
    name: String,
    found: Pods,
}

impl Search {
    /// Nothing is found yet.
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.map(str::to_owned), name: name.to_owned(), found: Pods::new() }
    }

    /// Looks at a slice.
    pub(crate) fn slice(&mut self, slice: &PodSlice) {
        let namespace = namespace(&slice.metadata);
        for endpoint in slice.endpoints.as_ref().into_iter().flatten().filter_map(Lax::as_ref) {
            // As for the proxy itself, the first address is the endpoint's.
            let first = endpoint.addresses.as_ref().and_then(|list| list.first()).map_or("", Lax::text);
            self.take(namespace, &endpoint.target_ref, first);
        }
    }

    /// Looks at an Endpoints object.
    pub(crate) fn endpoints(&mut self, endpoints: &PodEndpoints) {
        let namespace = namespace(&endpoints.metadata);
        for subset in present(&endpoints.subsets) {
            for address in present(&subset.addresses).chain(present(&subset.not_ready_addresses)) {
                self.take(namespace, &address.target_ref, address.ip.text());
            }
        }
    }

    fn take(&mut self, namespace: &str, target: &Lax<TargetRef>, text: &str) {
        let Some(target) = target.as_ref() else { return };
        let is_own = matches!(target.namespace.text(), "") || target.namespace.text() == namespace;
        let is_wanted = self.namespace.as_deref().is_none_or(|wanted| wanted == namespace);
        if target.kind.text() != "Pod" || target.name.text() != self.name || !is_own || !is_wanted {
            return;
        }
        let Some(address) = address(text) else { return };
        if self.found.len() < MOST || self.found.contains_key(namespace) {
            let addresses = self.found.entry(namespace.to_owned()).or_default();
            if addresses.len() < MOST {
                addresses.insert(address);
            }
        }
    }

    /// All that was found.
    pub(crate) fn found(self) -> Pods {
        self.found
    }
}

fn namespace(meta: &Lax<Meta>) -> &str {
    meta.as_ref().map_or("", |meta| meta.namespace.text())
}

fn present<T>(list: &Lax<List<T>>) -> impl Iterator<Item = &T> {
    list.as_ref().into_iter().flatten().filter_map(Lax::as_ref)
}
