//! Chain names: fixed ones, and kube-proxy's hashed ones.
//!
//! A hashed name is a prefix and the first 16 characters of the base32 of a SHA-256. Other programs, and a kube-proxy
//! that takes over, find chains by these names, so they must match to the letter.

use std::net::SocketAddr;

use sha2::{Digest, Sha256};
use switchyard_model::ServicePortName;

/// Dispatch by virtual address (nat), rejects and drops for cluster IPs (filter).
pub const SERVICES: &str = "KUBE-SERVICES";
/// Rejects and drops for everything but cluster IPs.
pub const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
/// Dispatch by node port (nat), accepted health-check ports (filter).
pub const NODEPORTS: &str = "KUBE-NODEPORTS";
/// Masquerades marked packets.
pub const POSTROUTING: &str = "KUBE-POSTROUTING";
/// Sets the mark.
pub const MARK_MASQ: &str = "KUBE-MARK-MASQ";
/// INVALID drop, marked accept, established accept.
pub const FORWARD: &str = "KUBE-FORWARD";
/// Drops load-balancer traffic that no source range let through.
pub const PROXY_FIREWALL: &str = "KUBE-PROXY-FIREWALL";
/// Shared with kubelet: protection of loopback addresses.
pub const FIREWALL: &str = "KUBE-FIREWALL";
/// Empty chain whose loss shows that somebody flushed the table.
pub const CANARY: &str = "KUBE-PROXY-CANARY";

/// How the names of chains that belong to one service port begin. Each kind jumps only to kinds after it.
pub const SERVICE_PREFIXES: [&str; 5] = ["KUBE-FW-", "KUBE-EXT-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-"];

/// True if a chain belongs to some service port, ours or one of an earlier run.
pub fn is_service_chain(chain: &str) -> bool {
    SERVICE_PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// Where a chain stands among those of service ports: in this order each can be deleted on its own, because whatever
/// jumps to it went before.
pub fn deletion_order(chain: &str) -> Option<usize> {
    SERVICE_PREFIXES.iter().position(|prefix| chain.starts_with(prefix))
}

/// The chains of one service port. Hashes once for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChains {
    hash: String,
}

impl ServiceChains {
    /// Names for a service port.
    pub fn new(name: &ServicePortName) -> Self {
        Self { hash: hash(&format!("{name}{}", name.protocol)) }
    }

    /// Cluster-policy balancing.
    pub fn cluster(&self) -> String {
        format!("KUBE-SVC-{}", self.hash)
    }

    /// Local-policy balancing.
    pub fn local(&self) -> String {
        format!("KUBE-SVL-{}", self.hash)
    }

    /// Entry of external traffic.
    pub fn external(&self) -> String {
        format!("KUBE-EXT-{}", self.hash)
    }

    /// Source ranges.
    pub fn firewall(&self) -> String {
        format!("KUBE-FW-{}", self.hash)
    }
}

/// The chain of one endpoint of a service port.
pub fn endpoint(name: &ServicePortName, endpoint: SocketAddr) -> String {
    format!("KUBE-SEP-{}", hash(&format!("{name}{}{endpoint}", name.protocol)))
}

fn hash(text: &str) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let digest = Sha256::digest(text.as_bytes());
    // Sixteen characters of five bits are the first ten bytes.
    let mut bits = digest.iter().take(10).fold(0u128, |bits, byte| (bits << 8) | u128::from(*byte));
    bits <<= 128 - 80;
    let mut name = String::with_capacity(16);
    for _ in 0..16 {
        let index = usize::try_from(bits >> 123).unwrap_or_default();
        name.push(char::from(ALPHABET.get(index).copied().unwrap_or(b'A')));
        bits <<= 5;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchyard_model::{Protocol, ServiceName};

    fn name(service: &str, port: &str) -> ServicePortName {
        let (namespace, name) = service.split_once('/').unwrap();
        ServicePortName {
            service: ServiceName::new(namespace, name),
            port: port.into(),
            protocol: Protocol::Tcp,
        }
    }

    /// Values that kube-proxy itself computes for these names.
    #[test]
    fn names_are_kube_proxys() {
        assert_eq!(ServiceChains::new(&name("ns1/svc1", "p80")).cluster(), "KUBE-SVC-XPGD46QRK7WJZT7O");
        assert_eq!(ServiceChains::new(&name("ns5/svc5", "p80")).firewall(), "KUBE-FW-NUKIZ6OKUXPJNT4C");
        assert_eq!(ServiceChains::new(&name("ns1/svc1", "")).external(), "KUBE-EXT-AQI2S6QIMU7PVVRP");
        let v4 = endpoint(&name("ns1/svc1", "p80"), "10.180.0.1:80".parse().unwrap());
        assert_eq!(v4, "KUBE-SEP-SXIVWICOYRO3J4NJ");
        let v6 = endpoint(&name("ns1/svc1", "p80"), "[fd00::1]:80".parse().unwrap());
        assert_eq!(v6, "KUBE-SEP-T5UNFIPVCZXM3U7X");
    }

    #[test]
    fn only_service_chains_are_ours_to_delete() {
        assert!(is_service_chain("KUBE-SVL-XPGD46QRK7WJZT7O"));
        assert!(!is_service_chain("KUBE-SERVICES") && !is_service_chain("CNI-KUBE-SVC-"));
    }
}
