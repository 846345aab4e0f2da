//! Userspace mode on loopback, with real sockets and no privilege.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use switchyard_model::{
    Conditions, Endpoint, Family, Protocol, ServiceName, ServicePort, ServicePortName, TrafficPolicy,
};
use switchyard_plan::book::PortChanges;
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_relay::{Config, Relay};

use super::mode::UserspaceMode;
use super::{News, Way};
use crate::Mode;
use crate::report::{Kind, Report};

/// Where frontends can be dialled, by what was announced.
type Ways = Arc<Mutex<BTreeMap<String, SocketAddr>>>;

struct World {
    mode: UserspaceMode,
    ways: Ways,
}

fn settings() -> Settings {
    Settings {
        family: Family::V4,
        node_name: "here".into(),
        zone: None,
        node_ip: Ipv4Addr::new(192, 168, 0, 10).into(),
        detector: LocalDetector::None,
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

impl World {
    fn new() -> Self {
        let relay = Relay::start(Config { open_files: 4096, ..Config::default() }).unwrap();
        let ways = Ways::default();
        let board = ways.clone();
        let announce = Arc::new(move |news| {
            let mut board = board.lock().unwrap();
            let key = |way: &Way| format!("{} {}", way.port, way.frontend);
            match news {
                News::Opened(way) => drop(board.insert(key(&way), way.at)),
                News::Closed(way) => assert_eq!(board.remove(&key(&way)), Some(way.at)),
            }
        });
        Self { mode: UserspaceMode::on_loopback(Arc::new(Mutex::new(relay)), settings(), announce), ways }
    }

    fn sync(&mut self, changes: PortChanges) -> Report {
        let report = self.mode.sync(Instant::now(), changes, &mut |_| {});
        assert!(report.failure.is_none() && report.refused.is_empty(), "{report:?}");
        report
    }

    fn put(&mut self, port: ServicePort) -> Report {
        self.sync(PortChanges::from([(port.name.clone(), Some(Arc::new(port)))]))
    }

    fn ways(&self) -> Vec<String> {
        self.ways.lock().unwrap().keys().cloned().collect()
    }

    fn at(&self, way: &str) -> SocketAddr {
        self.ways.lock().unwrap()[way]
    }
}

/// A target that says one byte to whoever comes.
fn target(byte: u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::Write;
        listener.incoming().map_while(Result::ok).for_each(|mut stream| drop(stream.write_all(&[byte])));
    });
    address
}

/// What is said there; nothing if nobody says anything.
fn heard(at: SocketAddr) -> Option<u8> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).ok().map(|()| byte[0])
}

/// A free port, so that tests do not meet. It is not one that the kernel gives to those who ask for any.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 27_000 + u16::try_from(std::process::id() % 50).unwrap() * 100;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn name(service: &str, protocol: Protocol) -> ServicePortName {
    ServicePortName { service: ServiceName::new("shop", service), port: "".into(), protocol }
}

fn port(service: &str, last: u8, node_port: Option<u16>, targets: &[SocketAddr]) -> ServicePort {
    let endpoint = |address: &SocketAddr| Endpoint {
        address: *address,
        conditions: Conditions::default(),
        node: None,
        hints: None,
    };
    ServicePort {
        name: name(service, Protocol::Tcp),
        family: Family::V4,
        created: 0,
        cluster_ip: IpAddr::V4(Ipv4Addr::new(10, 96, 0, last)),
        port: 80,
        node_port,
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: targets.iter().map(endpoint).collect(),
    }
}

