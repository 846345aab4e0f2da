//! Every answer against what kube-proxy 1.36.4 answered to the same request in the same state, byte by byte.
//!
//! `testdata/*.requests` was sent to a kube-proxy by `testdata/record.py`, which replaced what differs from run to
//! run; here the same is replaced in our answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use switchyard_model::ServiceName;

use super::*;
use crate::service_health::{HealthCheck, ServiceHealth};

const RULE: &str = "========================================\n";

fn recording(name: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)).unwrap()
}

/// Sends the requests of a file and compares with a recording. `left_out` says for which requests we differ on
/// purpose.
fn check(address: SocketAddr, requests: &str, want: &str, left_out: &[&str]) {
    let (requests, want) = (recording(requests), recording(want));
    let (requests, want): (Vec<_>, Vec<_>) = (requests.split(RULE).collect(), want.split(RULE).collect());
    assert_eq!(requests.len(), want.len());
    for (request, want) in requests.iter().zip(&want) {
        let answer = raw(address, &request.replace('\n', "\r\n")).replace("\r\n", "\n");
        let first_line = request.lines().next().unwrap();
        assert_length(&answer, request);
        let (got, want) = (format!("{request}{}\n", stable(&answer)), (*want).to_owned());
        let [got, want] = [got, want].map(|exchange| without_length_of_nothing(&exchange));
        assert_eq!(got == want, !left_out.contains(&first_line), "we say\n{got}\nkube-proxy says\n{want}");
    }
}

