//! What the planner knows of this node and of the operator's wishes, for one IP family.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::Family;

/// How traffic of pods on this node is told from other traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalDetector {
    /// It cannot be told: no masquerade from outside, no short cut for pods.
    #[default]
    None,
    /// By source address.
    Cidr(IpNet),
    /// By the bridge it comes in on.
    Bridge(String),
    /// By the beginning of the name of the interface it comes in on.
    InterfacePrefix(String),
}

/// Which cluster-IP traffic gets this node's address as its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MasqueradeClusterIp {
    /// Traffic that does not come from local pods, if they can be told.
    #[default]
    FromOutside,
    /// All of it (`--masquerade-all`).
    All,
}

/// Which addresses of the node answer on node ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// Every local address.
    #[default]
    All,
    /// These addresses of the node.
    Only(Vec<IpAddr>),
}

/// Whether node ports answer on loopback addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopbackNodePorts {
    /// They do. IPv4 only, and only where a mode can.
    Served,
    /// They do not.
    #[default]
    Refused,
}

/// Facts and wishes that all modes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The family planned for.
    pub family: Family,
    /// The own node's name.
    pub node_name: Arc<str>,
    /// The own node's zone.
    pub zone: Option<Arc<str>>,
    /// The own node's address in this family.
    pub node_ip: IpAddr,
    /// How local pod traffic is told.
    pub detector: LocalDetector,
    /// Which cluster-IP traffic is masqueraded.
    pub masquerade: MasqueradeClusterIp,
    /// Who answers on node ports.
    pub node_ports: NodePortAddresses,
    /// Whether loopback addresses do.
    pub loopback_node_ports: LoopbackNodePorts,
}

impl Settings {
    /// True if node ports answer on this address, given that it is an address of this node.
    pub fn serves_node_ports_on(&self, local: IpAddr) -> bool {
        // The kernel never routes from ::1 to another host, whatever was asked for.
        let is_refused = local.is_ipv6() || self.loopback_node_ports == LoopbackNodePorts::Refused;
        if local.is_loopback() && is_refused {
            return false;
        }
        match &self.node_ports {
            NodePortAddresses::All => true,
            NodePortAddresses::Only(addresses) => addresses.contains(&local),
        }
    }
}
