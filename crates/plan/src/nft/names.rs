//! Names of the objects that we own. All of them are in one table per family, which nobody else writes to.

use std::net::SocketAddr;

use sha2::{Digest, Sha256};
use switchyard_model::ServicePortName;

/// The table.
pub const TABLE: &str = "switchyard";

/// The table of ipvs mode.
pub const IPVS_TABLE: &str = "switchyard-ipvs";

/// Hexadecimal digits of a hash that tell sticky Services apart: 128 bits.
const HASH: usize = 32;

/// Named sets and maps that all Services share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// All cluster IPs.
    ClusterIps,
    /// address . protocol . port -> what to do.
    Frontends,
    /// protocol . port -> what to do, on this node's addresses.
    NodePorts,
    /// address . protocol . port . slot -> endpoint.
    Slots,
    /// protocol . port . slot -> endpoint.
    NodePortSlots,
    /// address . protocol . port -> reject or drop.
    Refusals,
    /// protocol . port -> reject or drop.
    NodePortRefusals,
    /// Frontends that only some sources may use.
    Restricted,
    /// address . protocol . port . source: who may.
    AllowedSources,
    /// endpoint . endpoint . protocol . port of local endpoints: packets that come back to where they came from. In userspace mode those of
    /// all listeners.
    Hairpins,
    /// Addresses of this node on which node ports answer; only where not all do.
    NodePortIps,
    /// ipvs mode: addresses that only Services have, and this node only for them.
    VirtualIps,
    /// ipvs mode: protocol . port that the node itself answers on, also at virtual addresses.
    HealthPorts,
}

impl Set {
    /// All of nftables mode, in the order in which they are made.
    pub const ALL: [Self; 11] = [
        Self::ClusterIps,
        Self::Frontends,
        Self::NodePorts,
        Self::Slots,
        Self::NodePortSlots,
        Self::Refusals,
        Self::NodePortRefusals,
        Self::Restricted,
        Self::AllowedSources,
        Self::Hairpins,
        Self::NodePortIps,
    ];

    /// All of ipvs mode, in the order in which they are made.
    pub const IPVS: [Self; 10] = [
        Self::VirtualIps,
        Self::Frontends,
        Self::NodePorts,
        Self::Refusals,
        Self::NodePortRefusals,
        Self::Restricted,
        Self::AllowedSources,
        Self::Hairpins,
        Self::NodePortIps,
        Self::HealthPorts,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIps => "cluster-ips",
            Self::Frontends => "frontends",
            Self::NodePorts => "nodeports",
            Self::Slots => "slots",
            Self::NodePortSlots => "nodeport-slots",
            Self::Refusals => "refusals",
            Self::NodePortRefusals => "nodeport-refusals",
            Self::Restricted => "restricted",
            Self::AllowedSources => "allowed-sources",
            Self::Hairpins => "hairpins",
            Self::NodePortIps => "nodeport-ips",
            Self::VirtualIps => "virtual-ips",
            Self::HealthPorts => "health-ports",
        }
    }
}

/// A name for something of a sticky service port.
pub fn sticky(kind: &str, name: &ServicePortName) -> String {
    format!("{kind}-{}", hash(name, ""))
}

/// A name for something of an endpoint of a sticky service port.
pub fn sticky_endpoint(kind: &str, name: &ServicePortName, endpoint: SocketAddr) -> String {
    format!("{kind}-{}", hash(name, &endpoint.to_string()))
}

/// Names come from users, so they are never part of a name here, and nobody can look for two that collide.
fn hash(name: &ServicePortName, what: &str) -> String {
    let parts = [&*name.service.namespace, &*name.service.name, &*name.port, name.protocol.as_str(), what];
    let mut digest = Sha256::new();
    for part in parts {
        // Lengths keep `a` + `bc` and `ab` + `c` apart.
        digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(part.as_bytes());
    }
    digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .chars()
        .take(HASH)
        .collect()
}
