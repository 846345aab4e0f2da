//! The objects themselves. Field names are those of the Kubernetes API in camel case.

use std::fmt::Debug;

use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;

use super::lax::{Lax, List, Shape};
use super::protobuf::Value;

/// An object that is listed and watched by itself.
pub(crate) trait Object: Shape + Clone + Debug + Default + Send + 'static {
    /// API group; empty for the core group.
    const GROUP: &'static str;
    /// `kind`.
    const KIND: &'static str;
    /// Last part of the URL path.
    const PLURAL: &'static str;
    /// Whether it can be decoded from protobuf.
    const HAS_PROTOBUF: bool;

    /// `metadata`.
    fn metadata(&self) -> &Lax<Meta>;
}

/// Declares structs of the API: every field is lax, missing fields are absent, unknown ones are skipped. The numbers are those of the
/// fields in protobuf.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_attribute:meta])* $field:ident: $type:ty = $number:literal,)* })*) => {$(
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

            fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
                into.merge(value, |record, number, value| match number {
                    $($number => Shape::of_protobuf(&mut record.$field, value),)*
                    _ => {}
                });
            }
        }
    )*};
}

/// Declares the entries that matter of maps from text to text.
macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident { $($field:ident = $key:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default)]
        pub(crate) struct $name {
            $(#[serde(rename = $key)] pub(crate) $field: Lax<String>,)*
        }

        impl Shape for $name {
            const WANTED: &'static str = "an object";

            fn of_record<'de, A: MapAccess<'de>>(record: A) -> Result<Option<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(record)).map(Some)
            }

            fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
                let mut entry = Lax::<Entry>::Absent;
                Entry::of_protobuf(&mut entry, value);
                let (mut record, entry) = (into.take_or_default(), entry.take_or_default());
                match entry.key.text() {
                    $($key => record.$field = entry.value,)*
                    _ => {}
                }
                *into = Lax::Is(record);
            }
        }
    )*};
}

macro_rules! objects {
    ($($name:ident $kind:literal = $group:literal / $plural:literal, $protobuf:literal;)*) => {$(
        impl Object for $name {
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const PLURAL: &'static str = $plural;
            const HAS_PROTOBUF: bool = $protobuf;

            fn metadata(&self) -> &Lax<Meta> {
                &self.metadata
            }
        }
    )*};
}

objects! {
    Service "Service" = "" / "services", true;
    EndpointSlice "EndpointSlice" = "discovery.k8s.io" / "endpointslices", true;
    // Ports have other numbers in it than those of slices, for clusters that hardly exist any more.
    Endpoints "Endpoints" = "" / "endpoints", false;
    PodSlice "EndpointSlice" = "discovery.k8s.io" / "endpointslices", true;
    ServiceHead "Service" = "" / "services", true;
    Node "Node" = "" / "nodes", true;
    ServiceCidr "ServiceCIDR" = "networking.k8s.io" / "servicecidrs", true;
}

maps! {
    /// The labels that matter.
    Labels {
        proxy_name = "service.kubernetes.io/service-proxy-name",
        headless = "service.kubernetes.io/headless",
        service_name = "kubernetes.io/service-name",
        zone = "topology.kubernetes.io/zone",
    }

    /// The annotations that matter.
    Annotations {
        trigger_time = "endpoints.kubernetes.io/last-change-trigger-time",
    }
}

