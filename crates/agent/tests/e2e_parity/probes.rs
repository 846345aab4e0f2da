//! Which flows are worth a try, given the objects that there are.
//!
//! In: a list of Kubernetes objects. Out: for every address and port that a client may dial, one [`Probe`] per kind of client. An address
//! that no proxy should serve, such as that of a load balancer that keeps it to itself, is dialled too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;

use serde_json::Value;
use switchyard_lab::Transport;
use switchyard_lab::address::LAST_POD;
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{Expected, Flow};
use switchyard_model::{Family, Protocol};

/// Who dials: outside of the cluster, both nodes, a pod of each node that is nobody's endpoint, and one that often is.
pub(crate) const CLIENTS: [Symbol; 6] = [
    Symbol::Client,
    Symbol::Node(1),
    Symbol::Node(2),
    Symbol::Pod(1, 9),
    Symbol::Pod(2, 9),
    Symbol::Pod(1, 1),
];

/// A port that no Service has.
const NOBODYS_PORT: u16 = 9;

/// One flow to be tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    pub(crate) transport: Transport,
    pub(crate) from: Symbol,
    pub(crate) to: SocketAddr,
    pub(crate) service: ServiceFacts,
}

/// What a probe must know of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServiceFacts {
    /// Namespace and name.
    pub(crate) name: String,
    /// A client stays with its endpoint.
    pub(crate) is_sticky: bool,
    /// How many endpoints it has, whatever their state.
    pub(crate) endpoints: u32,
    /// The nodes that they are on.
    pub(crate) nodes: BTreeSet<u8>,
    /// Their pods.
    pub(crate) pods: BTreeSet<Symbol>,
}

#[cfg(test)]
impl Probe {
    /// To a Service that is not there.
    pub(crate) fn to_nobody(from: Symbol) -> Self {
        let to = "10.96.0.1:80".parse().unwrap();
        Self { transport: Transport::Tcp, from, to, service: ServiceFacts::default() }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        write!(f, "{}: {transport} {} -> {}", self.service.name, self.from, self.to)
    }
}

/// The flows of a scenario as they stand there, in the families that they are tried in. Health checks are left to those who compare pages.
pub(crate) fn of_flows(flows: &[Flow], list: &Value) -> Vec<Probe> {
    let services = services(list);
    let mut owners = BTreeMap::new();
    for object in items(list, "Service") {
        let facts = services.get(&name(object));
        owners.extend(targets(object).into_iter().filter_map(|target| Some((target, facts?))));
    }
    let nobody = ServiceFacts { name: "no Service".to_owned(), ..ServiceFacts::default() };
    let mut probes = Vec::new();
    for flow in flows.iter().filter(|flow| !matches!(flow.expected, Expected::Http(_))) {
        for family in flow.families() {
            let (Some(ip), Some(transport)) = (flow.to.ip(*family), transport(flow.protocol)) else {
                continue;
            };
            let to = SocketAddr::new(ip, flow.port);
            let service = (*owners.get(&(transport, to)).unwrap_or(&&nobody)).clone();
            probes.push(Probe { transport, from: flow.from, to, service });
        }
    }
    probes
}

/// Every frontend of every Service, from every kind of client that can dial it.
pub(crate) fn of_objects(list: &Value) -> Vec<Probe> {
    let services = services(list);
    let mut probes = BTreeSet::new();
    for object in items(list, "Service") {
        let Some(facts) = services.get(&name(object)) else { continue };
        for (transport, to) in targets(object) {
            for from in CLIENTS.into_iter().filter(|from| can_dial(*from, to.ip(), facts)) {
                probes.insert(Probe { transport, from, to, service: facts.clone() });
            }
        }
    }
    probes.into_iter().collect()
}

/// Loopback addresses are only for the node itself, and no mode serves `::1`. An endpoint of n2 answers a pod of n2 directly, which does not
/// know it: among endpoints of both nodes, chance decides whether there is an answer.
fn can_dial(from: Symbol, to: IpAddr, service: &ServiceFacts) -> bool {
    match from {
        Symbol::Node(1) => !to.is_loopback() || to.is_ipv4(),
        Symbol::Pod(2, _) => !to.is_loopback() && service.nodes.len() < 2,
        _ => !to.is_loopback(),
    }
}

fn transport(protocol: Protocol) -> Option<Transport> {
    match protocol {
        Protocol::Tcp => Some(Transport::Tcp),
        Protocol::Udp => Some(Transport::Udp),
        Protocol::Sctp => None,
    }
}

fn targets(service: &Value) -> Vec<(Transport, SocketAddr)> {
    let addresses = addresses(service);
    let mut targets = Vec::new();
    for port in array(service, "/spec/ports") {
        let transport = match port.get("protocol").and_then(Value::as_str) {
            None | Some("TCP") => Transport::Tcp,
            Some("UDP") => Transport::Udp,
            Some(_) => continue,
        };
        let number = |key: &str| {
            port.get(key).and_then(Value::as_u64).and_then(|n| u16::try_from(n).ok()).unwrap_or_default()
        };
        targets.extend(addresses.iter().map(|ip| (transport, SocketAddr::new(*ip, number("port")))));
        if number("nodePort") != 0 {
            targets.extend(node_addresses().map(|ip| (transport, SocketAddr::new(ip, number("nodePort")))));
        }
    }
    let nobodys = addresses.iter().map(|ip| (Transport::Tcp, SocketAddr::new(*ip, NOBODYS_PORT)));
    targets.extend(nobodys.take(1));
    targets
}

