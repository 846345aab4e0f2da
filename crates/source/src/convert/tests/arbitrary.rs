//! Whatever JSON comes, conversions neither fail nor panic, and names that get through are valid.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::convert::{Interner, endpoints, node, service, service_cidr, slice, text};
use crate::wire::{self, Lax};

/// Field names of real objects.
const KEYS: [&str; 34] = [
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "spec",
    "status",
    "ports",
    "port",
    "protocol",
    "nodePort",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "endpoints",
    "addresses",
    "conditions",
    "hints",
    "forZones",
    "nodeName",
    "subsets",
    "ip",
    "type",
    "loadBalancer",
    "ingress",
    "sessionAffinity",
    "sessionAffinityConfig",
    "kubernetes.io/service-name",
    "addressType",
    "cidrs",
    "taints",
    "podCIDRs",
    "creationTimestamp",
    "other",
];

/// Values of real objects, and some that are nearly so.
const WORDS: [&str; 11] = [
    "IPv4",
    "IPv6",
    "None",
    "ClientIP",
    "10.0.0.1",
    "fd00::/8",
    "web",
    "a\n",
    "-",
    "9999-12-31T23:59:59Z",
    "",
];

/// Arbitrary JSON that often uses the field names of real objects.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 120, 8, |inner| {
        let entries = prop::collection::vec((prop::sample::select(&KEYS[..]), inner.clone()), 0..10);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            entries.prop_map(|e| Value::Object(e.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_can_panic_a_conversion(mut value in arbitrary_json(), is_named in any::<bool>()) {
        if is_named && let Value::Object(map) = &mut value {
            let labels = json!({"kubernetes.io/service-name": "web"});
            map.insert("metadata".into(), json!({"namespace": "ns", "name": "web", "labels": labels}));
        }
        let text = value.to_string();
        let mut interner = Interner::default();
        let lax = serde_json::from_str::<Lax<wire::Service>>(&text).expect("decoding cannot fail");
        if let Some(service) = lax.as_ref().and_then(|wire| service(wire, &mut interner).value) {
            prop_assert!(text::is_dns_label(&service.name.name));
        }
        let lax = serde_json::from_str::<Lax<wire::EndpointSlice>>(&text).expect("decoding cannot fail");
        lax.as_ref().map(|wire| slice(wire, &mut interner));
        let lax = serde_json::from_str::<Lax<wire::Endpoints>>(&text).expect("decoding cannot fail");
        lax.as_ref().map(|wire| endpoints(wire, &mut interner));
        let lax = serde_json::from_str::<Lax<wire::Node>>(&text).expect("decoding cannot fail");
        lax.as_ref().map(|wire| node(wire, &mut interner));
        let lax = serde_json::from_str::<Lax<wire::ServiceCidr>>(&text).expect("decoding cannot fail");
        lax.as_ref().map(service_cidr);
    }
}
