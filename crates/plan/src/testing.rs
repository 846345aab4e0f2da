//! The language of this crate's tests: a few lines of text become a node, service ports and endpoints, in either
//! family.
//!
//! ```text
//! node zone=a detector=cidr:10.1.0.0/16 masquerade=all nodeports=192.168.0.10 loopback=served
//! iptables counters liberal plain-ports
//! svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=10.0.0.0/8 sticky=60
//!     itp=local etp=local health=32000 created=7          (all on one line)
//! ep 10.1.0.1:8080 @here zones=a nodes=here terminating
//! ```
//!
//! An `ep` belongs to the `svc` before it. Addresses are written in IPv4; for IPv6 each is mapped by [`address`], and
//! [`plain`] maps output back, so that one expectation serves both families. The own node is `here`, 192.168.0.10.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use switchyard_model::{
    Conditions, Endpoint, Family, Hints, PortKey, Protocol, ServiceName, ServicePort, ServicePortName,
    TrafficPolicy,
};

use crate::book::{Book, PortChanges};
use crate::iptables::{Config, Counter, InvalidPackets, Planner};
use crate::settings::{LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings};

pub(crate) mod arbitrary;
pub(crate) mod clients;
pub(crate) mod kernel;
pub(crate) mod packets;

/// What a text describes.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) config: Config,
    pub(crate) ports: Vec<ServicePort>,
}

impl World {
    pub(crate) fn new(family: Family, text: &str) -> Self {
        let mut world = Self { settings: settings(family), config: Config::default(), ports: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.split_first() {
                None => {}
                Some((&"node", rest)) => rest.iter().for_each(|word| world.read_node(word)),
                Some((&"iptables", rest)) => rest.iter().for_each(|word| world.read_config(word)),
                Some((&"svc", rest)) => world.ports.push(read_port(family, rest)),
                Some((&"ep", rest)) => {
                    let port = world.ports.last_mut().expect("ep before svc");
                    port.endpoints.push(read_endpoint(family, rest));
                    sort(port);
                }
                Some((word, _)) => panic!("unknown line: {word}"),
            }
        }
        world
    }

    pub(crate) fn book(&self) -> Book {
        let mut book = Book::new(self.settings.clone());
        book.update(all(&self.ports));
        book
    }

    pub(crate) fn planner(&self) -> Planner {
        Planner::new(self.config, self.book())
    }

    fn read_node(&mut self, word: &str) {
        let family = self.settings.family;
        let settings = &mut self.settings;
        match word.split_once('=').unwrap_or((word, "")) {
            ("zone", "") => settings.zone = None,
            ("zone", zone) => settings.zone = Some(zone.into()),
            ("masquerade", "all") => settings.masquerade = MasqueradeClusterIp::All,
            ("loopback", "served") => settings.loopback_node_ports = LoopbackNodePorts::Served,
            ("nodeports", list) => {
                settings.node_ports = NodePortAddresses::Only(addresses(family, list));
            }
            ("detector", text) => settings.detector = detector(family, text),
            _ => panic!("unknown fact of the node: {word}"),
        }
    }

    fn read_config(&mut self, word: &str) {
        match word {
            "counters" => {
                self.config.invalid_counter = Counter::Present;
                self.config.loopback_counter = Counter::Present;
            }
            "liberal" => self.config.invalid = InvalidPackets::Kept,
            "plain-ports" => self.config.random_fully = false,
            mark => self.config.mark = mark.strip_prefix("mark=").unwrap().parse().unwrap(),
        }
    }
}

/// Changes that put all of these in.
pub(crate) fn all(ports: &[ServicePort]) -> PortChanges {
    ports.iter().map(|p| (p.name.clone(), Some(Arc::new(p.clone())))).collect()
}

/// The own node, with nothing special asked for.
pub(crate) fn settings(family: Family) -> Settings {
    Settings {
        family,
        node_name: "here".into(),
        zone: Some("a".into()),
        node_ip: address(family, "192.168.0.10"),
        detector: LocalDetector::None,
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

/// Every address of the own node.
pub(crate) fn node_addresses(family: Family) -> BTreeSet<IpAddr> {
    ["192.168.0.10", "192.168.1.10", "127.0.0.1"].map(|ip| address(family, ip)).into()
}

/// An IPv4 address in the family that is asked for.
pub(crate) fn address(family: Family, text: &str) -> IpAddr {
    let v4: Ipv4Addr = text.parse().unwrap_or_else(|_| panic!("not an address: {text}"));
    match family {
        Family::V4 => v4.into(),
        Family::V6 if v4 == Ipv4Addr::LOCALHOST => Ipv6Addr::LOCALHOST.into(),
        Family::V6 => {
            // Decimal digits become hexadecimal ones: people read it, and the order of texts stays the same.
            let [a, b, c, d] = v4.octets().map(|o| u16::from_str_radix(&o.to_string(), 16).unwrap());
            Ipv6Addr::new(0xfd00, 0, 0, 0, a, b, c, d).into()
        }
    }
}

/// An IPv4 range in the family that is asked for.
pub(crate) fn range(family: Family, text: &str) -> IpNet {
    let (ip, length) = text.split_once('/').unwrap();
    let length: u8 = length.parse().unwrap();
    assert_eq!(length % 8, 0, "maps to IPv6 by octets only");
    let length = if family == Family::V4 { length } else { length * 2 + 64 };
    IpNet::new(address(family, ip), length).unwrap()
}

/// An IPv4 address and port in the family that is asked for.
pub(crate) fn socket(family: Family, text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').unwrap();
    SocketAddr::new(address(family, ip), port.parse().unwrap())
}

/// The IPv4 address that [`address`] maps to this one.
pub(crate) fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(v6) if v6.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.segments().map(|s| format!("{s:x}").parse().unwrap_or_default());
            Ipv4Addr::new(a, b, c, d).into()
        }
    }
}