/// Cluster IPs, external IPs and load-balancer IPs.
fn addresses(service: &Value) -> Vec<IpAddr> {
    let plain = ["/spec/clusterIPs", "/spec/externalIPs"].iter().flat_map(|list| array(service, list));
    let ingress = array(service, "/status/loadBalancer/ingress").filter_map(|entry| entry.get("ip"));
    plain.chain(ingress).filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

fn node_addresses() -> impl Iterator<Item = IpAddr> {
    let symbols = [Symbol::Node(1), Symbol::Gateway, Symbol::Localhost];
    symbols.into_iter().flat_map(|symbol| Family::ALL.into_iter().filter_map(move |family| symbol.ip(family)))
}

/// What is to be known of each Service, by namespace and name.
fn services(list: &Value) -> BTreeMap<String, ServiceFacts> {
    let mut services = BTreeMap::new();
    for object in items(list, "Service") {
        let is_sticky = object.pointer("/spec/sessionAffinity").is_some_and(|kind| kind == "ClientIP");
        services
            .insert(name(object), ServiceFacts { name: name(object), is_sticky, ..ServiceFacts::default() });
    }
    for slice in items(list, "EndpointSlice") {
        let of = slice.pointer("/metadata/labels/kubernetes.io~1service-name").and_then(Value::as_str);
        let namespace = slice.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let Some(facts) = services.get_mut(&format!("{namespace}/{}", of.unwrap_or_default())) else {
            continue;
        };
        facts.endpoints += u32::try_from(array(slice, "/endpoints").count()).unwrap();
        for pod in pods_of(slice) {
            facts.pods.insert(pod);
            if let Symbol::Pod(node, _) = pod {
                facts.nodes.insert(node);
            }
        }
    }
    services
}

/// The endpoints of a list, each with a port and its protocol.
pub(crate) fn endpoints(list: &Value) -> Vec<(Symbol, u64, &str)> {
    let mut endpoints = Vec::new();
    for slice in items(list, "EndpointSlice") {
        for port in array(slice, "/ports") {
            let number = port.get("port").and_then(Value::as_u64).unwrap_or_default();
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
            endpoints.extend(pods_of(slice).map(|pod| (pod, number, protocol)));
        }
    }
    endpoints
}

/// The pods that are endpoints of a slice.
fn pods_of(slice: &Value) -> impl Iterator<Item = Symbol> {
    let addresses =
        array(slice, "/endpoints").filter_map(|endpoint| endpoint.pointer("/addresses/0")?.as_str());
    addresses.filter_map(|address| PODS.get(&address.parse().ok()?).copied())
}

/// Every pod that the lab can have, by its addresses.
static PODS: LazyLock<BTreeMap<IpAddr, Symbol>> = LazyLock::new(|| {
    let pods = (1..=2).flat_map(|node| (0..=LAST_POD).map(move |pod| Symbol::Pod(node, pod)));
    pods.flat_map(|pod| Family::ALL.into_iter().filter_map(move |family| Some((pod.ip(family)?, pod))))
        .collect()
});

fn items<'a>(list: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    array(list, "/items").filter(move |item| item.get("kind").is_some_and(|found| found == kind))
}

fn array<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_frontend_is_dialled() {
        let list = json!({ "items": [
            { "kind": "Service", "metadata": { "namespace": "a", "name": "web" },
              "spec": { "clusterIPs": ["10.96.0.1"], "externalIPs": ["198.51.100.1"], "sessionAffinity": "ClientIP",
                        "ports": [{ "port": 80, "nodePort": 30080 }, { "port": 80, "protocol": "SCTP" }] },
              "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }, { "hostname": "x" }] } } },
            { "kind": "EndpointSlice", "metadata": { "namespace": "a", "labels": { "kubernetes.io/service-name": "web" } },
              "endpoints": [{ "addresses": ["10.1.1.11"] }, { "addresses": ["10.1.2.11"] }] },
        ] });
        let probes = of_objects(&list);
        let from_node = |text: &str| {
            let to = text.parse().unwrap();
            probes.iter().any(|probe| probe.from == Symbol::Node(1) && probe.to == to)
        };
        for target in
            ["10.96.0.1:80", "198.51.100.1:80", "192.0.2.1:80", "192.168.1.10:30080", "127.0.0.1:30080"]
        {
            assert!(from_node(target), "{target}");
        }
        assert!(from_node("[fd00:168:1::10]:30080") && from_node("10.96.0.1:9") && !from_node("[::1]:30080"));
        assert!(probes.iter().all(|probe| probe.service.is_sticky && probe.service.endpoints == 2));
        let pods = BTreeSet::from([Symbol::Pod(1, 1), Symbol::Pod(2, 1)]);
        assert!(probes.iter().all(|probe| probe.service.pods == pods));
        assert!(!probes.iter().any(|p| p.from == Symbol::Client && p.to.ip().is_loopback()));
        assert!(!probes.iter().any(|p| p.from == Symbol::Pod(2, 9)), "the endpoints are on both nodes");
    }
}
