//! The servers on the wire: their pages, clients that misbehave, and addresses that are taken.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::time::{Duration, Instant};

use switchyard_model::Family;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::*;

mod methods;
mod recorded;
use crate::Moment;
use crate::health::Eligible;
use crate::metrics::Mode;
use crate::test_client::{ask, connect, free_port, has_ipv6, raw, runtime, until_closed};

const PERIOD: Duration = Duration::from_secs(30);

struct Fixture {
    _runtime: Runtime,
    address: SocketAddr,
    health: Arc<ProxyHealth>,
    metrics: Arc<Metrics>,
}

fn bound() -> (StdListener, SocketAddr) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn health_server(period: Duration) -> Fixture {
    let (runtime, (listener, address)) = (runtime(), bound());
    let health = Arc::new(ProxyHealth::new(period));
    let metrics = Arc::new(Metrics::new(Mode::Iptables, &[Family::V4], "1"));
    runtime.spawn(serve_health(Listen::Bound(listener), health.clone(), metrics.clone()));
    Fixture { _runtime: runtime, address, health, metrics }
}

fn metrics_server() -> Fixture {
    let (runtime, (listener, address)) = (runtime(), bound());
    let metrics = Arc::new(Metrics::new(Mode::Iptables, &[Family::V4], "1"));
    runtime.spawn(serve_metrics(Listen::Bound(listener), metrics.clone(), pages()));
    Fixture { _runtime: runtime, address, health: Arc::new(ProxyHealth::new(PERIOD)), metrics }
}

fn pages() -> Pages {
    Pages {
        mode: "iptables".to_owned(),
        config: "{}".to_owned(),
        flags: None,
        status: None,
        profiling: None,
        ui: None,
    }
}

fn metrics_site() -> Arc<MetricsSite> {
    Arc::new(MetricsSite::new(Arc::new(Metrics::new(Mode::Other, &[], "1")), pages()))
}

/// A small server with limits that a test can reach.
fn small_server(connections: Connections) -> (Runtime, SocketAddr) {
    let (runtime, (listener, address)) = (runtime(), bound());
    listener.set_nonblocking(true).unwrap();
    runtime.spawn(async move {
        serve_listener(TcpListener::from_std(listener).unwrap(), connections, metrics_site()).await
    });
    (runtime, address)
}

#[test]
fn unhealthy_proxy_fails_both_and_is_counted() {
    let server = health_server(Duration::ZERO);
    server.health.node_eligible(Eligible::Yes);
    server.health.updated(Family::V4, Moment::now());
    server.health.queued(Family::V4, Moment::now());
    server.health.failed(Family::V4, "Service a/b: no", Moment::now());
    for path in ["/healthz", "/livez", "/livez"] {
        let answer = ask(server.address, "GET", path);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("IPv4: Service a/b: no\"}"), "{answer}");
    }
    let page = server.metrics.render();
    assert!(page.contains("kubeproxy_proxy_healthz_total{code=\"503\"} 1\n"));
    assert!(page.contains("kubeproxy_proxy_livez_total{code=\"503\"} 2\n"));
}

#[test]
fn a_page_of_metrics_says_its_format() {
    let server = metrics_server();
    let page = ask(server.address, "GET", "/metrics");
    let plain = "\nContent-Type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores\n";
    assert!(page.contains(plain), "{page}");
    assert!(page.contains("\nProcess-Start-Time-Unix: 1"), "{page}");
    assert!(page.contains("\n# TYPE kubeproxy_sync_proxy_rules_endpoint_changes_total counter\n"));
    assert!(ask(server.address, "HEAD", "/metrics").ends_with("\n\n"));
    let accept = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept: application/openmetrics-text;\
                  version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\n\r\n";
    assert!(
        raw(server.address, accept)
            .contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8\r\n")
    );
}

#[test]
fn slow_head_is_cut_off() {
    let limits = Connections::new(8).with_head_timeout(Duration::from_millis(300));
    let (_runtime, address) = small_server(limits);
    let start = Instant::now();
    let mut silent = connect(address);
    assert_eq!(raw(address, "GET /healthz HTTP/1.1\r\nHost:").lines().count(), 0);
    assert_eq!(until_closed(&mut silent), "");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn crowd_of_idle_clients_keeps_nobody_out() {
    let (_runtime, address) = small_server(Connections::new(8));
    let mut crowd: Vec<_> = (0..40).map(|_| connect(address)).collect();
    for _ in 0..20 {
        assert!(ask(address, "GET", "/healthz").ends_with("\n\nok"));
    }
    for stream in &mut crowd[..32] {
        assert_eq!(until_closed(stream), "");
    }
}

#[test]
fn large_heads_and_bodies_are_refused_or_ignored() {
    let (_runtime, address) = small_server(Connections::new(8));
    let head = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", "x".repeat(20_000));
    let answer = raw(address, &head);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let head = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    assert!(raw(address, &head).starts_with("HTTP/1.1 431 "));
    let answer = raw(address, "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
}

#[test]
fn taken_address_is_an_error() {
    let (runtime, (_listener, address)) = (runtime(), bound());
    let error = runtime.block_on(Listen::OrFail(address).listener("health server", "--flag")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {address} for the health server; free the address or give another with --flag"
        )
    );
    assert_eq!(error.source.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn taken_address_is_tried_again() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let taken = StdListener::bind(address).unwrap();
    runtime.block_on(async {
        let waiting = tokio::spawn(Listen::Retrying(address).listener("health server", "--flag"));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        drop(taken);
        let opened = tokio::time::timeout(Duration::from_secs(6), waiting).await.unwrap();
        assert_eq!(opened.unwrap().unwrap().local_addr().unwrap().port(), address.port());
    });
}

#[test]
fn ipv4_wildcard_answers_on_both_families() {
    if !has_ipv6() {
        return;
    }
    let (runtime, port) = (runtime(), free_port());
    let listen = Listen::OrFail(SocketAddr::from(([0, 0, 0, 0], port)));
    let listener = runtime.block_on(listen.listener("metrics server", "--flag")).unwrap();
    runtime.spawn(serve_listener(listener, Connections::new(8), metrics_site()));
    for address in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(address.parse().unwrap(), port);
        assert!(ask(address, "GET", "/healthz").ends_with("\n\nok"));
    }
}
