//! What the proxy needs to know of the node it runs on.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// The own Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Node name.
    pub name: Arc<str>,
    /// All InternalIP addresses in order, then all ExternalIP addresses.
    pub addresses: Vec<IpAddr>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<IpNet>,
    /// Has a deletionTimestamp.
    pub is_being_deleted: bool,
    /// Carries the taint `ToBeDeletedByClusterAutoscaler`.
    pub is_to_be_deleted: bool,
}

impl Node {
    /// True if load balancers may send new connections here.
    pub fn is_eligible(&self) -> bool {
        !self.is_being_deleted && !self.is_to_be_deleted
    }
}
