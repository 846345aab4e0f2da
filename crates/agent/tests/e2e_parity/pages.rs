//! The pages of both: health in every state of the node, health-check node ports while local endpoints go and come back, and the pages of
//! the metrics server. Every answer must be the same, and have the status that is expected of kube-proxy.
//!
//! Health checks are asked from the client, as a load balancer does, the metrics server from the node itself.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_lab::scenario::address::Symbol;
use switchyard_lab::scenario::{CLUSTER_CIDR, Scenario, to_manifests};
use switchyard_model::Family;

use crate::cases::marked;
use crate::common::looking::within;
use crate::common::variant::{Variant, say};
use crate::e2e::api::Api;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::programs::{KUBE_PROXY, find_or_skip};
use crate::http::Answer;
use crate::metrics::Metrics;
use crate::peers::{Peers, Plan};

/// How long news may take to be on a page.
const NEWS: Duration = Duration::from_secs(15);

const NODE: &str = "/api/v1/nodes/n1";

/// Services with health-check node ports: one with endpoints on n1, one with another one's, and one with none. Then n1 loses its endpoints.
const OBJECTS: &str = "\
service web cluster.1:80/tcp lb=lb.1 nodeport=30080 etp=Local health=30090
endpoint web n1.1:8080
endpoint web n1.2:8080
endpoint web n1.3:8080 ready=false serving=true terminating=true
endpoint web n2.1:8080
service away cluster.2:80/tcp lb=lb.2 nodeport=30081 etp=Local itp=Local health=30091
endpoint away n2.1:8080
service none cluster.3:80/tcp lb=lb.3 nodeport=30082 etp=Local health=30092
service udp cluster.4:53/udp
endpoint udp n1.1:53/udp
then only an endpoint that terminates is left on the node
remove endpoint web n1.1:8080
remove endpoint web n1.2:8080
then no endpoint is left on the node
remove endpoint web n1.3:8080
";

/// Of whom the endpoints go, and the others, which n1 has no ready endpoint of.
const WEB: u16 = 30090;
const OTHERS: [u16; 2] = [30091, 30092];

/// Whether n1 has ready endpoints of the first Service, as the status of its health check.
const READY: &str = "200";
const NONE_READY: &str = "503";

#[test]
fn pages_iptables() {
    compare_pages(Variant::Nft);
}

#[test]
fn pages_nftables() {
    compare_pages(Variant::Nftables);
}

/// What was compared so far.
struct Pages {
    peers: Peers,
    passed: usize,
    failed: usize,
}

fn compare_pages(variant: Variant) {
    let Some(kube_proxy) = find_or_skip(KUBE_PROXY) else { return };
    let Some(control_plane) = ControlPlane::start_or_skip() else { return };
    let scenario = Scenario::parse("pages", OBJECTS).unwrap();
    let steps = scenario.steps.iter().map(|step| {
        let list = serde_json::from_str(&to_manifests(&step.objects, &Family::ALL)).unwrap();
        (step.title.as_str(), marked(&list, 1))
    });
    let steps: Vec<(&str, Value)> = steps.collect();
    control_plane.api().put_all(&steps.first().unwrap().1).unwrap();
    let flags =
        [format!("--cluster-cidr={CLUSTER_CIDR}"), "--metrics-bind-address=127.0.0.1:10249".to_owned()];
    let plan = Plan {
        kube_proxy: &kube_proxy,
        control_plane: &control_plane,
        variant,
        flags: &flags,
        scenario: &scenario,
    };
    let mut pages = Pages { peers: Peers::start(&plan), passed: 0, failed: 0 };
    pages.peers.await_mark(1).unwrap();
    pages.endpoints(&control_plane.api(), &steps);
    pages.health(&control_plane.api());
    pages.of_the_metrics_server();
    pages.metrics();
    let Pages { passed, failed, .. } = pages;
    say(&format!("parity pages, {variant}: {passed} passed, {failed} failed"));
    assert!(passed > 0 && failed == 0, "pages differ, see above");
}

impl Pages {
    /// In every state that the Node can be in.
    fn health(&mut self, api: &Api) {
        self.of_the_health_server("healthy", "200");
        let taint = json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
        api.patch(NODE, &json!({ "spec": { "taints": taint } })).unwrap();
        self.of_the_health_server("tainted", "503");
        api.patch(NODE, &json!({ "spec": { "taints": null } })).unwrap();
        self.of_the_health_server("healthy again", "200");
        // With a finalizer, a deletion begins and does not end.
        api.patch(NODE, &json!({ "metadata": { "finalizers": ["switchyard.test/held"] } })).unwrap();
        api.delete(NODE).unwrap();
        self.of_the_health_server("being deleted", "503");
        api.patch(NODE, &json!({ "metadata": { "finalizers": null } })).unwrap();
        assert!(within(NEWS, || api.read(NODE).is_err()), "the Node is still there");
        self.of_the_health_server("gone", "503");
    }