records! {
    /// `metadata`.
    Meta {
        name: String = 1,
        namespace: String = 3,
        resource_version: String = 6,
        creation_timestamp: Moment = 8,
        deletion_timestamp: Moment = 9,
        labels: Labels = 11,
        annotations: Annotations = 12,
    }

    /// v1 Service.
    Service {
        metadata: Meta = 1,
        spec: ServiceSpec = 2,
        status: ServiceStatus = 3,
    }

    ServiceSpec {
        #[serde(rename = "type")]
        kind: String = 4,
        #[serde(rename = "clusterIP")]
        cluster_ip: String = 3,
        #[serde(rename = "clusterIPs")]
        cluster_ips: List<String> = 18,
        ip_families: List<String> = 19,
        ip_family_policy: String = 17,
        #[serde(rename = "externalIPs")]
        external_ips: List<String> = 5,
        load_balancer_source_ranges: List<String> = 9,
        session_affinity: String = 7,
        session_affinity_config: AffinityConfig = 14,
        internal_traffic_policy: String = 22,
        external_traffic_policy: String = 11,
        health_check_node_port: i64 = 12,
        ports: List<ServicePort> = 1,
    }

    AffinityConfig {
        #[serde(rename = "clientIP")]
        client_ip: ClientIpConfig = 1,
    }

    ClientIpConfig {
        timeout_seconds: i64 = 1,
    }

    ServicePort {
        name: String = 1,
        protocol: String = 2,
        port: i64 = 3,
        node_port: i64 = 5,
    }

    ServiceStatus {
        load_balancer: LoadBalancerStatus = 1,
    }

    LoadBalancerStatus {
        ingress: List<Ingress> = 1,
    }

    Ingress {
        ip: String = 1,
        ip_mode: String = 3,
    }

    /// discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice {
        metadata: Meta = 1,
        address_type: String = 4,
        endpoints: List<Endpoint> = 2,
        ports: List<SlicePort> = 3,
    }

    Endpoint {
        addresses: List<String> = 1,
        conditions: EndpointConditions = 2,
        node_name: String = 6,
        hints: EndpointHints = 8,
    }

    EndpointConditions {
        ready: bool = 1,
        serving: bool = 2,
        terminating: bool = 3,
    }

    EndpointHints {
        for_zones: List<Named> = 1,
        for_nodes: List<Named> = 2,
    }

    /// An object with a name and nothing else that matters.
    Named {
        name: String = 1,
    }

    /// A port of an EndpointSlice, or in JSON of an Endpoints subset.
    SlicePort {
        name: String = 1,
        protocol: String = 2,
        port: i64 = 3,
    }

    /// v1 Endpoints.
    Endpoints {
        metadata: Meta = 1,
        subsets: List<Subset> = 2,
    }

    Subset {
        addresses: List<SubsetAddress> = 1,
        not_ready_addresses: List<SubsetAddress> = 2,
        ports: List<SlicePort> = 3,
    }

    SubsetAddress {
        ip: String = 1,
        node_name: String = 4,
    }

    /// An EndpointSlice as far as it tells the names of pods.
    PodSlice {
        metadata: Meta = 1,
        endpoints: List<PodEndpoint> = 2,
    }

    PodEndpoint {
        addresses: List<String> = 1,
        target_ref: TargetRef = 4,
    }

    /// The object behind an address.
    TargetRef {
        kind: String = 1,
        namespace: String = 2,
        name: String = 3,
    }

    /// Endpoints as far as they tell the names of pods; only files have them.
    PodEndpoints {
        metadata: Meta = 1,
        subsets: List<PodSubset> = 2,
    }

    PodSubset {
        addresses: List<PodAddress> = 1,
        not_ready_addresses: List<PodAddress> = 2,
    }

    PodAddress {
        ip: String = 1,
        target_ref: TargetRef = 2,
    }

    /// A Service's name and nothing else.
    ServiceHead {
        metadata: Meta = 1,
    }

    /// v1 Node.
    Node {
        metadata: Meta = 1,
        spec: NodeSpec = 2,
        status: NodeStatus = 3,
    }

    NodeSpec {
        #[serde(rename = "podCIDR")]
        pod_cidr: String = 1,
        #[serde(rename = "podCIDRs")]
        pod_cidrs: List<String> = 7,
        taints: List<Taint> = 5,
    }

    Taint {
        key: String = 1,
    }

    NodeStatus {
        addresses: List<NodeAddress> = 5,
    }

    NodeAddress {
        #[serde(rename = "type")]
        kind: String = 1,
        address: String = 2,
    }

    /// networking.k8s.io/v1 ServiceCIDR.
    ServiceCidr {
        metadata: Meta = 1,
        spec: ServiceCidrSpec = 2,
    }

    ServiceCidrSpec {
        cidrs: List<String> = 1,
    }

    /// An entry of a map from text to text.
    Entry {
        key: String = 1,
        value: String = 2,
    }

    /// What a list says about itself.
    ListMeta {
        resource_version: String = 2,
        #[serde(rename = "continue")]
        more: String = 3,
    }

    /// Why a request was refused.
    Refusal {
        message: String = 3,
    }

    /// A time.
    Seconds {
        seconds: i64 = 1,
    }
}

/// A time, as text of RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) String);

impl Shape for Moment {
    const WANTED: &'static str = "text";

    fn of_text(text: &str) -> Option<Self> {
        Some(Self(text.to_owned()))
    }

    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
        let mut time = Lax::<Seconds>::Absent;
        Seconds::of_protobuf(&mut time, value);
        let seconds = time.as_ref().and_then(|time| time.seconds.as_ref()).copied();
        // A time without seconds is none.
        *into = match (time, seconds.map(jiff::Timestamp::from_second)) {
            (_, Some(Ok(time))) => Lax::Is(Self(time.to_string())),
            (Lax::Is(_), None) => Lax::Absent,
            _ => Lax::Wrong("no time"),
        };
    }
}
