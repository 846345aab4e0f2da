//! From one Service and its EndpointSlices to service ports.
//!
//! In: the objects. Out: one [`ServicePort`] per port and family; none if kube-proxy would skip the Service.
//!
//! Invariants
//! - Slices are read in the order of their names and endpoints come out in the order of their `ip:port` text, so
//!   equal objects give equal service ports whatever the order of events was.
//! - Of two endpoints with the same `ip:port` a terminating one never replaces another.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::address_text::AddressText;
use crate::slices::Slices;
use crate::{
    Endpoint, Family, Port, Service, ServicePort, ServicePortName, ServiceType, SliceEndpoint, TrafficPolicy,
};

/// All service ports of one Service, ordered by family, then as the Service lists them.
pub(crate) fn service_ports(service: &Service, slices: &Slices) -> Vec<ServicePort> {
    if service.kind == ServiceType::ExternalName {
        return Vec::new();
    }
    let mut ports: Vec<ServicePort> = Vec::new();
    for family in Family::ALL {
        let Some(cluster_ip) = service.cluster_ips.iter().copied().find(|ip| Family::of(*ip) == family)
        else {
            continue;
        };
        for port in &service.ports {
            let derived = service_port(service, port, cluster_ip, slices);
            // The API refuses two ports of one name and protocol; a file may still contain them. The first one stays.
            if !ports.iter().any(|p| p.family == family && p.name == derived.name) {
                ports.push(derived);
            }
        }
    }
    ports
}

fn service_port(service: &Service, port: &Port, cluster_ip: IpAddr, slices: &Slices) -> ServicePort {
    let family = Family::of(cluster_ip);
    let external_policy =
        if has_external_traffic(service) { service.external_policy } else { TrafficPolicy::Cluster };
    let health_check_node_port = service
        .health_check_node_port
        .filter(|_| service.kind == ServiceType::LoadBalancer && external_policy == TrafficPolicy::Local);
    ServicePort {
        name: ServicePortName {
            service: service.name.clone(),
            port: port.name.clone(),
            protocol: port.protocol,
        },
        family,
        created: service.created,
        cluster_ip,
        port: port.port,
        node_port: port.node_port,
        external_ips: of_family(&service.external_ips, family),
        load_balancer_ips: of_family(&service.load_balancer_ips, family),
        source_ranges: source_ranges(&service.source_ranges, family),
        affinity: service.affinity,
        internal_policy: service.internal_policy,
        external_policy,
        health_check_node_port,
        endpoints: endpoints(port, family, slices),
    }
}

/// `externalTrafficPolicy` means something only for Services that outside clients can reach.
fn has_external_traffic(service: &Service) -> bool {
    match service.kind {
        ServiceType::LoadBalancer | ServiceType::NodePort => true,
        ServiceType::ClusterIp => !service.external_ips.is_empty(),
        ServiceType::ExternalName => false,
    }
}

/// Addresses of one family, each once, in the order given.
fn of_family(addresses: &[IpAddr], family: Family) -> Vec<IpAddr> {
    let mut kept = Vec::new();
    for ip in addresses.iter().filter(|ip| Family::of(**ip) == family) {
        if !kept.contains(ip) {
            kept.push(*ip);
        }
    }
    kept
}

/// Ranges of one family; a range of everything, or no range of this family, means that everybody is allowed.
fn source_ranges(ranges: &[IpNet], family: Family) -> Vec<IpNet> {
    let kept: Vec<IpNet> =
        ranges.iter().map(IpNet::trunc).filter(|r| Family::of(r.addr()) == family).collect();
    if kept.iter().any(|r| r.prefix_len() == 0) { Vec::new() } else { kept }
}

fn endpoints(port: &Port, family: Family, slices: &Slices) -> Vec<Endpoint> {
    let targets = slices.iter().filter(|slice| slice.family == family).flat_map(|slice| {
        let targets = slice.ports.iter().filter(|p| p.name == port.name && p.protocol == port.protocol);
        targets.map(move |target| (slice, target.port))
    });
    let mut found = Vec::with_capacity(targets.clone().map(|(slice, _)| slice.endpoints.len()).sum());
    for (slice, port) in targets {
        found.extend(slice.endpoints.iter().map(|at| endpoint(at, port)));
    }
    if found.len() > 1 {
        // Equal ones stay in the order in which they came.
        found.sort_by_cached_key(|endpoint: &Endpoint| AddressText::of(endpoint.address));
        found.dedup_by(|later, kept| {
            let is_same = later.address == kept.address;
            if is_same && !later.conditions.terminating {
                std::mem::swap(later, kept);
            }
            is_same
        });
        found.shrink_to_fit(); // It is kept for as long as its service port.
    }
    found
}

fn endpoint(found: &SliceEndpoint, port: u16) -> Endpoint {
    Endpoint {
        address: SocketAddr::new(found.address, port),
        conditions: found.conditions,
        node: found.node.clone(),
        hints: found.hints.clone(),
    }
}
