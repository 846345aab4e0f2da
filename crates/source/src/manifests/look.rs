//! One look through all files, for what the proxy itself does not keep.
//!
//! In: the path of the manifests, and somebody who takes what is found. Out: nothing stays. One file is in memory at a time. A file that cannot be
//! read is an error, never a file without objects.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use switchyard_model::ServiceName;

use super::content::{decode, default_namespace, each_object};
use super::{document, files};
use crate::SourceError;
use crate::convert::{clip, service_name};
use crate::lookup::{LookupError, Search};
use crate::selector::{Labels, Selector};
use crate::wire::{PodEndpoints, PodSlice, ServiceHead};

/// Takes objects.
pub(crate) trait Looker {
    /// Takes an object of this kind and API version.
    fn object(&mut self, kind: &str, api_version: &str, value: Value);
}

/// Shows every object of all files, in the order of the files.
pub(crate) fn look(path: &Path, max_file_bytes: u64, looker: &mut dyn Looker) -> Result<(), LookupError> {
    let unreadable = |source| SourceError::Manifests { path: path.to_owned(), source };
    for path in files::list(path).map_err(unreadable)? {
        let broken = |problem: String| LookupError::Manifest { path: path.clone(), problem: clip(&problem) };
        let text = files::read(&path, max_file_bytes).map_err(broken)?;
        let documents = document::read(&text);
        drop(text);
        if let Some(problem) = documents.broken.into_iter().next() {
            return Err(broken(problem));
        }
        for (_, value) in documents.values {
            each_object(value, &mut |kind, version, value| looker.object(kind, version, value));
        }
    }
    Ok(())
}

impl Looker for Search {
    fn object(&mut self, kind: &str, api_version: &str, value: Value) {
        match (kind, api_version) {
            ("EndpointSlice", "discovery.k8s.io/v1" | "") => {
                let mut slice: PodSlice = decode(value);
                default_namespace(&mut slice.metadata);
                self.slice(&slice);
            }
            ("Endpoints", "v1" | "") => {
                let mut endpoints: PodEndpoints = decode(value);
                default_namespace(&mut endpoints.metadata);
                self.endpoints(&endpoints);
            }
            _ => {}
        }
    }
}

/// The Services whose labels meet a selector.
pub(crate) struct Matching {
    selector: Selector,
    names: BTreeSet<ServiceName>,
}

impl Matching {
    /// None yet.
    pub(crate) fn new(selector: Selector) -> Self {
        Self { selector, names: BTreeSet::new() }
    }

    /// Their names.
    pub(crate) fn names(self) -> BTreeSet<ServiceName> {
        self.names
    }
}

impl Looker for Matching {
    fn object(&mut self, kind: &str, api_version: &str, value: Value) {
        if !matches!((kind, api_version), ("Service", "v1" | "")) {
            return;
        }
        let is_met = self.selector.matches(&labels(&value));
        let mut service: ServiceHead = decode(value);
        default_namespace(&mut service.metadata);
        let Some(name) = service_name(&service.metadata) else { return };
        // Of two objects with one name the later one is used.
        if is_met {
            self.names.insert(name);
        } else {
            self.names.remove(&name);
        }
    }
}

fn labels(value: &Value) -> Labels {
    let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}
