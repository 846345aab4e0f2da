//! Random Services and EndpointSlices that an API server admits.
//!
//! In: a seed and a number. Out: a list of objects, always the same for the same numbers. Endpoints are the pods of [`PODS`], which are
//! there and answer on the ports of [`ports`]. No two Services share an address and port: whose it is differs, see docs/differences.md.

use serde_json::{Map, Value, json};

use super::dice::Dice;

/// Endpoints are pods 1 to this of each node.
pub(crate) const PODS: u32 = 6;

/// The ports that pods answer on; nobody answers SCTP.
pub(crate) fn ports(protocol: &str) -> [u16; 3] {
    match protocol {
        "TCP" => [8080, 8081, 9090],
        "UDP" => [5353, 5354, 9090],
        _ => [7777, 7778, 9090],
    }
}

/// Who may use a load balancer: nobody of the lab, some, all.
const RANGES: [&str; 9] = [
    "192.168.100.0/24",
    "192.168.100.10/32",
    "10.1.0.0/16",
    "192.168.1.10/32",
    "203.0.113.0/24",
    "0.0.0.0/0",
    "fd00:168:100::/64",
    "fd00:10:1::/48",
    "::/0",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cluster,
    NodePort,
    LoadBalancer,
    Headless,
    Name,
}

/// A Service while it is being made.
struct Draft<'a> {
    dice: &'a mut Dice,
    number: u32,
    kind: Kind,
    families: Vec<&'static str>,
}

/// The Node n1, which is in zone a, and `count` Services with their slices.
pub(crate) fn list(seed: u64, count: u32) -> Value {
    let mut dice = Dice::new(seed);
    let addresses =
        ["192.168.1.10", "fd00:168:1::10"].map(|ip| json!({ "type": "InternalIP", "address": ip }));
    let mut items = vec![json!({
        "kind": "Node", "metadata": { "name": "n1", "labels": { "topology.kubernetes.io/zone": "a" } },
        "status": { "addresses": addresses },
    })];
    for number in 1..=count {
        items.extend(service_with_slices(&mut dice, number));
    }
    json!({ "kind": "List", "items": items })
}

fn service_with_slices(dice: &mut Dice, number: u32) -> Vec<Value> {
    use Kind::{Cluster, Headless, LoadBalancer, Name, NodePort};
    let kind = dice.one(&[
        Cluster,
        Cluster,
        Cluster,
        Cluster,
        NodePort,
        NodePort,
        NodePort,
        LoadBalancer,
        LoadBalancer,
        LoadBalancer,
        Headless,
        Name,
    ]);
    let families: &[&[&str]] = match kind {
        Headless | Name => &[&["IPv4"], &["IPv6"]],
        _ => &[&["IPv4"], &["IPv6"], &["IPv4", "IPv6"], &["IPv4", "IPv6"], &["IPv6", "IPv4"]],
    };
    let families = dice.one(families).to_vec();
    let mut draft = Draft { dice, number, kind, families };
    let ports = draft.ports();
    let service = draft.service(&ports);
    let slices = draft.slices(&ports);
    [service].into_iter().chain(slices).collect()
}

