//! Kubernetes objects as they come over the wire, cut down to the fields that a proxy acts on.
//!
//! In: JSON or YAML through serde, or protobuf. Out: structs of [`Lax`] fields.
//!
//! Invariants
//! - Decoding a well-formed document cannot fail: a field of a wrong type is remembered as [`Lax::Wrong`], so that it
//!   becomes a complaint about one object instead of the end of a whole list.
//! - What is not named here (managedFields, other labels and annotations, …) is skipped while it is read.

mod lax;
mod object;
pub(crate) mod protobuf;

pub(crate) use lax::{Lax, List, Shape, Text};
pub(crate) use object::{
    Endpoint, EndpointSlice, Endpoints, ListMeta, Meta, Moment, Named, Node, NodeSpec, Object, PodEndpoints,
    PodSlice, Refusal, Service, ServiceCidr, ServiceHead, ServicePort, ServiceSpec, SlicePort, SubsetAddress,
    TargetRef,
};
