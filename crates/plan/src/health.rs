//! Health-check node ports: what a load balancer is told of one Service on this node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use switchyard_model::{ServiceName, ServicePort};

/// The answer for one Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Port to listen on.
    pub port: u16,
    /// Number of distinct addresses of ready endpoints on this node, over all ports of the Service.
    pub local_endpoints: usize,
}

/// Every Service of one family that has a health-check port. `ports` are all service ports of that family.
pub fn health_checks<'a>(
    node_name: &str,
    ports: impl Iterator<Item = &'a Arc<ServicePort>>,
) -> BTreeMap<ServiceName, HealthCheck> {
    let mut found: BTreeMap<ServiceName, (u16, BTreeSet<IpAddr>)> = BTreeMap::new();
    for port in ports {
        let Some(number) = port.health_check_node_port else { continue };
        let (_, addresses) =
            found.entry(port.name.service.clone()).or_insert_with(|| (number, BTreeSet::new()));
        let here = port.endpoints.iter().filter(|e| e.is_ready() && e.is_on(node_name));
        addresses.extend(here.map(|e| e.address.ip()));
    }
    let check =
        |(port, addresses): (u16, BTreeSet<IpAddr>)| HealthCheck { port, local_endpoints: addresses.len() };
    found.into_iter().map(|(name, entry)| (name, check(entry))).collect()
}

#[cfg(test)]
mod tests;