/// The length of a body that was not sent is that of a body with times in it.
fn without_length_of_nothing(exchange: &str) -> String {
    let is_head = exchange.starts_with("HEAD ");
    let lines = exchange.split('\n').map(|line| match line.strip_prefix("Content-Length: ") {
        Some(_) if is_head => "Content-Length: N",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A length is right, unless there is no body.
fn assert_length(answer: &str, request: &str) {
    let (head, body) = answer.split_once("\n\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    if let Some(length) = length.filter(|_| !request.starts_with("HEAD ")) {
        assert_eq!(length, body.len().to_string(), "{answer}");
    }
}

/// Replaces what differs from run to run, as `record.py` does.
fn stable(answer: &str) -> String {
    let timeless: Vec<_> = answer
        .split('"')
        .map(|part| if part.parse::<jiff::Timestamp>().is_ok() { "TIME" } else { part })
        .collect();
    let timeless = timeless.join("\"");
    let lines = timeless.split('\n').map(|line| {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        match name {
            "Date:" if value.ends_with(" GMT") && value.len() == 29 => "Date: DATE".to_owned(),
            "Process-Start-Time-Unix:" if value.starts_with('1') => format!("{name} START"),
            "process_start_time_seconds" => format!("{name} START"),
            "uptimeSeconds:" => format!("{name} UP"),
            _ if line.contains("\"uptimeSeconds\":") => without_uptime(line),
            _ => line.to_owned(),
        }
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let has_times = ["TIME", "UP", "_seconds START", "TOOLCHAIN"].iter().any(|word| text.contains(word));
    let lines = text.split('\n').map(|line| match line.strip_prefix("Content-Length: ") {
        Some(_) if has_times => "Content-Length: N",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn without_uptime(line: &str) -> String {
    let (before, after) = line.split_once("\"uptimeSeconds\":").unwrap();
    format!("{before}\"uptimeSeconds\":UP{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// States that a kube-proxy was recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Healthy,
    Unhealthy,
    Tainted,
    Deleting,
    Starting,
}

const STATES: [(State, &str); 5] = [
    (State::Healthy, "healthy"),
    (State::Unhealthy, "unhealthy"),
    (State::Tainted, "tainted"),
    (State::Deleting, "deleting"),
    (State::Starting, "starting"),
];

/// A health server in a state.
fn server_in(state: State) -> Fixture {
    let server = health_server(if state == State::Unhealthy { Duration::ZERO } else { PERIOD });
    let draining = matches!(state, State::Tainted | State::Deleting);
    server.health.node_eligible(if draining { Eligible::No } else { Eligible::Yes });
    for family in Family::ALL {
        server.health.updated(family, Moment::now());
        if matches!(state, State::Unhealthy | State::Starting) {
            server.health.queued(family, Moment::now());
        }
    }
    server
}

#[test]
fn health_in_every_state() {
    for (state, name) in STATES {
        check(server_in(state).address, "probes.requests", &format!("probes-{name}.txt"), &[]);
    }
}

#[test]
fn health_for_every_kind_of_request() {
    check(server_in(State::Healthy).address, "health.requests", "health.txt", &[]);
}

#[test]
fn health_check_ports_in_every_state() {
    for (state, name) in STATES.into_iter().filter(|(state, _)| *state != State::Starting) {
        let (server, runtime) = (server_in(state), runtime());
        let any = vec!["127.0.0.1".parse().unwrap()];
        let mut ports =
            ServiceHealth::new(Family::V4, runtime.handle().clone(), server.health.clone(), "n1", any);
        let [some, none] = [("lblocal", 1), ("lblocalnone", 0)].map(|(name, local_endpoints)| {
            let service = ServiceName { namespace: format!("ns-{name}").into(), name: name.into() };
            (service, HealthCheck { port: free_port(), local_endpoints })
        });
        assert!(ports.sync(&BTreeMap::from([some.clone(), none.clone()])).is_empty());
        let at = |check: &HealthCheck| SocketAddr::from(([127, 0, 0, 1], check.port));
        check(at(&some.1), "probes.requests", &format!("port-{name}.txt"), &[]);
        check(at(&none.1), "probes.requests", &format!("port-none-{name}.txt"), &[]);
        if state == State::Healthy {
            check(at(&some.1), "port.requests", "port.txt", &[]);
        }
    }
}

/// The JSON object in the recorded answer to a request that starts so.
fn recorded_object(start: &str) -> (String, Value) {
    let pages = recording("pages.txt");
    let exchange = pages.split(RULE).find(|exchange| exchange.starts_with(start)).unwrap();
    let body = exchange.splitn(3, "\n\n").nth(2).unwrap().trim_end().to_owned();
    let value = serde_json::from_str(&body).unwrap();
    (body, value)
}

#[test]
fn pages_of_the_metrics_server() {
    let (config, _) = recorded_object("GET /configz ");
    let config =
        config.strip_prefix("{\"kubeproxy.config.k8s.io\":").unwrap().strip_suffix('}').unwrap().to_owned();
    let accept = "Accept: application/json;v=v1beta1;g=config.k8s.io;as=Flagz";
    let (_, flags) = recorded_object(&format!("GET /flagz HTTP/1.1\nHost: x\n{accept}"));
    let flags = flags["flags"].as_object().unwrap().iter();
    let flags = flags.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
    let pages = Pages {
        config,
        flags: Some(Flagz(flags)),
        status: Some(Statusz { toolchain: "TOOLCHAIN".to_owned(), version: "1.36".to_owned() }),
        ..pages()
    };
    let (_runtime, address) = site(pages);
    check(address, "pages.requests", "pages.txt", &[]);
}

#[test]
fn pages_of_profiling() {
    let level = Arc::new(AtomicU32::new(0));
    let seen = level.clone();
    let set = Arc::new(move |value| level.store(value, Ordering::Relaxed));
    let profiling = Profiling::new(set, Arc::new(Heap::default));
    let (_runtime, address) = site(Pages { profiling: Some(profiling), ..pages() });
    check(address, "debug.requests", "debug.txt", &[]);
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[test]
fn heap_profiles_are_attachments_and_have_no_parameters() {
    let take = Arc::new(Heap::default);
    let (_runtime, address) =
        site(Pages { profiling: Some(Profiling::new(Arc::new(|_| ()), take)), ..pages() });
    for name in ["heap", "allocs"] {
        let answer = ask(address, "GET", &format!("/debug/pprof/{name}?gc=1&debug=0"));
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let file = format!("Content-Disposition: attachment; filename=\"{name}\"");
        assert!(
            answer.contains(&file) && answer.contains("Content-Type: application/octet-stream"),
            "{answer}"
        );
        for parameter in ["debug=1", "seconds=3"] {
            let answer = ask(address, "GET", &format!("/debug/pprof/{name}?{parameter}"));
            assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("go tool pprof"), "{answer}");
        }
    }
}

#[test]
fn without_profiling_its_pages_are_not_found() {
    let (_runtime, address) = site(pages());
    for path in [
        "/debug/pprof",
        "/debug/pprof/",
        "/debug/pprof/profile",
        "/debug/pprof/heap",
        "/debug/flags/v",
        "/flagz",
        "/statusz",
    ] {
        assert!(ask(address, "GET", path).starts_with("HTTP/1.1 404 "), "{path}");
    }
}

fn site(pages: Pages) -> (Runtime, SocketAddr) {
    let (runtime, (listener, address)) = (runtime(), bound());
    let metrics = Arc::new(Metrics::new(Mode::Iptables, &[Family::V4], "1"));
    runtime.spawn(serve_metrics(Listen::Bound(listener), metrics, pages));
    (runtime, address)
}
