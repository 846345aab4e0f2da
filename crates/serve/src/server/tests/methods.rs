//! What can be changed over the network: every path of every server with every method that is not for reading.
//!
//! A page answers other methods as it answers GET, or refuses them; what it answers with success and otherwise than GET changes something.
//! `docs/admin-api.md` lists those.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use switchyard_model::ServiceName;

use super::*;
use crate::service_health::{HealthCheck, ServiceHealth};
use crate::ui::{
    About, Changes, Coming, Dashboard, Explanation, Overview, Search, ServicePage, ServiceSheet,
};
use crate::ui::{SetAsidePage, Trouble, Ui};

const METHODS: [&str; 7] = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"];

/// What is below `/debug/pprof/`. A longer CPU profile than is allowed is refused at once.
const PROFILES: [&str; 8] =
    ["", "cmdline", "profile?seconds=301", "heap", "allocs", "symbol", "goroutine", "nothing"];

const SOURCES: [&str; 3] =
    [include_str!("../metrics_site.rs"), include_str!("../profiling.rs"), include_str!("../../ui/site.rs")];

/// Knows nothing.
struct Nobody;

fn nothing<T: Send + 'static>() -> Coming<T> {
    Box::pin(async { Err(Trouble { status: 404, text: "Nothing.".to_owned() }) })
}

impl Dashboard for Nobody {
    fn overview(&self) -> Coming<Overview> {
        nothing()
    }

    fn services(&self, _: Search) -> Coming<ServicePage> {
        nothing()
    }

    fn service(&self, _: String, _: String) -> Coming<ServiceSheet> {
        nothing()
    }

    fn changes(&self, _: u64) -> Coming<Changes> {
        nothing()
    }

    fn set_aside(&self) -> Coming<SetAsidePage> {
        nothing()
    }

    fn explain(&self, _: Vec<(String, String)>) -> Coming<Explanation> {
        nothing()
    }
}

/// Every path that the sources of the metrics server name.
fn paths() -> BTreeSet<String> {
    let code = SOURCES.iter().flat_map(|source| source.lines());
    let code = code.map(str::trim_start).filter(|line| !line.starts_with("//"));
    let texts = code.flat_map(|line| line.split('"').skip(1).step_by(2));
    let named = texts.filter(|text| text.starts_with('/') && text.len() > 1).map(str::to_owned);
    named.chain(PROFILES.map(|name| format!("/debug/pprof/{name}"))).collect()
}

/// With all that can be enabled, and what the log's verbosity is set to.
fn everything() -> (Runtime, SocketAddr, Arc<Mutex<Vec<u32>>>) {
    let (runtime, (listener, address)) = (runtime(), bound());
    let levels = Arc::new(Mutex::new(Vec::new()));
    let set = levels.clone();
    let set = Arc::new(move |level| set.lock().unwrap().push(level));
    let about = About { node: "n1".to_owned(), mode: "iptables".to_owned(), version: "1".to_owned() };
    let health = Arc::new(ProxyHealth::new(PERIOD));
    let pages = Pages {
        flags: Some(Flagz(BTreeMap::new())),
        status: Some(Statusz { toolchain: "rustc".to_owned(), version: "1.36".to_owned() }),
        profiling: Some(Profiling::new(set, Arc::new(Heap::default))),
        ui: Some(Ui::new(about, health, Arc::new(Nobody))),
        ..pages()
    };
    let metrics = Arc::new(Metrics::new(Mode::Iptables, &[Family::V4], "1"));
    runtime.spawn(serve_metrics(Listen::Bound(listener), metrics, pages));
    (runtime, address, levels)
}

/// Status, kind of page, and the first line of a text, without times and other numbers.
fn answer(address: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n7");
    let text = raw(address, &request);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let kind = head.lines().find_map(|line| line.strip_prefix("Content-Type: ")).unwrap_or_default();
    let line = body.lines().next().filter(|_| !kind.contains("octet-stream")).unwrap_or_default();
    (status, kind.to_owned(), line.replace(|letter: char| letter.is_ascii_digit(), ""))
}

/// What is answered with success, and otherwise than GET.
fn accepted<'a>(address: SocketAddr, paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut accepted = Vec::new();
    for path in paths {
        for method in METHODS {
            // The stream of changes never ends.
            let read = (path != "/ui/events").then(|| answer(address, "GET", path));
            let answer = answer(address, method, path);
            if answer.0 < 300 && Some(&answer) != read.as_ref() {
                accepted.push(format!("{method} {path}"));
            }
        }
    }
    accepted
}

#[test]
fn two_things_can_be_changed_over_the_network() {
    let (_runtime, address, levels) = everything();
    let paths = paths();
    for path in ["/metrics", "/configz", "/debug/flags", "/ui/events", "/ui/explain", "/nowhere"] {
        assert!(path == "/nowhere" || paths.contains(path), "{path} is not among {paths:?}");
    }
    let all = paths.iter().map(String::as_str).chain(["/", "/nowhere"]);
    assert_eq!(accepted(address, all), ["PUT /debug/flags/v", "DELETE /metrics/slis"]);
    assert_eq!(*levels.lock().unwrap(), [7], "nothing else sets the verbosity");
}

#[test]
fn nothing_can_be_changed_where_health_is_told() {
    let server = health_server(PERIOD);
    assert!(accepted(server.address, ["/healthz", "/livez", "/", "/nowhere"]).is_empty());
    let runtime = runtime();
    let addresses = vec!["127.0.0.1".parse().unwrap()];
    let health = server.health.clone();
    let mut checks = ServiceHealth::new(Family::V4, runtime.handle().clone(), health, "n1", addresses);
    let check = HealthCheck { port: free_port(), local_endpoints: 1 };
    let name = ServiceName::new("shop", "web");
    assert!(checks.sync(&BTreeMap::from([(name, check)])).is_empty());
    assert!(accepted(SocketAddr::from(([127, 0, 0, 1], check.port)), ["/", "/nowhere"]).is_empty());
}
