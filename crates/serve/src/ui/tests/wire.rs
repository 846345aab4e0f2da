//! The dashboard on the wire: headers, what is refused, and the stream of changes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::{EVIL, change};
use crate::health::ProxyHealth;
use crate::metrics::{Metrics, Mode};
use crate::server::{Listen, Pages, serve_metrics};
use crate::test_client::{ask, connect, raw, runtime};
use crate::ui::*;

/// Knows only changes, and counts how often it is asked.
#[derive(Default)]
struct Stub {
    asked: AtomicUsize,
    changes: Mutex<Changes>,
}

impl Stub {
    fn add(&self, outcome: Outcome) {
        let mut changes = self.changes.lock().unwrap();
        changes.last += 1;
        let next = change(changes.last, Some(1000), outcome);
        changes.entries.push(next);
    }
}

fn ready<T: Send + 'static>(value: T) -> Coming<T> {
    Box::pin(async move { Ok(value) })
}

impl Dashboard for Stub {
    fn overview(&self) -> Coming<Overview> {
        ready(Overview { changes: self.changes.lock().unwrap().clone(), ..Overview::default() })
    }

    fn services(&self, search: Search) -> Coming<ServicePage> {
        ready(ServicePage { search, page_size: 50, ..ServicePage::default() })
    }

    fn service(&self, namespace: String, name: String) -> Coming<ServiceSheet> {
        let text = format!("No Service {namespace}/{name}.");
        Box::pin(async move { Err(Trouble { status: 404, text }) })
    }

    fn changes(&self, after: u64) -> Coming<Changes> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mut changes = self.changes.lock().unwrap().clone();
        changes.entries.retain(|change| change.number > after);
        ready(changes)
    }

    fn set_aside(&self) -> Coming<SetAsidePage> {
        ready(SetAsidePage::default())
    }

    fn explain(&self, parameters: Vec<(String, String)>) -> Coming<Explanation> {
        let text = format!("cannot explain {parameters:?}");
        Box::pin(async move { Err(Trouble { status: 400, text }) })
    }
}

struct Served {
    _runtime: Runtime,
    address: SocketAddr,
    stub: Arc<Stub>,
}

fn served() -> Served {
    let runtime = runtime();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stub = Arc::new(Stub::default());
    let health = Arc::new(ProxyHealth::new(Duration::from_secs(30)));
    let about = About { node: "n1.example.com".into(), mode: "nftables".into(), version: "1".into() };
    let pages = Pages {
        mode: "nftables".to_owned(),
        config: "{}".to_owned(),
        flags: None,
        status: None,
        profiling: None,
        ui: Some(Ui::new(about, health, stub.clone())),
    };
    let metrics = Arc::new(Metrics::new(Mode::Nftables, &[], "1"));
    runtime.spawn(serve_metrics(Listen::Bound(listener), metrics, pages));
    Served { _runtime: runtime, address, stub }
}

fn headers(answer: &str) -> BTreeMap<&str, &str> {
    answer.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(": ")).collect()
}

#[test]
fn every_answer_tells_browsers_what_not_to_do() {
    let server = served();
    for (path, status, kind) in [
        ("/ui/", "200 OK", "text/html; charset=utf-8"),
        ("/ui/services?search=%22%3E%3Cscript%3E&page=-7", "200 OK", "text/html; charset=utf-8"),
        ("/ui/services?page=99999999999999999999", "200 OK", "text/html; charset=utf-8"),
        ("/ui/service?namespace=a&name=%1b%5b", "404 Not Found", "text/html; charset=utf-8"),
        ("/ui/changes", "200 OK", "text/html; charset=utf-8"),
        ("/ui/set-aside", "200 OK", "text/html; charset=utf-8"),
        ("/ui/explain", "200 OK", "text/html; charset=utf-8"),
        ("/ui/explain?to=%3Cscript%3E", "400 Bad Request", "text/html; charset=utf-8"),
        ("/ui/style.css", "200 OK", "text/css; charset=utf-8"),
        ("/ui/live.js", "200 OK", "text/javascript; charset=utf-8"),
        ("/ui/icon.svg", "200 OK", "image/svg+xml"),
        ("/ui/%2e%2e/metrics", "404 Not Found", "text/html; charset=utf-8"),
    ] {
        let answer = ask(server.address, "GET", path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\n")), "{path}: {answer}");
        let headers = headers(&answer);
        assert_eq!(headers["Content-Type"], kind, "{path}");
        let policy = headers["Content-Security-Policy"];
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(headers["X-Content-Type-Options"], "nosniff");
        assert_eq!(headers["Referrer-Policy"], "no-referrer");
        assert_eq!(headers["X-Frame-Options"], "DENY");
        assert!(!answer.contains("<script>"), "{path}: {answer}");
    }
}

#[test]
fn nothing_can_be_changed_and_other_paths_stay_what_they_are() {
    let server = served();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = ask(server.address, method, "/ui/");
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    }
    assert!(ask(server.address, "HEAD", "/ui/").ends_with("\n\n"));
    let answer = ask(server.address, "GET", "/ui");
    assert!(answer.starts_with("HTTP/1.1 302 ") && answer.contains("\nLocation: ui/\n"), "{answer}");
    for path in ["/uix", "/UI/", "//ui/"] {
        assert!(ask(server.address, "GET", path).ends_with("404 page not found\n"), "{path}");
    }
    assert!(ask(server.address, "GET", "/proxyMode").ends_with("\n\nnftables"));
}

