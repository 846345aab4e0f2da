//! Snapshots of all service ports, and what changed between two of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use ipnet::IpNet;

use crate::{Family, Node, ServiceName, ServicePort, ServicePortName};

/// Trigger times kept per Service while a commit is outstanding. The newest ones are dropped beyond this, so a
/// kernel that is stuck for hours cannot grow the process.
const MAX_TRIGGERS_PER_SERVICE: usize = 64;

/// Identity of a service port. Orders by family first, so that one family is one range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// The family.
    pub family: Family,
    /// Service, port name and protocol.
    pub name: ServicePortName,
}

impl From<&ServicePort> for PortKey {
    fn from(port: &ServicePort) -> Self {
        Self { family: port.family, name: port.name.clone() }
    }
}

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All service ports of both families.
    pub ports: BTreeMap<PortKey, Arc<ServicePort>>,
    /// The own node.
    pub node: Arc<Node>,
    /// All ServiceCIDRs.
    pub service_cidrs: Arc<[IpNet]>,
}

/// What changed since the last time somebody asked. Later changes replace earlier ones of the same service port, so
/// its size is bounded by the cluster, not by the number of events.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// New value of each service port that changed, or `None` if it is gone.
    pub ports: BTreeMap<PortKey, Option<Arc<ServicePort>>>,
    /// The own node, if it changed.
    pub node: Option<Arc<Node>>,
    /// All ServiceCIDRs, if they changed.
    pub service_cidrs: Option<Arc<[IpNet]>>,
    /// When the cause of each endpoint change happened, as the control plane says, per Service and family.
    pub triggers: BTreeMap<ServiceName, Vec<(Family, SystemTime)>>,
    /// Number of Service events, those without effect included.
    pub service_events: u64,
    /// Number of EndpointSlice events, those without effect included.
    pub slice_events: u64,
    /// Events that changed something.
    pub pending: Pending,
}

/// Events that changed something since the last time somebody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Of Services.
    pub services: usize,
    /// Of EndpointSlices.
    pub slices: usize,
}

impl Changes {
    /// True if there is nothing to act on.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.node.is_none() && self.service_cidrs.is_none()
    }

    pub(crate) fn add_trigger(&mut self, service: &ServiceName, family: Family, at: SystemTime) {
        let times = self.triggers.entry(service.clone()).or_default();
        if times.len() < MAX_TRIGGERS_PER_SERVICE {
            times.push((family, at));
        }
    }
}