/// The same for an address with a port.
pub(crate) fn plain_socket(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(plain(at.ip()), at.port())
}

/// The IPv4 range that [`range`] maps to this one.
pub(crate) fn plain_range(range: &IpNet) -> IpNet {
    match range {
        IpNet::V4(_) => *range,
        IpNet::V6(v6) => IpNet::new(plain(v6.addr().into()), (v6.prefix_len() - 64) / 2).unwrap(),
    }
}

/// Endpoints as text, the same for both families.
pub(crate) fn endpoints(list: &[&Endpoint]) -> String {
    let mut shown: Vec<String> = list.iter().map(|e| plain_socket(e.address).to_string()).collect();
    shown.sort();
    if shown.is_empty() { "-".into() } else { shown.join(" ") }
}

/// A service port's name from `ns/svc:port/proto`.
pub(crate) fn name(text: &str, protocol: Protocol) -> ServicePortName {
    let (namespace, rest) = text.split_once('/').unwrap();
    let (service, port) = rest.split_once(':').unwrap_or((rest, ""));
    ServicePortName { service: ServiceName::new(namespace, service), port: port.into(), protocol }
}

pub(crate) fn key(port: &ServicePort) -> PortKey {
    PortKey::from(port)
}

/// The order that the model promises.
pub(crate) fn sort(port: &mut ServicePort) {
    port.endpoints.sort_by_key(|e| e.address.to_string());
    port.endpoints.dedup_by_key(|e| e.address);
}

fn addresses(family: Family, list: &str) -> Vec<IpAddr> {
    list.split(',').filter(|w| !w.is_empty()).map(|ip| address(family, ip)).collect()
}

fn detector(family: Family, text: &str) -> LocalDetector {
    match text.split_once(':').unwrap() {
        ("cidr", text) => LocalDetector::Cidr(range(family, text)),
        ("bridge", name) => LocalDetector::Bridge(name.into()),
        ("prefix", name) => LocalDetector::InterfacePrefix(name.into()),
        _ => panic!("unknown detector: {text}"),
    }
}

fn read_port(family: Family, words: &[&str]) -> ServicePort {
    let protocol = Protocol::from_api(&words[1].to_uppercase()).unwrap();
    let at = socket(family, words[2]);
    let mut port = ServicePort {
        name: name(words[0], protocol),
        family,
        created: 0,
        cluster_ip: at.ip(),
        port: at.port(),
        node_port: None,
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: Vec::new(),
    };
    for word in &words[3..] {
        match word.split_once('=').unwrap() {
            ("node", n) => port.node_port = Some(n.parse().unwrap()),
            ("ext", list) => port.external_ips = addresses(family, list),
            ("lb", list) => port.load_balancer_ips = addresses(family, list),
            ("from", list) => port.source_ranges = list.split(',').map(|r| range(family, r)).collect(),
            ("sticky", n) => port.affinity = Some(n.parse().unwrap()),
            ("itp", "local") => port.internal_policy = TrafficPolicy::Local,
            ("etp", "local") => port.external_policy = TrafficPolicy::Local,
            ("health", n) => port.health_check_node_port = Some(n.parse().unwrap()),
            ("created", n) => port.created = n.parse().unwrap(),
            _ => panic!("unknown word: {word}"),
        }
    }
    port
}

fn read_endpoint(family: Family, words: &[&str]) -> Endpoint {
    let mut endpoint = Endpoint {
        address: socket(family, words[0]),
        conditions: Conditions::default(),
        node: None,
        hints: None,
    };
    let mut hints = Hints::default();
    let list = |text: &str| text.split(',').map(Arc::from).collect::<Vec<Arc<str>>>();
    for word in &words[1..] {
        match word.split_once('=').unwrap_or((word, "")) {
            ("zones", names) => hints.zones = list(names),
            ("nodes", names) => hints.nodes = list(names),
            (node, "") if node.starts_with('@') => endpoint.node = Some(node[1..].into()),
            (word, "") => endpoint.conditions = conditions(word),
            _ => panic!("unknown word: {word}"),
        }
    }
    if hints != Hints::default() {
        endpoint.hints = Some(hints.into());
    }
    endpoint
}

fn conditions(word: &str) -> Conditions {
    let of = |ready, serving, terminating| Conditions { ready, serving, terminating };
    match word {
        "ready" => of(true, true, false),
        "ready-not-serving" => of(true, false, false),
        "ready-terminating" => of(true, true, true),
        "starting" => of(false, false, false),
        "serving-not-ready" => of(false, true, false),
        "terminating" => of(false, true, true),
        "dead" => of(false, false, true),
        _ => panic!("unknown condition: {word}"),
    }
}
