//! A wire object in the form that `kube` asks for.

use std::borrow::Cow;

use kube::Resource;
use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::de::{Deserialize, Deserializer};

use crate::wire::{Lax, Object};

/// An object of a list or a watch. Decoding it fails only where the JSON itself is broken.
#[derive(Clone, Debug)]
pub(crate) struct Watched<O> {
    /// The object; one without any field if something else came in its place.
    pub(crate) object: O,
    meta: ObjectMeta,
}

impl<O: Object> Watched<O> {
    /// Where a watch may resume after this object.
    pub(super) fn resource_version(&self) -> &str {
        self.meta.resource_version.as_deref().unwrap_or_default()
    }
}

impl<'de, O: Object> Deserialize<'de> for Watched<O> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = match Lax::<O>::deserialize(deserializer)? {
            Lax::Is(object) => object,
            Lax::Absent | Lax::Wrong(_) => O::default(),
        };
        let version = object.metadata().as_ref().map(|m| m.resource_version.text().to_owned());
        let meta = ObjectMeta { resource_version: version, ..ObjectMeta::default() };
        Ok(Self { object, meta })
    }
}

impl<O: Object> Resource for Watched<O> {
    type DynamicType = ();
    // We list across all namespaces, so the scope does not matter.
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        O::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        O::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        O::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests {
    use kube::api::WatchEvent;

    use super::*;
    use crate::wire::Service;

    #[test]
    fn events_decode_in_any_order_and_of_any_shape() {
        for text in [
            r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"7","managedFields":[{}]},"spec":[{"a":1}]}}"#,
            r#"{"object":{"spec":3.5,"metadata":{"resourceVersion":"7"}},"type":"ADDED"}"#,
        ] {
            match serde_json::from_str::<WatchEvent<Watched<Service>>>(text).expect("decoded") {
                WatchEvent::Added(watched) => {
                    assert_eq!(watched.resource_version(), "7");
                    assert!(matches!(watched.object.spec, Lax::Wrong(_)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
