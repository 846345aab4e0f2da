//! The objects of a scenario, by symbol, and as model values.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::{
    Conditions, EndpointSlice, Family, Hints, Port, Protocol, Service, ServiceName, ServiceType,
    SliceEndpoint, SliceName, SlicePort, TrafficPolicy,
};

use super::address::Symbol;

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Name; may be empty.
    pub name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Port.
    pub port: u16,
    /// Node port.
    pub node_port: Option<u16>,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Name in namespace `default`, or `namespace/name`.
    pub name: ServiceName,
    /// Seconds since 1970.
    pub created: i64,
    /// Cluster IP.
    pub cluster_ip: Symbol,
    /// Ports.
    pub ports: Vec<PortSpec>,
    /// External IPs.
    pub external_ips: Vec<Symbol>,
    /// Load-balancer IPs; they make the Service one of type LoadBalancer.
    pub load_balancer_ips: Vec<Symbol>,
    /// Source ranges: one address each.
    pub source_ranges: Vec<Symbol>,
    /// Seconds of ClientIP affinity.
    pub affinity: Option<u32>,
    /// Internal traffic policy.
    pub internal_policy: TrafficPolicy,
    /// External traffic policy.
    pub external_policy: TrafficPolicy,
    /// Health-check node port.
    pub health_check_node_port: Option<u16>,
}

impl ServiceSpec {
    /// The type that its frontends need.
    pub fn kind(&self) -> ServiceType {
        if !self.load_balancer_ips.is_empty() {
            ServiceType::LoadBalancer
        } else if self.ports.iter().any(|p| p.node_port.is_some()) {
            ServiceType::NodePort
        } else {
            ServiceType::ClusterIp
        }
    }
}

/// One endpoint of a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSpec {
    /// The pod.
    pub pod: Symbol,
    /// Its port.
    pub port: u16,
    /// Name of the Service's port.
    pub port_name: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Ready, serving, terminating.
    pub conditions: Conditions,
    /// Zones it is hinted for.
    pub zones: Vec<String>,
    /// Nodes it is hinted for.
    pub nodes: Vec<String>,
    /// Which EndpointSlice it is in.
    pub slice: u32,
}

/// All objects at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Services by name.
    pub services: BTreeMap<ServiceName, ServiceSpec>,
    /// Endpoints by Service.
    pub endpoints: BTreeMap<ServiceName, Vec<EndpointSpec>>,
    /// Ranges from which cluster IPs are given out.
    pub service_cidrs: Vec<IpNet>,
    /// Zone of node n1.
    pub zone: Option<String>,
}

impl Objects {
    /// All endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = &EndpointSpec> {
        self.endpoints.values().flatten()
    }

    /// The Services as model values, with addresses of the given families.
    pub fn model_services(&self, families: &[Family]) -> Vec<Arc<Service>> {
        self.services.values().map(|spec| model_service(spec, families).into()).collect()
    }

    /// The EndpointSlices as model values: one per Service, port, slice number and family.
    pub fn model_slices(&self, families: &[Family]) -> Vec<Arc<EndpointSlice>> {
        let mut slices: BTreeMap<SliceName, EndpointSlice> = BTreeMap::new();
        for (service, endpoints) in &self.endpoints {
            for endpoint in endpoints {
                for family in families {
                    add_to_slice(&mut slices, service, endpoint, *family);
                }
            }
        }
        slices.into_values().map(Arc::new).collect()
    }
}

fn model_service(spec: &ServiceSpec, families: &[Family]) -> Service {
    let both = |symbols: &[Symbol]| {
        symbols.iter().flat_map(|s| families.iter().filter_map(|f| s.ip(*f))).collect::<Vec<_>>()
    };
    let port = |p: &PortSpec| Port {
        name: p.name.as_str().into(),
        protocol: p.protocol,
        port: p.port,
        node_port: p.node_port,
    };
    Service {
        name: spec.name.clone(),
        created: spec.created,
        kind: spec.kind(),
        cluster_ips: both(&[spec.cluster_ip]),
        external_ips: both(&spec.external_ips),
        load_balancer_ips: both(&spec.load_balancer_ips),
        source_ranges: both(&spec.source_ranges).into_iter().map(IpNet::from).collect(),
        affinity: spec.affinity,
        internal_policy: spec.internal_policy,
        external_policy: spec.external_policy,
        health_check_node_port: spec.health_check_node_port,
        ports: spec.ports.iter().map(port).collect(),
    }
}

fn add_to_slice(
    slices: &mut BTreeMap<SliceName, EndpointSlice>,
    service: &ServiceName,
    endpoint: &EndpointSpec,
    family: Family,
) {
    let Some(address) = endpoint.pod.ip(family) else { return };
    let kind = family.as_str().to_lowercase();
    let EndpointSpec { port, protocol, port_name, slice, .. } = endpoint;
    let name = format!("{}-{kind}-{port_name}-{protocol}-{port}-{slice}", service.name).replace("--", "-");
    let name = SliceName::new(&service.namespace, &name);
    let slice = slices.entry(name.clone()).or_insert_with(|| EndpointSlice {
        name,
        service: service.clone(),
        family,
        ports: vec![SlicePort { name: port_name.as_str().into(), protocol: *protocol, port: *port }],
        endpoints: Vec::new(),
        trigger: None,
    });
    let hints = Hints {
        zones: endpoint.zones.iter().map(|z| z.as_str().into()).collect(),
        nodes: endpoint.nodes.iter().map(|n| n.as_str().into()).collect(),
    };
    let has_hints = !hints.zones.is_empty() || !hints.nodes.is_empty();
    slice.endpoints.push(SliceEndpoint {
        address,
        conditions: endpoint.conditions,
        node: match endpoint.pod {
            Symbol::Pod(n, _) => Some(format!("n{n}").into()),
            _ => None,
        },
        hints: has_hints.then(|| hints.into()),
    });
}