#[test]
fn any_protocol_is_no_protocol() {
    let server = served();
    for (query, asked) in [("", ""), ("&protocol=", ""), ("&protocol=udp", "udp")] {
        let page = ask(server.address, "GET", &format!("/ui/explain?to=shop%2Fdns{query}"));
        assert!(page.contains(&format!("(&#34;protocol&#34;, &#34;{asked}&#34;)")), "{query}: {page}");
    }
    let form = ask(server.address, "GET", "/ui/explain");
    assert!(form.contains("<select id=\"protocol\" name=\"protocol\"><option value=\"\""), "{form}");
}

#[test]
fn who_was_led_here_by_another_name_is_sent_away() {
    let server = served();
    let status = |host: &str| {
        let text = format!("GET /ui/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        raw(server.address, &text).split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for host in [
        "127.0.0.1:10249",
        "10.0.0.1",
        "[::1]:10249",
        "[fd00::1]",
        "localhost:80",
        "n1",
        "N1.example.com:10249",
    ] {
        assert_eq!(status(host), "200", "{host}");
    }
    for host in ["evil.example:10249", "127.0.0.1.evil.example", "n1.example.com.evil.example", "localhost."]
    {
        assert_eq!(status(host), "421", "{host}");
    }
}

/// A listener; its lines come one by one.
fn listen(address: SocketAddr, more: &str) -> BufReader<TcpStream> {
    let mut stream = connect(address);
    stream.write_all(format!("GET /ui/events?after=0 HTTP/1.1\r\nHost: x\r\n{more}\r\n").as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Reads until a line begins with this.
fn until(stream: &mut BufReader<TcpStream>, start: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {start:?}");
        if line.starts_with(start) {
            return line;
        }
    }
}

#[test]
fn changes_are_told_as_they_happen_and_texts_stay_one_line() {
    let server = served();
    server.stub.add(Outcome::Written);
    let mut listener = listen(server.address, "");
    assert!(until(&mut listener, "Content-Type: ").contains("text/event-stream"));
    assert_eq!(until(&mut listener, "id: "), "id: 1\n");
    server.stub.add(Outcome::Failed(format!("{EVIL}\n\nevent: restart\ndata: x\n\n")));
    assert_eq!(until(&mut listener, "id: "), "id: 2\n");
    let data = until(&mut listener, "data: ");
    assert!(data.contains("\"Failed\"") && data.contains("\\\\u{a}event: restart"), "{data}");
    let mut later = listen(server.address, "Last-Event-ID: 1\r\n");
    assert_eq!(until(&mut later, "id: "), "id: 2\n");
    let mut stranger = listen(server.address, "Last-Event-ID: 77\r\n");
    until(&mut stranger, "event: restart");
}

#[test]
fn nothing_is_asked_while_nobody_listens_and_listeners_are_few() {
    let server = served();
    let mut crowd: Vec<_> = (0..16).map(|_| listen(server.address, "")).collect();
    crowd.iter_mut().for_each(|listener| assert!(until(listener, "HTTP").contains("200 OK")));
    assert!(until(&mut listen(server.address, ""), "HTTP").contains("503 "));
    drop(crowd);
    // Those who went are noticed, and then nobody asks any more.
    let end = Instant::now() + Duration::from_secs(60);
    let mut before = usize::MAX;
    loop {
        let asked = server.stub.asked.load(Ordering::Relaxed);
        if asked == before {
            break;
        }
        assert!(Instant::now() < end, "the ledger is still read");
        before = asked;
        std::thread::sleep(Duration::from_millis(1500));
    }
    assert!(until(&mut listen(server.address, ""), "HTTP").contains("200 OK"));
}
