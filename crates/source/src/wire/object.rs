//! The objects themselves. Field names are those of the Kubernetes API in camel case.

use std::fmt::Debug;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;

use super::lax::{Lax, List, Shape, Text};
use super::protobuf::{Value, entry};

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
            $(#[serde(rename = $key)] pub(crate) $field: Lax<Text>,)*
        }

        impl Shape for $name {
            const WANTED: &'static str = "an object";

            fn of_record<'de, A: MapAccess<'de>>(record: A) -> Result<Option<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(record)).map(Some)
            }

            fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
                let mut record = into.take_or_default();
                let (key, value) = entry(value);
                $(if key == $key.as_bytes() {
                    record.$field = Lax::Absent;
                    value.into_iter().for_each(|value| Shape::of_protobuf(&mut record.$field, value));
                })*
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
        name: Text = 1,
        namespace: Text = 3,
        resource_version: Text = 6,
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
        kind: Text = 4,
        #[serde(rename = "clusterIP")]
        cluster_ip: Text = 3,
        #[serde(rename = "clusterIPs")]
        cluster_ips: List<Text> = 18,
        ip_families: List<Text> = 19,
        ip_family_policy: Text = 17,
        #[serde(rename = "externalIPs")]
        external_ips: List<Text> = 5,
        load_balancer_source_ranges: List<Text> = 9,
        session_affinity: Text = 7,
        session_affinity_config: AffinityConfig = 14,
        internal_traffic_policy: Text = 22,
        external_traffic_policy: Text = 11,
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
        name: Text = 1,
        protocol: Text = 2,
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
        ip: Text = 1,
        ip_mode: Text = 3,
    }

    /// discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice {
        metadata: Meta = 1,
        address_type: Text = 4,
        endpoints: List<Endpoint> = 2,
        ports: List<SlicePort> = 3,
    }

    Endpoint {
        addresses: List<Text> = 1,
        conditions: EndpointConditions = 2,
        node_name: Text = 6,
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
        name: Text = 1,
    }

    /// A port of an EndpointSlice, or in JSON of an Endpoints subset.
    SlicePort {
        name: Text = 1,
        protocol: Text = 2,
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
        ip: Text = 1,
        node_name: Text = 4,
    }

    /// An EndpointSlice as far as it tells the names of pods.
    PodSlice {
        metadata: Meta = 1,
        endpoints: List<PodEndpoint> = 2,
    }

    PodEndpoint {
        addresses: List<Text> = 1,
        target_ref: TargetRef = 4,
    }

    /// The object behind an address.
    TargetRef {
        kind: Text = 1,
        namespace: Text = 2,
        name: Text = 3,
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
        ip: Text = 1,
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
        pod_cidr: Text = 1,
        #[serde(rename = "podCIDRs")]
        pod_cidrs: List<Text> = 7,
        taints: List<Taint> = 5,
    }

    Taint {
        key: Text = 1,
    }

    NodeStatus {
        addresses: List<NodeAddress> = 5,
    }

    NodeAddress {
        #[serde(rename = "type")]
        kind: Text = 1,
        address: Text = 2,
    }

    /// networking.k8s.io/v1 ServiceCIDR.
    ServiceCidr {
        metadata: Meta = 1,
        spec: ServiceCidrSpec = 2,
    }

    ServiceCidrSpec {
        cidrs: List<Text> = 1,
    }

    /// What a list says about itself.
    ListMeta {
        resource_version: Text = 2,
        #[serde(rename = "continue")]
        more: Text = 3,
    }

    /// Why a request was refused.
    Refusal {
        message: Text = 3,
    }

    /// A time.
    Seconds {
        seconds: i64 = 1,
    }
}

/// A time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// As text of RFC 3339, or something else.
    Text(String),
    /// Itself.
    At(Timestamp),
}

impl Shape for Moment {
    const WANTED: &'static str = "text";

    fn of_text(text: &str) -> Option<Self> {
        Some(Self::Text(text.to_owned()))
    }

    fn of_protobuf(into: &mut Lax<Self>, value: Value<'_>) {
        let mut time = Lax::<Seconds>::Absent;
        Seconds::of_protobuf(&mut time, value);
        let seconds = time.as_ref().and_then(|time| time.seconds.as_ref()).copied();
        // A time without seconds is none.
        *into = match (time, seconds.map(Timestamp::from_second)) {
            (_, Some(Ok(time))) => Lax::Is(Self::At(time)),
            (Lax::Is(_), None) => Lax::Absent,
            _ => Lax::Wrong("no time"),
        };
    }
}