    /// As the endpoints of the node go and come back.
    fn endpoints(&mut self, api: &Api, steps: &[(&str, Value)]) {
        let (first, gone) = steps.split_first().unwrap();
        assert_eq!(gone.len(), 2, "the steps of the objects");
        self.of_the_health_checks("with endpoints", READY);
        for (state, list) in gone {
            api.put_all(list).unwrap();
            self.of_the_health_checks(state, NONE_READY);
        }
        api.put_all(&first.1).unwrap();
        self.of_the_health_checks("with endpoints again", READY);
    }

    /// `health` is the status of `/healthz`. That of health-check node ports says nothing of the Node.
    fn of_the_health_server(&mut self, state: &str, health: &str) {
        for family in Family::ALL {
            let server = SocketAddr::new(Symbol::Node(1).ip(family).unwrap(), 10256);
            for (request, expected) in [
                ("GET /healthz", health),
                ("HEAD /healthz", health),
                ("GET /healthz?x=1", health),
                ("GET /livez", "200"),
                ("POST /livez", "200"),
                ("GET /", "404"),
                ("GET /healthz/", "404"),
            ] {
                self.compare(state, request, Symbol::Client, server, expected);
            }
        }
        self.of_the_health_checks(state, READY);
    }

    /// `expected` is the status of the Service that has endpoints of the node, or had.
    fn of_the_health_checks(&mut self, state: &str, expected: &str) {
        for ip in Family::ALL.map(|family| Symbol::Node(1).ip(family).unwrap()) {
            let others = OTHERS.map(|port| (port, NONE_READY));
            for (port, expected) in [(WEB, expected)].into_iter().chain(others) {
                for request in ["GET /healthz", "GET /", "GET /any/path", "HEAD /", "POST /"] {
                    self.compare(state, request, Symbol::Client, SocketAddr::new(ip, port), expected);
                }
            }
        }
    }

    /// The Node is gone by now, which these pages say nothing of.
    fn of_the_metrics_server(&mut self) {
        let (from, server) = (Symbol::Node(1), "127.0.0.1:10249".parse().unwrap());
        for (request, expected) in [
            ("GET /proxyMode", "200"),
            ("HEAD /proxyMode", "200"),
            ("GET /healthz", "200"),
            ("GET /healthz/ping", "200"),
            ("GET /healthz?verbose", "200"),
            ("GET /configz", "200"),
            ("GET /nothing", "404"),
            ("GET /", "404"),
        ] {
            self.compare("without a Node", request, from, server, expected);
        }
        for (request, lines) in
            [("GET /statusz", 2), ("GET /flagz", 2), ("GET /metrics", 0), ("GET /metrics/slis", 0)]
        {
            let asked = self.ask(request, from, server);
            let heads = asked.map(|answer| answer.map(|answer| head(&answer, lines)));
            self.count(&format!("head of {request}"), &Answer::difference(&heads[0], &heads[1]));
        }
    }

    fn metrics(&mut self) {
        let [theirs, ours] = self
            .ask("GET /metrics", Symbol::Node(1), "127.0.0.1:10249".parse().unwrap())
            .map(|answer| Metrics::parse(&answer.unwrap().body));
        assert!(theirs.count() > 20, "kube-proxy's page is not a page of metrics");
        self.count("metrics", &Metrics::difference(&theirs, &ours));
    }

    fn ask(&self, request: &str, from: Symbol, server: SocketAddr) -> [Result<Answer, String>; 2] {
        [&self.peers.upstream, &self.peers.ours].map(|proxy| Answer::to(request, proxy.host(from), server))
    }

    /// Asks until both say the same, with the status that is expected.
    fn compare(&mut self, state: &str, request: &str, from: Symbol, server: SocketAddr, expected: &str) {
        let mut difference = String::new();
        within(NEWS, || {
            let [theirs, ours] = self.ask(request, from, server);
            difference = Answer::difference(&theirs, &ours);
            let is_expected = theirs.as_ref().is_ok_and(|answer| answer.code() == expected);
            if difference.is_empty() && !is_expected {
                difference = format!("    both: {theirs:?}, expected {expected}\n");
            }
            difference.is_empty()
        });
        self.count(&format!("{state}: {request} to {server}"), &difference);
    }

    fn count(&mut self, title: &str, difference: &str) {
        if difference.is_empty() {
            self.passed += 1;
        } else {
            self.failed += 1;
            say(&format!("{}: {title}:\n{difference}", self.peers.variant));
        }
    }
}

/// Status, headers and the first lines, which say what a page is.
fn head(answer: &Answer, lines: usize) -> Answer {
    let first: Vec<&str> = answer.body.lines().take(lines).collect();
    Answer { body: first.join("\n"), ..answer.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_status_headers_and_first_lines() {
        let answer = |body: &str| Answer {
            status: "HTTP/1.1 200 OK".into(),
            headers: vec!["Content-Type: text/plain".into()],
            body: body.into(),
        };
        assert_eq!(head(&answer("a\nb\nc"), 2), head(&answer("a\nb\nd"), 2));
        assert_ne!(head(&answer("a\nb\nc"), 2), head(&answer("a\nc\nc"), 2));
    }
}