#[test]
fn a_change_touches_only_its_own_listeners() {
    let (mut world, a, b) = (World::new(), target(b'a'), target(b'b'));
    world.mode.settle(Settings { zone: Some("z".into()), ..settings() });
    let report = world.sync(PortChanges::from([
        (name("a", Protocol::Tcp), Some(Arc::new(port("a", 1, None, &[a])))),
        (name("b", Protocol::Tcp), Some(Arc::new(port("b", 2, None, &[b])))),
    ]));
    assert_eq!((report.kind, report.planned, report.confirmed.len()), (Kind::Full, 2, 2));
    assert_eq!(world.ways(), ["shop/a 10.96.0.1:80/tcp", "shop/b 10.96.0.2:80/tcp"]);
    let (at_a, at_b) = (world.at("shop/a 10.96.0.1:80/tcp"), world.at("shop/b 10.96.0.2:80/tcp"));
    assert_eq!((heard(at_a), heard(at_b)), (Some(b'a'), Some(b'b')));
    let report = world.put(port("a", 1, None, &[b]));
    assert_eq!((report.kind, report.planned, report.confirmed.len()), (Kind::Partial, 1, 1));
    assert_eq!((heard(at_a), heard(at_b)), (Some(b'b'), Some(b'b')));
    // Another cluster IP, the same door.
    world.put(port("a", 7, None, &[a]));
    assert_eq!(world.ways(), ["shop/a 10.96.0.7:80/tcp", "shop/b 10.96.0.2:80/tcp"]);
    assert_eq!((world.at("shop/a 10.96.0.7:80/tcp"), heard(at_a)), (at_a, Some(b'a')));
    world.sync(PortChanges::from([(name("a", Protocol::Tcp), None)]));
    assert_eq!((world.ways().len(), heard(at_a), heard(at_b)), (1, None, Some(b'b')));
    assert!(!world.mode.needs_full_sync(Instant::now()) && world.mode.translated().is_none());
}

#[test]
fn a_node_port_changes_hands_in_one_sync() {
    let (mut world, node_port) = (World::new(), Some(free_port()));
    let (older, newer) = (port("a", 1, node_port, &[target(b'a')]), port("b", 2, node_port, &[target(b'b')]));
    world.put(older.clone());
    world.put(newer);
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, node_port.unwrap()));
    assert_eq!((heard(at), world.mode.book().conflicts().len()), (Some(b'a'), 1));
    world.sync(PortChanges::from([(older.name, None)]));
    assert_eq!(heard(at), Some(b'b'));
    assert!(world.mode.set_aside().is_empty());
}

#[test]
fn a_port_in_use_sets_one_frontend_aside_until_it_is_free() {
    let (mut world, taken) = (World::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let at = taken.local_addr().unwrap();
    world.put(port("a", 1, Some(at.port()), &[target(b'a')]));
    let cause = world.mode.set_aside()[&name("a", Protocol::Tcp)].clone();
    assert!(cause.contains("node port") && cause.contains("another program"), "{cause}");
    assert_eq!(heard(world.at("shop/a 10.96.0.1:80/tcp")), Some(b'a'), "its other frontends go on");
    world.put(port("b", 2, None, &[target(b'b')]));
    assert_eq!(heard(world.at("shop/b 10.96.0.2:80/tcp")), Some(b'b'), "and so do others");
    drop(taken);
    world.sync(PortChanges::new());
    assert!(world.mode.set_aside().is_empty());
    assert_eq!(heard(at), Some(b'a'));
}

#[test]
fn sctp_is_set_aside() {
    let mut world = World::new();
    let sctp = ServicePort { name: name("s", Protocol::Sctp), ..port("s", 1, None, &[]) };
    world.put(sctp.clone());
    assert!(world.mode.set_aside()[&sctp.name].contains("SCTP"));
    world.sync(PortChanges::from([(sctp.name, None)]));
    assert!(world.mode.set_aside().is_empty());
}

#[test]
fn without_endpoints_the_port_is_kept_and_clients_are_turned_away() {
    let mut world = World::new();
    world.put(port("a", 1, None, &[]));
    let at = world.at("shop/a 10.96.0.1:80/tcp");
    assert_eq!(heard(at), None);
    world.put(port("a", 1, None, &[target(b'a')]));
    assert_eq!(heard(at), Some(b'a'));
    assert_eq!(world.at("shop/a 10.96.0.1:80/tcp"), at);
}
