//! Health-check node ports on the wire: answers, ports that come, move and go, and ports that are taken.

use std::net::TcpListener as StdListener;
use std::time::Duration;

use expect_test::expect;
use tokio::runtime::Runtime;

use super::*;
use crate::test_client::{ask, connect, free_port, has_ipv6, runtime, until_closed};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

struct Fixture {
    runtime: Runtime,
    health: Arc<ProxyHealth>,
    checks: ServiceHealth,
}

fn fixture(family: Family, addresses: Vec<IpAddr>) -> Fixture {
    let runtime = runtime();
    let health = Arc::new(ProxyHealth::new(Duration::ZERO));
    let checks = ServiceHealth::new(family, runtime.handle().clone(), health.clone(), "n1", addresses);
    Fixture { runtime, health, checks }
}

fn wanted(list: &[(&str, u16, usize)]) -> BTreeMap<ServiceName, HealthCheck> {
    let check = |(name, port, n): &(&str, u16, usize)| {
        (ServiceName::new("ns", name), HealthCheck { port: *port, local_endpoints: *n })
    };
    list.iter().map(check).collect()
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(LOOPBACK, port)
}

/// The first line of the answer, or nothing if nobody listens.
fn first_line(port: u16) -> Option<String> {
    std::net::TcpStream::connect(at(port)).ok()?;
    ask(at(port), "GET", "/").lines().next().map(str::to_owned)
}

#[test]
fn answers_on_any_path_with_weight_and_tabs() {
    let (mut fixture, port) = (fixture(Family::V4, vec![LOOPBACK]), free_port());
    assert!(fixture.checks.sync(&wanted(&[("web", port, 2)])).is_empty());
    expect![[r#"
        HTTP/1.1 200 OK
        Content-Type: application/json
        X-Content-Type-Options: nosniff
        X-Load-Balancing-Endpoint-Weight: 2
        Content-Length: 109
        Connection: close

        {
        	"service": {
        		"namespace": "ns",
        		"name": "web"
        	},
        	"localEndpoints": 2,
        	"serviceProxyHealthy": true
        }"#]]
    .assert_eq(&ask(at(port), "DELETE", "/any/path?x"));
}

#[test]
fn no_endpoints_or_an_unhealthy_proxy_is_unavailable_and_still_has_a_weight() {
    let (mut fixture, port) = (fixture(Family::V4, vec![LOOPBACK]), free_port());
    fixture.checks.sync(&wanted(&[("web", port, 0)]));
    let answer = ask(at(port), "GET", "/");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("-Weight: 0\n"), "{answer}");
    assert!(answer.contains("\"serviceProxyHealthy\": true"), "{answer}");
    fixture.checks.sync(&wanted(&[("web", port, 3)]));
    assert_eq!(first_line(port).unwrap(), "HTTP/1.1 200 OK");
    fixture.health.updated(Family::V4, Moment::now());
    fixture.health.queued(Family::V4, Moment::now());
    let answer = ask(at(port), "GET", "/");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("-Weight: 3\n"), "{answer}");
    assert!(answer.contains("\"serviceProxyHealthy\": false"), "{answer}");
}

#[test]
fn ports_close_move_and_pass_from_service_to_service() {
    let mut fixture = fixture(Family::V4, vec![LOOPBACK]);
    let (a, b) = (free_port(), free_port());
    assert!(fixture.checks.sync(&wanted(&[("one", a, 1), ("two", b, 1)])).is_empty());
    let mut kept = connect(at(a));
    for _ in 0..20 {
        assert!(fixture.checks.sync(&wanted(&[("one", b, 1), ("two", a, 1)])).is_empty());
        assert!(ask(at(a), "GET", "/").contains("\"name\": \"two\""));
        assert!(fixture.checks.sync(&wanted(&[("one", a, 1), ("two", b, 1)])).is_empty());
        assert!(ask(at(a), "GET", "/").contains("\"name\": \"one\""));
    }
    assert_eq!(until_closed(&mut kept), "", "a closed check drops its connections");
    assert!(fixture.checks.sync(&wanted(&[("two", b, 1)])).is_empty());
    assert_eq!(first_line(a), None);
    assert_eq!(first_line(b).unwrap(), "HTTP/1.1 200 OK");
    drop(fixture.checks);
    assert_eq!(first_line(b), None);
    drop(fixture.runtime);
}

