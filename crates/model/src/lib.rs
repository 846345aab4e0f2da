//! The values that the whole of Switchyard speaks about.
//!
//! In: [`Event`]s, each one object that a source has already decoded. Out: a [`Snapshot`] of service ports with
//! their endpoints, and the [`Changes`] since the last one that was taken.
//!
//! Invariants
//! - No IO, no async, no clock, no Kubernetes types: a value here means the same in a test, a file and a cluster.
//! - Equal objects in any order of events give an equal snapshot.
//! - An event that alters nothing a proxy would act on is not a change.

mod address;
mod address_text;
mod changes;
mod derive;
mod event;
mod name;
mod node;
mod object;
mod port;
mod slices;
mod tracker;
mod unseen;

pub use address::{Family, Protocol};
pub use changes::{Changes, Pending, PortKey, Snapshot};
pub use event::{Complaint, Event, ObjectName};
pub use name::{ServiceName, ServicePortName, SliceName};
pub use node::Node;
pub use object::{EndpointSlice, Port, Service, ServiceType, SliceEndpoint, SlicePort, TrafficPolicy};
pub use port::{Conditions, Endpoint, Hints, ServicePort};
pub use tracker::Tracker;
pub use unseen::{Printable, is_unseen};
