//! The objects of a small cluster with some of everything: what pages look like, and what they must not do.

use serde_json::{Value, json};

/// Services, their kind of trouble, and how many endpoints each has.
const SERVICES: [(&str, &str, u64); 18] = [
    ("blog/mysql", "", 0),
    ("blog/wordpress", "", 3),
    ("default/kubernetes", "", 1),
    ("games/lobby", "", 4),
    ("games/matchmaker", "sticky", 2),
    ("ingress/gateway", "balancer", 3),
    ("kube-system/kube-dns", "dns", 2),
    ("kube-system/metrics-server", "", 1),
    ("monitoring/alertmanager", "", 2),
    ("monitoring/grafana", "", 1),
    ("monitoring/prometheus", "", 2),
    ("shop/cart", "sticky", 3),
    ("shop/catalog", "", 6),
    ("shop/checkout", "local", 4),
    ("shop/payments", "", 2),
    ("shop/search", "", 5),
    ("shop/web", "node", 4),
    ("shop/web-canary", "", 1),
];

/// The objects after this many changes: each takes an endpoint of another Service away or brings it back.
pub(crate) fn objects(changes: u64) -> String {
    let mut items = Vec::new();
    // Only those with several endpoints take turns.
    let turns = u64::try_from(SERVICES.iter().filter(|(.., count)| *count > 1).count()).unwrap_or_default();
    let mut turn = 0;
    for (number, (name, kind, count)) in (0_u64..).zip(SERVICES) {
        turn += u64::from(count > 1);
        let flips = if count > 1 { (changes + turns - turn) / turns } else { 0 };
        let (namespace, name) = name.split_once('/').unwrap_or_default();
        items.push(service(namespace, name, number, kind));
        items.push(slice(namespace, name, number, kind, count, flips));
    }
    items.extend(wrong());
    items.push(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
        "status": { "addresses": [{ "type": "InternalIP", "address": "192.168.1.10" }] },
    }));
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn service(namespace: &str, name: &str, number: u64, kind: &str) -> Value {
    let address = format!("10.96.0.{}", 10 + number);
    let mut spec = json!({ "clusterIP": address, "ports": ports(kind) });
    match kind {
        "sticky" => spec["sessionAffinity"] = json!("ClientIP"),
        "node" => spec["type"] = json!("NodePort"),
        "local" => spec["internalTrafficPolicy"] = json!("Local"),
        "balancer" => {
            spec["type"] = json!("LoadBalancer");
            spec["externalTrafficPolicy"] = json!("Local");
            spec["loadBalancerSourceRanges"] = json!(["203.0.113.0/24"]);
        }
        _ => {}
    }
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": namespace, "name": name }, "spec": spec,
    });
    if kind == "balancer" {
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "198.51.100.20" }] } });
    }
    service
}

fn ports(kind: &str) -> Value {
    match kind {
        "dns" => json!([
            { "name": "dns", "port": 53, "protocol": "UDP" },
            { "name": "dns-tcp", "port": 53, "protocol": "TCP" },
        ]),
        "node" => json!([{ "name": "http", "port": 80, "nodePort": 30080 }]),
        "balancer" => json!([
            { "name": "http", "port": 80, "nodePort": 30180 },
            { "name": "https", "port": 443, "nodePort": 30443 },
        ]),
        _ => json!([{ "name": "http", "port": 80 }]),
    }
}

/// The first endpoint comes and goes, the second of some is not ready.
fn slice(namespace: &str, name: &str, number: u64, kind: &str, count: u64, flips: u64) -> Value {
    let endpoint = |n: u64| {
        json!({
            "addresses": [format!("10.1.{}.{}", 1 + n % 2, 20 + number * 8 + n)],
            "nodeName": format!("n{}", 1 + n % 2),
            "conditions": { "ready": n != 1 || number % 5 != 3 },
        })
    };
    let first = flips % 2;
    let ports: Vec<Value> = ports(kind).as_array().cloned().unwrap_or_default();
    let ports: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "name": port["name"], "protocol": port["protocol"], "port": 8080 }))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": namespace, "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name } },
        "addressType": "IPv4", "ports": ports, "endpoints": (first..count).map(endpoint).collect::<Vec<_>>(),
    })
}

/// A Service that wants another one's address, and one whose range cannot be read.
fn wrong() -> Vec<Value> {
    let mut thief = service("shop", "web-old", 60, "");
    thief["spec"]["externalIPs"] = json!(["10.96.0.26", "192.0.2.80"]);
    let mut broken = service("monitoring", "loki", 61, "balancer");
    broken["spec"]["loadBalancerSourceRanges"] = json!(["everybody"]);
    vec![thief, slice("shop", "web-old", 60, "", 1, 0), broken]
}

/// Objects whose texts are markup, escapes, overrides of direction, or very long.
pub(crate) fn hostile() -> String {
    let evil =
        "\"'><script>window.owned=1</script><img src=x onerror=window.owned=2>\u{1b}[31m\u{202e}gpj.é日שלום";
    let long = "x".repeat(63);
    let mut items = vec![service("evil", &long, 1, ""), slice("evil", &long, 1, "", 2, 0)];
    items[1]["endpoints"][0]["nodeName"] = json!(evil);
    items[1]["endpoints"][0]["hints"] = json!({ "forZones": [{ "name": evil }] });
    items.push(service("evil", evil, 2, ""));
    items.push(service(evil, "name", 3, ""));
    let mut port = service("evil", "port", 4, "");
    port["spec"]["ports"][0]["name"] = json!(evil);
    items.push(port);
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}