#[test]
fn taken_port_is_reported_and_tried_again() {
    let mut fixture = fixture(Family::V4, vec![LOOPBACK]);
    let (port, other) = (free_port(), free_port());
    let taken = StdListener::bind(at(port)).unwrap();
    let want = wanted(&[("bad", port, 1), ("good", other, 1), ("zero", 0, 1)]);
    let errors = fixture.checks.sync(&want);
    assert_eq!(errors.len(), 2);
    assert_eq!(
        errors[0].event_message(),
        format!(
            "node n1 failed to start healthcheck \"ns/bad\" on port {port}: Address already in use (os error 98)"
        )
    );
    assert_eq!(errors[1].service.to_string(), "ns/zero");
    assert_eq!(first_line(other).unwrap(), "HTTP/1.1 200 OK", "one bad service does not stop the others");
    drop(taken);
    assert_eq!(fixture.checks.sync(&want).len(), 1);
    assert_eq!(first_line(port).unwrap(), "HTTP/1.1 200 OK");
}

#[test]
fn all_addresses_or_none() {
    let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let mut fixture = fixture(Family::V4, vec![LOOPBACK, second, Ipv6Addr::LOCALHOST.into()]);
    let port = free_port();
    let taken = StdListener::bind((second, port)).unwrap();
    let errors = fixture.checks.sync(&wanted(&[("web", port, 1)]));
    assert_eq!(errors.first().unwrap().address, second);
    assert_eq!(first_line(port), None);
    drop(taken);
    assert!(fixture.checks.sync(&wanted(&[("web", port, 1)])).is_empty());
    for address in [LOOPBACK, second] {
        assert!(ask(SocketAddr::new(address, port), "GET", "/").starts_with("HTTP/1.1 200 OK"));
    }
}

#[test]
fn both_families_share_a_wildcard_port() {
    if !has_ipv6() {
        return;
    }
    let port = free_port();
    let (mut four, mut six) = (fixture(Family::V4, vec![]), fixture(Family::V6, vec![]));
    assert!(six.checks.sync(&wanted(&[("web", port, 6)])).is_empty());
    assert!(four.checks.sync(&wanted(&[("web", port, 4)])).is_empty());
    assert!(ask(at(port), "GET", "/").contains("\"localEndpoints\": 4"));
    let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port);
    assert!(ask(v6, "GET", "/").contains("\"localEndpoints\": 6"));
}

#[test]
fn names_are_escaped() {
    let text = String::from_utf8(body(&ServiceName::new("a\"\n", "b\\"), 1, true)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["service"]["namespace"], "a\"\n");
    assert_eq!(value["service"]["name"], "b\\");
}

#[test]
fn listens_where_it_is_told_to() {
    let (mut fixture, port) = (fixture(Family::V4, vec![LOOPBACK]), free_port());
    let wanted = wanted(&[("web", port, 1)]);
    assert!(fixture.checks.sync(&wanted).is_empty());
    assert_eq!(fixture.checks.listen_on(vec![LOOPBACK]), Moved::No);
    assert!(first_line(port).is_some());
    // Another address of the node, in place of the first.
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(fixture.checks.listen_on(vec![other, LOOPBACK.to_canonical(), other]), Moved::Yes);
    assert_eq!(fixture.checks.listen_on(vec![other]), Moved::Yes);
    assert!(fixture.checks.sync(&wanted).is_empty());
    assert!(first_line(port).is_none());
    assert!(std::net::TcpStream::connect(SocketAddr::new(other, port)).is_ok());
    // Without any of the family it is every address.
    assert_eq!(fixture.checks.listen_on(vec![IpAddr::V6(Ipv6Addr::LOCALHOST)]), Moved::Yes);
    assert!(fixture.checks.sync(&wanted).is_empty());
    assert!(first_line(port).is_some());
}
