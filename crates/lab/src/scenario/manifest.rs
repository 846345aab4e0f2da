//! Scenario objects as Kubernetes objects in JSON, which is YAML too.

use std::net::IpAddr;

use serde_json::{Value, json};
use switchyard_model::{EndpointSlice, Family, Protocol, Service, ServiceType, SliceEndpoint, TrafficPolicy};

use super::Objects;
use super::address::Symbol;

/// A `kind: List` of all objects, with addresses of the given families, and the Node n1.
pub fn to_manifests(objects: &Objects, families: &[Family]) -> String {
    let mut items: Vec<Value> = vec![node(objects, families)];
    items.extend((!objects.service_cidrs.is_empty()).then(|| service_cidr(objects)));
    items.extend(objects.model_services(families).iter().map(|s| service(s, families)));
    items.extend(objects.model_slices(families).iter().map(|s| slice(s)));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    format!("{list:#}\n")
}

fn node(objects: &Objects, families: &[Family]) -> Value {
    let ip = |f: &Family| Symbol::Node(1).ip(*f).map(|ip| ip.to_string());
    let address = |f: &Family| json!({ "type": "InternalIP", "address": ip(f) });
    let mut labels = json!({});
    if let (Some(zone), Some(map)) = (&objects.zone, labels.as_object_mut()) {
        map.insert("topology.kubernetes.io/zone".into(), json!(zone));
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "n1", "labels": labels },
        "status": { "addresses": families.iter().map(address).collect::<Vec<_>>() },
    })
}

fn service_cidr(objects: &Objects) -> Value {
    let cidrs: Vec<String> = objects.service_cidrs.iter().map(ToString::to_string).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": cidrs },
    })
}

fn proto(protocol: Protocol) -> String {
    protocol.as_str().to_uppercase()
}

fn policy(policy: TrafficPolicy) -> &'static str {
    match policy {
        TrafficPolicy::Cluster => "Cluster",
        TrafficPolicy::Local => "Local",
    }
}

fn texts(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

/// RFC 3339 for a moment of the first day of 1970, which is all that scenarios use.
fn timestamp(seconds: i64) -> String {
    let s = seconds.rem_euclid(86_400);
    format!("1970-01-01T{:02}:{:02}:{:02}Z", s / 3600, s / 60 % 60, s % 60)
}

fn service(service: &Service, families: &[Family]) -> Value {
    let kind = match service.kind {
        ServiceType::ClusterIp => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
        ServiceType::ExternalName => "ExternalName",
    };
    let ports = service.ports.iter().map(|p| {
        json!({ "name": &*p.name, "protocol": proto(p.protocol), "port": p.port, "nodePort": p.node_port.unwrap_or(0) })
    });
    let mut spec = json!({
        "type": kind,
        "clusterIP": service.cluster_ips.first().map(ToString::to_string),
        "clusterIPs": texts(&service.cluster_ips),
        "ipFamilies": families.iter().map(|f| f.as_str()).collect::<Vec<_>>(),
        "externalIPs": texts(&service.external_ips),
        "loadBalancerSourceRanges": service.source_ranges.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "internalTrafficPolicy": policy(service.internal_policy),
        "externalTrafficPolicy": policy(service.external_policy),
        "healthCheckNodePort": service.health_check_node_port.unwrap_or(0),
        "ports": ports.collect::<Vec<_>>(),
    });
    if let (Some(seconds), Some(map)) = (service.affinity, spec.as_object_mut()) {
        map.insert("sessionAffinity".into(), json!("ClientIP"));
        map.insert("sessionAffinityConfig".into(), json!({ "clientIP": { "timeoutSeconds": seconds } }));
    }
    let ingress = service.load_balancer_ips.iter().map(|ip| json!({ "ip": ip.to_string() }));
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": &*service.name.name, "namespace": &*service.name.namespace,
            "creationTimestamp": timestamp(service.created),
        },
        "spec": spec,
        "status": { "loadBalancer": { "ingress": ingress.collect::<Vec<_>>() } },
    })
}

fn slice(slice: &EndpointSlice) -> Value {
    let ports = slice.ports.iter();
    let ports = ports.map(|p| json!({ "name": &*p.name, "protocol": proto(p.protocol), "port": p.port }));
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": &*slice.name.name, "namespace": &*slice.name.namespace,
            "labels": { "kubernetes.io/service-name": &*slice.service.name },
        },
        "addressType": slice.family.as_str(),
        "ports": ports.collect::<Vec<_>>(),
        "endpoints": slice.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

fn endpoint(endpoint: &SliceEndpoint) -> Value {
    let named =
        |names: &[std::sync::Arc<str>]| names.iter().map(|n| json!({ "name": &**n })).collect::<Vec<_>>();
    let mut value = json!({
        "addresses": [endpoint.address.to_string()],
        "conditions": {
            "ready": endpoint.conditions.ready,
            "serving": endpoint.conditions.serving,
            "terminating": endpoint.conditions.terminating,
        },
        "nodeName": endpoint.node.as_deref(),
    });
    if let (Some(hints), Some(map)) = (&endpoint.hints, value.as_object_mut()) {
        map.insert(
            "hints".into(),
            json!({ "forZones": named(&hints.zones), "forNodes": named(&hints.nodes) }),
        );
    }
    value
}
