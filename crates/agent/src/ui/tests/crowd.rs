//! Pages over HTTP, of a cluster with very many Services: as long as those of a small one.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use switchyard_serve::metrics::Metrics;
use switchyard_serve::server::{Listen, serve_metrics};

use super::*;
use crate::board::Wake;

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
    let mut world = World::new(&ports.collect::<Vec<_>>());
    for n in (0..services).step_by(2) {
        world.complain(&ObjectName::new("Service", "bad", &format!("svc-{n:05}")), &["port 0"]);
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

/// A dashboard on a socket, which asks a board that nobody answers by itself.
struct Served {
    board: Arc<Board>,
    server: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    fn new() -> Self {
        let board = Board::new();
        let looking = Arc::new(Looking::new(Admin::new(board.clone(), identity(), no_source())));
        let about = About { node: "here".into(), mode: "nftables".into(), version: "1".into() };
        let ui = Ui::new(about, Arc::new(ProxyHealth::new(Duration::from_secs(30))), looking);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::new(switchyard_serve::metrics::Mode::Nftables, &[], "1"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let site = Pages {
            mode: "nftables".into(),
            config: "{}".into(),
            flags: None,
            status: None,
            profiling: None,
            ui: Some(ui),
        };
        runtime.spawn(serve_metrics(Listen::Bound(listener), metrics, site));
        Self { board, server, _runtime: runtime }
    }

    /// Nobody asks for longer than the pause between two looks at the ledger.
    fn is_idle(&self) -> bool {
        matches!(self.board.wait(Some(Instant::now() + Duration::from_millis(1200))), Wake::Time)
    }
}

/// What every page costs.
#[derive(Debug)]
struct Costs {
    /// Bytes of each.
    lengths: Vec<(String, usize)>,
    /// How often a question made the loop open a book, at most: once for each service port that is worked out, and a few times more.
    work: usize,
}

/// This thread answers as the loop does.
fn costs(services: u32) -> Costs {
    let world = crowd(services);
    let served = Served::new();
    assert!(served.is_idle(), "nobody has looked yet");
    let server = served.server;
    let reader = std::thread::spawn(move || {
        let length = |(path, part): (String, String)| {
            let answer = get(server, &path);
            assert!(answer.contains(&part), "{part:?} is not on {path}: {answer}");
            (path, answer.len())
        };
        pages(services).into_iter().map(length).collect::<Vec<_>>()
    });
    let (mut work, mut questions) = (0, 0);
    while !reader.is_finished() {
        for question in served.board.take_questions() {
            let before = world.opened();
            question(&world.view());
            work = work.max(world.opened() - before);
            questions += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let lengths = reader.join().unwrap();
    assert_eq!(questions, lengths.len(), "each page is one question");
    assert!(served.is_idle(), "nobody looks any more");
    Costs { lengths, work }
}

#[test]
fn pages_cost_as_much_with_fifty_thousand_services_as_with_few() {
    let (few, many) = (costs(FEW), costs(MANY));
    for ((_, few), (path, many)) in few.lengths.iter().zip(&many.lengths) {
        assert!(*many <= few + DIGITS, "{path} has {many} bytes, and {few} of a small cluster");
    }
    assert!(few.work >= lists::PAGE && few.work <= 4 * lists::PAGE, "{}", few.work);
    assert_eq!(many.work, few.work);
}

/// Rows that are worked out for a page, of a Service that has more of everything than a page may hold.
#[test]
fn a_giant_service_is_bounded_work() {
    let many: Vec<String> = (0..9_000).map(|n| format!("{}:80", cluster_ip(n))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let giant = |n: u32| {
        let mut port = port(&format!("shop/giant:p{n:02}"), "10.96.0.1", if n == 0 { &many } else { &[] });
        port.external_ips = (1..=200).map(|ip| Ipv4Addr::new(203, 0, 113, ip).into()).collect();
        ServicePort { port: 80 + u16::try_from(n).unwrap(), ..port }
    };
    let world = World::new(&(0..90).map(giant).collect::<Vec<_>>());
    let sheet = sheet::sheet(&world.view(), "shop", "giant").unwrap();
    assert_eq!((sheet.ports.len(), sheet.port_count), (24, 90));
    let rows = |of: fn(&PortSheet) -> usize| sheet.ports.iter().map(of).max();
    assert_eq!(rows(|port| port.routes.len()), Some(64));
    assert_eq!(rows(|port| port.endpoints.len()), Some(250));
    let page = lists::page(&world.view(), Search::default());
    assert_eq!((page.services[0].frontends.len(), page.services[0].frontend_count), (6, 90 * 201));
}

/// Who follows changes makes the loop be asked, and who hangs up ends it.
#[test]
fn nothing_is_asked_when_nobody_looks() {
    let served = Served::new();
    assert!(served.is_idle());
    let mut listener = TcpStream::connect(served.server).unwrap();
    write!(listener, "GET /ui/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(!served.is_idle(), "somebody listens");
    drop(listener);
    let world = World::new(&[]);
    let end = Instant::now() + Duration::from_secs(60);
    while !served.is_idle() {
        assert!(Instant::now() < end, "it is asked for nobody");
        served.board.take_questions().into_iter().for_each(|question| question(&world.view()));
    }
}