impl Draft<'_> {
    fn name(&self) -> String {
        format!("s{}", self.number)
    }

    fn namespace(&self) -> String {
        format!("random-{}", self.number % 3)
    }

    fn is_external(&self) -> bool {
        matches!(self.kind, Kind::NodePort | Kind::LoadBalancer)
    }

    /// One to three ports; sometimes two protocols share a number, as DNS does.
    fn ports(&mut self) -> Vec<Value> {
        let count = 1 + self.dice.below(3);
        let shares = count > 1 && self.dice.is(25);
        let has_node_ports =
            self.kind == Kind::NodePort || (self.kind == Kind::LoadBalancer && self.dice.is(75));
        let mut ports = Vec::new();
        for index in 0..count {
            let mut protocol = self.dice.one(&["TCP", "TCP", "TCP", "UDP", "UDP", "SCTP"]);
            let mut place = index;
            if shares && index < 2 {
                (protocol, place) = (if index == 0 { "UDP" } else { "TCP" }, 0);
            }
            let name = if count > 1 || self.dice.is(50) { format!("p{index}") } else { String::new() };
            let mut port =
                json!({ "name": name, "protocol": protocol, "port": 80 + place + self.number / 250 * 10 });
            if self.dice.is(30) {
                port["targetPort"] = json!("named");
            }
            if has_node_ports {
                // Three for each Service, from 30000 on.
                port["nodePort"] = json!(30_000 + self.number * 3 + place);
            }
            ports.push(port);
        }
        ports
    }

    fn service(&mut self, ports: &[Value]) -> Value {
        let mut spec = Map::new();
        spec.insert("ports".into(), json!(ports));
        match self.kind {
            Kind::Name => drop(spec.insert("externalName".into(), json!("elsewhere.example"))),
            Kind::Headless => drop(spec.insert("clusterIPs".into(), json!(["None"]))),
            _ => drop(spec.insert("clusterIPs".into(), json!(self.cluster_ips()))),
        }
        let kind = match self.kind {
            Kind::Cluster | Kind::Headless => "ClusterIP",
            Kind::NodePort => "NodePort",
            Kind::LoadBalancer => "LoadBalancer",
            Kind::Name => "ExternalName",
        };
        spec.insert("type".into(), json!(kind));
        if self.kind != Kind::Name {
            self.describe(&mut spec);
        }
        let mut metadata = json!({ "name": self.name(), "namespace": self.namespace() });
        if self.dice.is(3) {
            metadata["labels"] = json!({ "service.kubernetes.io/service-proxy-name": "another" });
        }
        let mut service = json!({ "kind": "Service", "metadata": metadata });
        if self.kind == Kind::LoadBalancer {
            self.balance(&mut spec, &mut service);
        }
        service["spec"] = Value::Object(spec);
        service
    }

    fn describe(&mut self, spec: &mut Map<String, Value>) {
        spec.insert("ipFamilies".into(), json!(self.families));
        let policy = if self.families.len() == 2 { "RequireDualStack" } else { "SingleStack" };
        spec.insert("ipFamilyPolicy".into(), json!(policy));
        if let Some(first) = spec.get("clusterIPs").and_then(|ips| ips.get(0)).cloned() {
            spec.insert("clusterIP".into(), first);
        }
        let policies = ["Cluster", "Cluster", "Cluster", "Local"];
        spec.insert("internalTrafficPolicy".into(), json!(self.dice.one(&policies)));
        if self.dice.is(20) {
            let seconds = self.dice.one(&[600, 10_800, 86_400]);
            spec.insert("sessionAffinity".into(), json!("ClientIP"));
            spec.insert("sessionAffinityConfig".into(), json!({ "clientIP": { "timeoutSeconds": seconds } }));
        }
        if self.dice.is(15) {
            let distribution = self.dice.one(&["PreferClose", "PreferSameZone", "PreferSameNode"]);
            spec.insert("trafficDistribution".into(), json!(distribution));
        }
        if self.dice.is(10) {
            spec.insert("publishNotReadyAddresses".into(), json!(true));
        }
        let has_external_ips = self.kind != Kind::Headless && self.dice.is(30);
        if has_external_ips {
            spec.insert("externalIPs".into(), json!(self.addresses("198.51.100.", "2001:db8:5::")));
        }
        if self.is_external() || has_external_ips {
            spec.insert("externalTrafficPolicy".into(), json!(self.dice.one(&["Cluster", "Local"])));
        }
    }

    /// What only a load balancer has.
    fn balance(&mut self, spec: &mut Map<String, Value>, service: &mut Value) {
        let has_node_ports = spec.get("ports").and_then(|ports| ports.pointer("/0/nodePort")).is_some();
        spec.insert("allocateLoadBalancerNodePorts".into(), json!(has_node_ports));
        if spec.get("externalTrafficPolicy").is_some_and(|policy| policy == "Local") {
            spec.insert("healthCheckNodePort".into(), json!(32_000 + self.number));
        }
        if self.dice.is(40) {
            let ranges: Vec<&str> = (0..=self.dice.below(3)).map(|_| self.dice.one(&RANGES)).collect();
            if self.dice.is(25) {
                let annotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
                service["metadata"]["annotations"] = json!({ annotation: ranges.join(",") });
            } else {
                spec.insert("loadBalancerSourceRanges".into(), json!(ranges));
            }
        }
        let mut ingress = Vec::new();
        for ip in self.addresses("192.0.2.", "2001:db8:2::") {
            if self.dice.is(90) {
                let mode = self.dice.one(&["VIP", "VIP", "VIP", "Proxy"]);
                ingress.push(json!({ "ip": ip, "ipMode": mode }));
            }
        }
        if self.dice.is(10) {
            ingress.push(json!({ "hostname": "balancer.example" }));
        }
        service["status"] = json!({ "loadBalancer": { "ingress": ingress } });
    }

    /// One of each family, which no other Service has; sometimes also of a family that the Service does not have.
    fn addresses(&mut self, v4: &str, v6: &str) -> Vec<String> {
        let both = self.dice.is(10);
        let mut addresses = Vec::new();
        for (family, beginning) in [("IPv4", v4), ("IPv6", v6)] {
            if both || self.families.contains(&family) {
                // There are 250 addresses in an IPv4 network of the lab; those who share one have other ports.
                let number = if family == "IPv4" { self.number % 250 + 1 } else { self.number };
                addresses.push(format!("{beginning}{number}"));
            }
        }
        addresses
    }

    fn cluster_ips(&self) -> Vec<String> {
        let ip = |family: &&str| match *family {
            "IPv4" => format!("10.97.{}.{}", self.number / 250, self.number % 250 + 1),
            _ => format!("fd00:10:96::{:x}", 0x2000 + self.number),
        };
        self.families.iter().map(ip).collect()
    }

    /// Up to three for each family, with at most six endpoints in all.
    fn slices(&mut self, ports: &[Value]) -> Vec<Value> {
        let mut slices = Vec::new();
        let hints = self.dice.below(6);
        for family in self.families.clone() {
            let mut pods: Vec<(u32, u32)> = (1..=2).flat_map(|n| (1..=PODS).map(move |i| (n, i))).collect();
            self.dice.shuffle(&mut pods);
            // Few on average: above 1000 in a family comments go from rules, and which rules have been written since depends on the past.
            let most = self.dice.one(&[4, 7]);
            pods.truncate(usize::try_from(self.dice.below(most)).unwrap());
            let pieces = usize::try_from(1 + self.dice.below(3)).unwrap();
            for (index, pods) in pods.chunks(pods.len().div_ceil(pieces).max(1)).enumerate() {
                let slice = self.slice(family, index, pods, ports, hints);
                slices.push(slice);
            }
        }
        slices
    }

    fn slice(
        &mut self,
        family: &str,
        index: usize,
        pods: &[(u32, u32)],
        ports: &[Value],
        hints: u32,
    ) -> Value {
        let name = format!("{}-{}-{index}", self.name(), family.to_lowercase());
        let mut slice_ports = Vec::new();
        for port in ports {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            if self.dice.is(95) {
                // Pods of one Service may have given a named port different numbers.
                let number = self.dice.one(&self::ports(protocol));
                slice_ports.push(json!({ "name": port["name"], "protocol": protocol, "port": number }));
            }
        }
        let endpoints: Vec<Value> = pods.iter().map(|pod| self.endpoint(family, *pod, hints)).collect();
        json!({
            "kind": "EndpointSlice", "addressType": family,
            "metadata": {
                "name": name, "namespace": self.namespace(),
                "labels": { "kubernetes.io/service-name": self.name() },
            },
            "ports": slice_ports, "endpoints": endpoints,
        })
    }

    fn endpoint(&mut self, family: &str, (node, pod): (u32, u32), hints: u32) -> Value {
        let address = match family {
            "IPv4" => format!("10.1.{node}.{}", pod + 10),
            _ => format!("fd00:10:1:{node}::{}", pod + 10),
        };
        // Ready, serving, terminating. Ready and terminating: published whatever their state.
        let conditions = match self.dice.below(20) {
            0 | 1 => json!({ "ready": false, "serving": false, "terminating": false }),
            2..=4 => json!({ "ready": false, "serving": true, "terminating": true }),
            5 => json!({ "ready": false, "serving": false, "terminating": true }),
            6 => json!({ "ready": true, "serving": true, "terminating": true }),
            7 => json!({}),
            _ => json!({ "ready": true, "serving": true, "terminating": false }),
        };
        let zone = if node == 1 { "a" } else { "b" };
        let mut endpoint = json!({ "addresses": [address], "conditions": conditions, "zone": zone });
        if self.dice.is(97) {
            endpoint["nodeName"] = json!(format!("n{node}"));
        }
        match hints {
            0 => endpoint["hints"] = json!({ "forZones": [{ "name": zone }] }),
            1 if self.dice.is(80) => {
                endpoint["hints"] = json!({ "forZones": [{ "name": self.dice.one(&["a", "b"]) }] });
            }
            2 => {
                let nodes = json!([{ "name": format!("n{node}") }]);
                endpoint["hints"] = json!({ "forZones": [{ "name": zone }], "forNodes": nodes });
            }
            _ => {}
        }
        endpoint
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_objects_and_no_address_twice() {
        let objects = list(1, 250);
        assert_eq!(objects, list(1, 250));
        assert_ne!(objects, list(2, 250));
        let (mut seen, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for item in objects["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "Service") {
            kinds.insert(item["spec"]["type"].to_string());
            for ip in item["spec"]["clusterIPs"].as_array().into_iter().flatten().filter(|ip| **ip != "None")
            {
                assert!(ip.as_str().unwrap().parse::<std::net::IpAddr>().is_ok(), "{ip}");
                assert!(seen.insert(ip.to_string()), "{ip} twice");
            }
            for port in item["spec"]["ports"].as_array().unwrap() {
                let number = port["nodePort"].as_u64().unwrap_or(30_000);
                assert!((30_000..=32_767).contains(&number), "{number}");
            }
        }
        assert_eq!(kinds.len(), 4);
    }
}
