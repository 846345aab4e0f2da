//! Endpoints that refuse or hang, files that run out, strangers at the listeners.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use switchyard_lab::scenario::address::wire_family;
use switchyard_lab::{Dial, Held, Host, Transport};
use switchyard_model::Family;

use crate::common::looking::{at, eventually, ip};
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::crowds::queue;
use crate::{is_turned_away, refused, relayed, run_by};

const DNS: &str = "service dns cluster.2:53/udp nodeport=30053 etp=Local\nendpoint dns n1.1:8080/udp\nendpoint dns n2.1:8080/udp";

const WEB: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080";

/// Nobody has the first address, nobody listens at the second.
const BAD: &str =
    "service bad cluster.2:80/tcp\nendpoint bad n2.240:8080\nendpoint bad n1.2:9\nendpoint bad n1.1:8080";

#[test]
fn endpoints_that_refuse_or_hang_cost_no_connection() {
    let Some(world) = World::running(Variant::Userspace, BAD) else { return };
    for family in Family::ALL {
        for _ in 0..6 {
            let dial = Dial::tcp(at("cluster.2:80", family)).within(Duration::from_secs(10));
            assert_eq!(world.host("n1.9").dial(&dial).name(), Some("pod-1-1"));
        }
    }
    assert!(relayed(&world, "retries_total") >= 8.0, "{}", relayed(&world, "retries_total"));
    assert_eq!(refused(&world, "unreachable"), 0.0);
    world.write("remove endpoint bad n1.1:8080\nremove endpoint bad n2.240:8080");
    world.settle();
    let answer = world.ask("n1.9", Transport::Tcp, "cluster.2:80", Family::V4);
    assert!(is_turned_away(&answer), "{answer:?}");
    eventually("it is counted", || refused(&world, "unreachable") > 0.0);
}

/// Ports of n1 on which its proxy listens, beside those that are known.
fn listeners(host: &Host, family: Family, transport: Transport) -> Vec<SocketAddr> {
    let flag = if family == Family::V4 { "-4" } else { "-6" };
    let kind = if transport == Transport::Tcp { "-t" } else { "-u" };
    let text = host.exec_ok("ss", &[flag, "-H", "-l", "-n", kind]).unwrap();
    let addresses = text.lines().filter_map(|line| line.split_whitespace().nth(3)?.parse().ok());
    addresses.filter(|a: &SocketAddr| a.ip() == host.ip(wire_family(family))).collect()
}

#[test]
fn a_listener_takes_nobody_but_who_was_led_there() {
    let Some(world) = World::running(Variant::Userspace, &format!("{WEB}\n{DNS}")) else { return };
    for (family, transport) in
        Family::ALL.into_iter().flat_map(|f| [(f, Transport::Tcp), (f, Transport::Udp)])
    {
        let found = listeners(world.n1(), family, transport);
        assert!(!found.is_empty(), "{family}");
        for listener in found {
            for from in ["client", "n1.9", "n1"] {
                let answer = world.host(from).dial(&Dial::new(transport, listener));
                assert!(is_turned_away(&answer), "{from} {listener}: {answer:?}");
            }
        }
    }
    assert_eq!(relayed(&world, "flows_total"), 0.0);
    world.wait_for_answer("n1", Transport::Udp, "cluster.2:53", &["n1.1"]);
    assert!(refused(&world, "no_endpoint") >= 6.0);
    world.wait_for_answer("client", Transport::Tcp, "n1:30080", &["n1.1"]);
}

#[test]
fn the_limit_of_open_files_is_raised_and_used() {
    let Some(world) = World::new_or_skip(Variant::Userspace) else { return };
    world.write(WEB);
    let mut limited = run_by("prlimit", &["--nofile=300:2000"], &world.command(&[]));
    world.launch(world.n1(), &mut limited);
    world.settle();
    assert!(world.log().contains("limit of open files before=300 now=2000"));
    let _queue = queue(&world);
    world.write("service crowd cluster.2:80/tcp\nendpoint crowd n1.2:9000");
    world.settle();
    let to = at("cluster.2:80", Family::V4);
    let held = world.pod("n1.9").run(move || (0..900).map(|_| TcpStream::connect(to)).collect::<Vec<_>>());
    assert!(held.unwrap().iter().all(Result::is_ok));
    eventually("all are relayed", || relayed(&world, "open_connections") >= 900.0);
    assert_eq!(refused(&world, "out_of_descriptors"), 0.0);
}

