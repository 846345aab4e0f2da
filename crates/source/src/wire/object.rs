//! The objects themselves. Field names are those of the Kubernetes API in camel case.

use std::fmt::Debug;

use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;

use super::lax::{Lax, List, Shape};

/// An object that is listed and watched by itself.
pub(crate) trait Object: Shape + Clone + Debug + Default + Send + 'static {
    /// API group; empty for the core group.
    const GROUP: &'static str;
    /// `kind`.
    const KIND: &'static str;
    /// Last part of the URL path.
    const PLURAL: &'static str;

    /// `metadata`.
    fn metadata(&self) -> &Lax<Meta>;
}

/// Declares structs of the API: every field is lax, missing fields are absent, unknown ones are skipped.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_attribute:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub(crate) struct $name {
            $($(#[$field_attribute])* pub(crate) $field: Lax<$type>,)*
        }

        impl Shape for $name {
            const WANTED: &'static str = "an object";

            fn of_record<'de, A: MapAccess<'de>>(record: A) -> Result<Option<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(record)).map(Some)
            }
        }
    )*};
}

macro_rules! objects {
    ($($name:ident $kind:literal = $group:literal / $plural:literal;)*) => {$(
        impl Object for $name {
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;

            fn metadata(&self) -> &Lax<Meta> {
                &self.metadata
            }
        }
    )*};
}

objects! {
    Service "Service" = "" / "services";
    EndpointSlice "EndpointSlice" = "discovery.k8s.io" / "endpointslices";
    Endpoints "Endpoints" = "" / "endpoints";
    Node "Node" = "" / "nodes";
    ServiceCidr "ServiceCIDR" = "networking.k8s.io" / "servicecidrs";
}

records! {
    /// `metadata`.
    Meta {
        name: String,
        namespace: String,
        resource_version: String,
        creation_timestamp: String,
        deletion_timestamp: String,
        labels: Labels,
        annotations: Annotations,
    }

    /// The labels that matter.
    Labels {
        #[serde(rename = "service.kubernetes.io/service-proxy-name")]
        proxy_name: String,
        #[serde(rename = "service.kubernetes.io/headless")]
        headless: String,
        #[serde(rename = "kubernetes.io/service-name")]
        service_name: String,
        #[serde(rename = "topology.kubernetes.io/zone")]
        zone: String,
    }

    /// The annotations that matter.
    Annotations {
        #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
        trigger_time: String,
    }

    /// v1 Service.
    Service {
        metadata: Meta,
        spec: ServiceSpec,
        status: ServiceStatus,
    }

    ServiceSpec {
        #[serde(rename = "type")]
        kind: String,
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        #[serde(rename = "clusterIPs")]
        cluster_ips: List<String>,
        ip_families: List<String>,
        ip_family_policy: String,
        #[serde(rename = "externalIPs")]
        external_ips: List<String>,
        load_balancer_source_ranges: List<String>,
        session_affinity: String,
        session_affinity_config: AffinityConfig,
        internal_traffic_policy: String,
        external_traffic_policy: String,
        health_check_node_port: i64,
        ports: List<ServicePort>,
    }

    AffinityConfig {
        #[serde(rename = "clientIP")]
        client_ip: ClientIpConfig,
    }

    ClientIpConfig {
        timeout_seconds: i64,
    }

    ServicePort {
        name: String,
        protocol: String,
        port: i64,
        node_port: i64,
    }

    ServiceStatus {
        load_balancer: LoadBalancerStatus,
    }

    LoadBalancerStatus {
        ingress: List<Ingress>,
    }

    Ingress {
        ip: String,
        ip_mode: String,
    }

    /// discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice {
        metadata: Meta,
        address_type: String,
        endpoints: List<Endpoint>,
        ports: List<SlicePort>,
    }

    Endpoint {
        addresses: List<String>,
        conditions: EndpointConditions,
        node_name: String,
        hints: EndpointHints,
    }

    EndpointConditions {
        ready: bool,
        serving: bool,
        terminating: bool,
    }

    EndpointHints {
        for_zones: List<Named>,
        for_nodes: List<Named>,
    }

    /// An object with a name and nothing else that matters.
    Named {
        name: String,
    }

    /// A port of an EndpointSlice or of an Endpoints subset.
    SlicePort {
        name: String,
        protocol: String,
        port: i64,
    }

    /// v1 Endpoints.
    Endpoints {
        metadata: Meta,
        subsets: List<Subset>,
    }

    Subset {
        addresses: List<SubsetAddress>,
        not_ready_addresses: List<SubsetAddress>,
        ports: List<SlicePort>,
    }

    SubsetAddress {
        ip: String,
        node_name: String,
    }

    /// v1 Node.
    Node {
        metadata: Meta,
        spec: NodeSpec,
        status: NodeStatus,
    }

    NodeSpec {
        #[serde(rename = "podCIDR")]
        pod_cidr: String,
        #[serde(rename = "podCIDRs")]
        pod_cidrs: List<String>,
        taints: List<Taint>,
    }

    Taint {
        key: String,
    }

    NodeStatus {
        addresses: List<NodeAddress>,
    }

    NodeAddress {
        #[serde(rename = "type")]
        kind: String,
        address: String,
    }

    /// networking.k8s.io/v1 ServiceCIDR.
    ServiceCidr {
        metadata: Meta,
        spec: ServiceCidrSpec,
    }

    ServiceCidrSpec {
        cidrs: List<String>,
    }
}
