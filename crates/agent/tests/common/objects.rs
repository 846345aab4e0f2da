//! Services and EndpointSlices as JSON, where a test wants other objects than the scenario language can say, or very many.

use serde_json::{Value, json};

/// A Service with one port, of the family of its cluster IP.
pub(crate) fn service(namespace: &str, name: &str, port_name: &str, cluster_ip: &str, port: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": namespace, "name": name },
        "spec": { "clusterIP": cluster_ip, "clusterIPs": [cluster_ip], "ports": [{ "name": port_name, "port": port }] },
    })
}

/// A slice of a Service with one endpoint.
pub(crate) fn slice(
    namespace: &str,
    name: &str,
    port_name: &str,
    kind: &str,
    address: &str,
    port: &Value,
) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": namespace, "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name } },
        "addressType": kind, "ports": [{ "name": port_name, "port": port }],
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
    })
}

/// The IPv4 Service `crowd-n`: the cluster IP 10.97.x.y, port 80.
pub(crate) fn crowd_service(n: u16) -> Value {
    service("crowd", &format!("crowd-{n}"), "", &crowd_ip(97, n), &json!(80))
}

/// Its slice: one endpoint in 10.200.0.0/16 or, for each later generation, in another network.
pub(crate) fn crowd_slice(n: u16, generation: u8) -> Value {
    slice("crowd", &format!("crowd-{n}"), "", "IPv4", &crowd_ip(200 + generation, n), &json!(8080))
}

/// The n-th address of 10.`net`.0.0/16.
pub(crate) fn crowd_ip(net: u8, n: u16) -> String {
    format!("10.{net}.{}.{}", n / 250, n % 250 + 1)
}

/// A list of this many Services with their slices.
pub(crate) fn crowd(numbers: std::ops::Range<u16>) -> Value {
    let items: Vec<Value> = numbers.flat_map(|n| [crowd_service(n), crowd_slice(n, 0)]).collect();
    json!({ "kind": "List", "items": items })
}