#[test]
fn files_that_run_out_refuse_the_new_and_keep_the_old() {
    let Some(world) = World::new_or_skip(Variant::Userspace) else { return };
    world.write(WEB);
    let mut limited = run_by("prlimit", &["--nofile=400:400"], &world.command(&[]));
    world.launch(world.n1(), &mut limited);
    world.settle();
    let dial = Dial::tcp(at("cluster.1:80", Family::V4)).within(Duration::from_secs(5));
    let caller = world.pod("n1.9");
    let mut held: Vec<Held> = Vec::new();
    loop {
        assert!(held.len() < 400, "nobody was refused");
        let Ok(mut next) = caller.hold(&dial) else { break };
        let answer = next.ask();
        if is_turned_away(&answer) {
            break;
        }
        assert_eq!(answer.name(), Some("pod-1-1"), "{answer:?}");
        held.push(next);
    }
    assert!(held.len() > 50, "only {}", held.len());
    for _ in 0..20 {
        let answer = world.ask("n1.9", Transport::Tcp, "cluster.1:80", Family::V4);
        assert!(is_turned_away(&answer), "{answer:?}");
    }
    assert!(refused(&world, "out_of_descriptors") >= 20.0);
    assert_eq!(world.log().matches("too many open files").count(), 1, "told once");
    assert_eq!(world.health("/healthz").0, 200);
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some("pod-1-1")));
    // Services can still change.
    world.write("endpoint web n2.1:8080");
    world.settle();
    held.clear();
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    world.wait_for_log("there are enough descriptors again");
}

/// One datagram from each of these ports of a pod; says how many were sent.
fn flood(world: &World, to: SocketAddr, ports: Range<u16>) -> usize {
    let flooder = world.pod("n1.8");
    let from = ip(&flooder, Family::V4);
    let send = move |port: u16| UdpSocket::bind((from, port))?.send_to(b"flood\n", to);
    flooder.run(move || ports.filter(|port| send(*port).is_ok()).count()).unwrap()
}

#[test]
fn floods_leave_ports_to_the_node() {
    let Some(world) = World::new_or_skip(Variant::Userspace) else { return };
    let range = "40000 47999";
    world.n1().run(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range)).unwrap().unwrap();
    let service = |n: u8| format!("service u{n} cluster.{n}:53/udp\nendpoint u{n} n1.1:8080/udp\n");
    world.write(&(1..=5).map(service).collect::<String>());
    world.start(&[]);
    world.settle();
    // A busy machine loses most of it.
    eventually("half of the ports are used", || {
        for n in 1..=4 {
            assert!(flood(&world, at(&format!("cluster.{n}:53"), Family::V4), 1025..9000) > 7000);
        }
        relayed(&world, "open_flows") >= 3900.0
    });
    let open = relayed(&world, "open_flows");
    assert!(open <= 4000.0, "{open}");
    let own = world.n1().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap();
    assert!(own.is_ok(), "{own:?}");
    world.wait_for_answer("n1.9", Transport::Udp, "cluster.5:53", &["n1.1"]);
    assert!(world.log().matches("too many UDP clients").count() <= 1, "told once, if anybody was refused");
}

#[test]
fn a_flood_of_udp_clients_is_bounded() {
    let dns = "service dns cluster.2:53/udp\nendpoint dns n1.1:8080/udp";
    let Some(world) = World::running(Variant::Userspace, dns) else { return };
    // A busy machine loses most of it.
    eventually("more clients came than have room", || {
        assert!(flood(&world, at("cluster.2:53", Family::V4), 1025..32_000) > 20_000);
        relayed(&world, "flows_total") > 8192.0
    });
    world.wait_for_answer("n1.9", Transport::Udp, "cluster.2:53", &["n1.1"]);
    let open = relayed(&world, "open_flows");
    assert!(open <= 8192.0, "{open}");
    assert!(relayed(&world, "evicted_flows_total") > 0.0);
    assert_eq!(world.health("/healthz").0, 200);
}

#[test]
fn a_client_or_an_endpoint_that_vanishes_ends_its_connection() {
    let Some(world) = World::running(Variant::Userspace, WEB) else { return };
    let dial = Dial::tcp(at("cluster.1:80", Family::V4));
    let mut held = world.pod("n1.9").hold(&dial).unwrap();
    assert_eq!(held.ask().name(), Some("pod-1-1"));
    assert_eq!(relayed(&world, "open_connections"), 1.0);
    drop(held);
    eventually("the client's end ends it", || relayed(&world, "open_connections") == 0.0);
    // An endpoint that accepts and closes at once.
    let pod = world.pod("n1.3");
    let listener = pod.run(|| TcpListener::bind("0.0.0.0:7")).unwrap().unwrap();
    world.write("service early cluster.3:80/tcp\nendpoint early n1.3:7");
    world.settle();
    let closing = std::thread::spawn(move || drop(listener.accept()));
    let mut held = world.pod("n1.9").hold(&Dial::tcp(at("cluster.3:80", Family::V4))).unwrap();
    assert!(held.ask().name().is_none());
    closing.join().unwrap();
    drop(held);
    eventually("the endpoint's end ends it", || relayed(&world, "open_connections") == 0.0);
}
