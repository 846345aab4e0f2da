//! What an API server wrote says the same in both forms, and no bytes are too strange.

use std::fmt::Debug;

use kube::core::ObjectList;
use proptest::prelude::*;

use super::*;
use crate::cluster::Watched;
use crate::convert::{self, Interner};
use crate::wire::{EndpointSlice, Node, Object, Refusal, Service, ServiceCidr};

/// The objects of a recorded list.
fn objects(list: &[u8]) -> Vec<&[u8]> {
    let list = enveloped(list).expect("an envelope");
    let fields = Fields::of(list).map(|field| field.expect("whole"));
    fields.filter(|(number, _)| *number == 2).filter_map(|(_, value)| value.bytes()).collect()
}

/// Compares what becomes of the objects of both lists, and says how much there was to compare.
fn compare<O: Object, T: Debug>(json: &str, protobuf: &[u8], convert: impl Fn(&O) -> T) -> usize {
    let json: ObjectList<Watched<O>> = serde_json::from_str(json).expect("a list");
    let want: Vec<_> = json.items.iter().map(|item| format!("{:#?}", convert(&item.object))).collect();
    let got: Vec<_> =
        objects(protobuf).iter().map(|object| format!("{:#?}", convert(&decode(object)))).collect();
    assert_eq!(got, want);
    let versions =
        |object: &O| object.metadata().as_ref().map(|meta| meta.resource_version.text().to_owned());
    let want: Vec<_> = json.items.iter().map(|item| versions(&item.object)).collect();
    let got: Vec<_> = objects(protobuf).iter().map(|object| versions(&decode(object))).collect();
    assert_eq!(got, want);
    assert!(got.iter().all(|version| version.as_ref().is_some_and(|version| !version.is_empty())));
    want.len()
}

macro_rules! recorded {
    ($name:literal) => {
        (
            include_str!(concat!("../../../testdata/lists/", $name, ".json")),
            include_bytes!(concat!("../../../testdata/lists/", $name, ".protobuf")).as_slice(),
        )
    };
}

#[test]
fn both_forms_say_the_same() {
    let (json, protobuf) = recorded!("services");
    let service = |wire: &Service| convert::service(wire, &mut Interner::default());
    assert_eq!(compare(json, protobuf, service), 4);
    let (json, protobuf) = recorded!("endpointslices");
    let slice = |wire: &EndpointSlice| convert::slice(wire, &mut Interner::default());
    assert_eq!(compare(json, protobuf, slice), 3);
    let (json, protobuf) = recorded!("nodes");
    let node = |wire: &Node| convert::node(wire, &mut Interner::default());
    assert_eq!(compare(json, protobuf, node), 1);
    let (json, protobuf) = recorded!("servicecidrs");
    assert_eq!(compare(json, protobuf, |wire: &ServiceCidr| convert::service_cidr(wire)), 1);
}

#[test]
fn a_refusal_is_read() {
    let refusal = include_bytes!("../../../testdata/lists/refusal.protobuf");
    let refusal: Refusal = decode(enveloped(refusal).expect("an envelope"));
    assert_eq!(refusal.message.text(), "field label not supported: nonsense");
}

#[test]
fn a_field_of_a_wrong_type_is_remembered() {
    // `spec` (2) as a number, then metadata (1) whose name (1) is no text.
    let service: Service = decode(&[2 << 3, 7, 1 << 3 | 2, 3, 1 << 3 | 2, 1, 0xff]);
    assert!(matches!(service.spec, Lax::Wrong(_)));
    assert!(matches!(service.metadata.as_ref().expect("there").name, Lax::Wrong(_)));
    // A message that says that it is longer than it is spoils only itself.
    let service: Service = decode(&[2 << 3 | 2, 2, 3 << 3 | 2, 100, 1 << 3 | 2, 0]);
    assert!(matches!((service.spec, service.metadata), (Lax::Wrong(_), Lax::Is(_))));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0_usize..3000, at in 0_usize..3000) {
        let _ = convert::service(&decode(&bytes), &mut Interner::default());
        let _ = convert::slice(&decode(&bytes), &mut Interner::default());
        // Damage to a good one goes deeper.
        let mut list = recorded!("services").1.to_vec();
        if let (Some(place), Some(byte)) = (list.get_mut(at), bytes.first()) {
            *place = *byte;
        }
        for object in enveloped(&list).into_iter().flat_map(Fields::of).map_while(Result::ok).filter_map(|field| field.1.bytes()) {
            let _ = convert::service(&decode(object.get(..cut).unwrap_or(object)), &mut Interner::default());
        }
    }
}
