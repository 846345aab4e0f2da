//! Pages over HTTP, of a cluster with very many Services: as long as those of a small one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use switchyard_serve::metrics::Metrics;
use switchyard_serve::server::{Listen, serve_metrics};

use super::*;

const FEW: u32 = 500;
const MANY: u32 = 50_000;

/// What longer numbers may add to a page.
const DIGITS: usize = 200;

fn name(n: u32) -> String {
    format!("team-{}/svc-{n:05}", n % 10)
}

fn cluster_ip(n: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a60_0000 + n)
}

/// Every Service has an endpoint, and something is wrong with every second object.
fn crowd(services: u32) -> World {
    let endpoint = |n: u32| format!("{}:80", Ipv4Addr::from_bits(0x0a01_0000 + n));
    let ports = (0..services).map(|n| port(&name(n), &cluster_ip(n).to_string(), &[&endpoint(n)]));
    let mut world = World::new(&ports.collect::<Vec<_>>(), &[]);
    for n in (0..services).step_by(2) {
        let object = ObjectName::new("Service", "bad", &format!("svc-{n:05}"));
        let complaint = Complaint { object: object.clone(), problem: "port 0".into() };
        world.complaints.insert(object, vec![complaint]);
    }
    world
}

/// Every page, and with each what must be on it.
fn pages(services: u32) -> Vec<(String, String)> {
    let last = services - 1;
    let (team, service) = (format!("team-{}", last % 10), format!("svc-{last:05}"));
    [
        ("".to_owned(), "Median latency".to_owned()),
        ("services".to_owned(), "svc-00000".to_owned()),
        (format!("services?page={}", services / 100), "Previous".to_owned()),
        (format!("services?page={}", services / 50), service.clone()),
        ("services?search=svc-".to_owned(), "svc-00000".to_owned()),
        (format!("services?search={service}"), "1 to 1 of 1 Service".to_owned()),
        (format!("services?search={}", cluster_ip(last)), service.clone()),
        (format!("service?namespace={team}&name={service}"), cluster_ip(last).to_string()),
        ("changes".to_owned(), "Changes".to_owned()),
        ("set-aside".to_owned(), "svc-00000".to_owned()),
        (format!("explain?to={}:80", cluster_ip(last)), service.clone()),
    ]
    .into()
}

fn get(server: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(server).unwrap();
    write!(stream, "GET /ui/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    answer
}

/// The length of every page; this thread answers as the loop does.
fn lengths(services: u32) -> Vec<(String, usize)> {
    let world = crowd(services);
    let board = Board::new();
    let identity = admin::Identity { node: "here".to_owned(), mode: crate::flags::Mode::Nftables };
    let looking = Arc::new(Looking::new(Admin::new(board.clone(), identity, no_source())));
    let about = About { node: "here".into(), mode: "nftables".into(), version: "1".into() };
    let ui = Ui::new(about, Arc::new(ProxyHealth::new(Duration::from_secs(30))), looking);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let metrics = Arc::new(Metrics::new(switchyard_serve::metrics::Mode::Nftables, &[], "1"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let site = Pages {
        mode: "nftables".into(),
        config: "{}".into(),
        flags: None,
        status: None,
        profiling: None,
        ui: Some(ui),
    };
    runtime.spawn(serve_metrics(Listen::Bound(listener), metrics, site));
    let reader = std::thread::spawn(move || {
        let length = |(path, part): (String, String)| {
            let answer = get(server, &path);
            assert!(answer.contains(&part), "{part:?} is not on {path}: {answer}");
            (path, answer.len())
        };
        pages(services).into_iter().map(length).collect()
    });
    while !reader.is_finished() {
        board.take_questions().into_iter().for_each(|question| question(&world.view()));
        std::thread::sleep(Duration::from_millis(1));
    }
    reader.join().unwrap()
}

#[test]
fn pages_are_as_long_with_fifty_thousand_services_as_with_few() {
    let (few, many) = (lengths(FEW), lengths(MANY));
    for ((_, few), (path, many)) in few.iter().zip(&many) {
        assert!(*many <= few + DIGITS, "{path} has {many} bytes, and {few} of a small cluster");
    }
}
