//! Services and EndpointSlices as a source hands them over: only the fields that a proxy acts on.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use ipnet::IpNet;

use crate::{Conditions, Family, Hints, Protocol, ServiceName, SliceName};

/// A Service's `spec.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceType {
    /// Reachable inside the cluster (and through external IPs).
    #[default]
    ClusterIp,
    /// Also on a port of every node.
    NodePort,
    /// Also on addresses of a load balancer.
    LoadBalancer,
    /// A DNS alias; never proxied.
    ExternalName,
}

/// `internalTrafficPolicy` or `externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrafficPolicy {
    /// Any endpoint of the cluster.
    #[default]
    Cluster,
    /// Endpoints on this node only.
    Local,
}

/// One entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name; may be empty.
    pub name: Arc<str>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port of the cluster IP, external IPs and load-balancer IPs.
    pub port: u16,
    /// Port on every node, if there is one.
    pub node_port: Option<u16>,
}

/// A Service. Lists may hold addresses of both families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Namespace and name.
    pub name: ServiceName,
    /// Seconds since 1970 of `metadata.creationTimestamp`, 0 if unknown. Decides who owns a contested frontend.
    pub created: i64,
    /// `spec.type`.
    pub kind: ServiceType,
    /// At most one cluster IP per family; empty for headless Services.
    pub cluster_ips: Vec<IpAddr>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress[].ip` whose ipMode is unset or `VIP`.
    pub load_balancer_ips: Vec<IpAddr>,
    /// `spec.loadBalancerSourceRanges`.
    pub source_ranges: Vec<IpNet>,
    /// Seconds of ClientIP affinity, if the Service has it.
    pub affinity: Option<u32>,
    /// `spec.internalTrafficPolicy`.
    pub internal_policy: TrafficPolicy,
    /// `spec.externalTrafficPolicy`.
    pub external_policy: TrafficPolicy,
    /// `spec.healthCheckNodePort`, if set.
    pub health_check_node_port: Option<u16>,
    /// `spec.ports`.
    pub ports: Vec<Port>,
}

/// One entry of an EndpointSlice's `ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// Name, matched with the Service port's name; may be empty.
    pub name: Arc<str>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port on the endpoint.
    pub port: u16,
}

/// One entry of an EndpointSlice's `endpoints`, first address only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// The address.
    pub address: IpAddr,
    /// Ready, serving, terminating.
    pub conditions: Conditions,
    /// `nodeName`.
    pub node: Option<Arc<str>>,
    /// `hints`.
    pub hints: Option<Arc<Hints>>,
}

/// An EndpointSlice of one address family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// Namespace and name.
    pub name: SliceName,
    /// The Service that the label `kubernetes.io/service-name` names.
    pub service: ServiceName,
    /// `addressType`.
    pub family: Family,
    /// `ports`.
    pub ports: Vec<SlicePort>,
    /// `endpoints`.
    pub endpoints: Vec<SliceEndpoint>,
    /// Annotation `endpoints.kubernetes.io/last-change-trigger-time`.
    pub trigger: Option<SystemTime>,
}
