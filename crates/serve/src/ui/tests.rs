//! Pages as text, against files that were looked at, and on the wire. Names are the worst that somebody may think of.

mod wire;

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use expect_test::expect_file;
use switchyard_model::{Family, Protocol, ServiceName, TrafficPolicy};

use super::explain::Typed;
use super::html::Html;
use super::layout::{Health, Page, Tab};
use super::*;

/// Markup, an attribute's end, a terminal's escape, an override of direction, and letters of other scripts.
const EVIL: &str =
    "\"'><script>alert(1)</script><img src=x onerror=alert(2)>\u{1b}[31m\u{202e}gpj.\u{200b}é日שלום";

fn about() -> About {
    About { node: EVIL.to_owned(), mode: "nftables".to_owned(), version: "1.2.3".to_owned() }
}

fn page(tab: Tab, health: &Health, content: impl FnOnce(&mut Html)) -> String {
    Page { about: &about(), health, tab: Some(tab), title: EVIL }.around(content)
}

fn well() -> Health {
    Health { healthy: true, node_eligible: true, last_error: None }
}

/// Every tag of the page, by name; a text that became markup would be among them.
fn elements(page: &str) -> Vec<String> {
    let tags =
        page.split('<').skip(1).map(|rest| rest.split([' ', '>', '/']).next().unwrap_or_default().to_owned());
    let mut tags: Vec<String> = tags.filter(|tag| !tag.is_empty()).collect();
    tags.sort();
    tags.dedup();
    tags
}

/// The page is the one in the file, and no text of an object is anything but a text.
fn check(name: &str, page: &str) {
    for harm in
        ["<script>", "<img", "\u{1b}", "\u{202e}", "\u{200b}", "<b>x", "'>", "style=", " onerror=alert(2)>"]
    {
        assert!(!page.contains(harm), "{name}: {harm:?} in {page}");
    }
    let ours = "!doctype a b body button caption circle code dd div dl dt figcaption figure footer form h1 h2 head header html \
                input label li line link main meta nav option p path script section select span strong svg table tbody td text \
                th thead title tr ul";
    let ours: Vec<&str> = ours.split_ascii_whitespace().collect();
    let strange: Vec<String> =
        elements(page).into_iter().filter(|tag| !ours.contains(&tag.as_str())).collect();
    assert!(strange.is_empty(), "{name}: {strange:?}");
    assert_eq!(page.matches("<script").count(), 1, "{name}: the one script is a file of ours");
    expect_file![format!("{}/src/ui/tests/{name}.html", env!("CARGO_MANIFEST_DIR"))].assert_eq(page);
}

pub(super) fn change(number: u64, latency: Option<u64>, outcome: Outcome) -> Change {
    let committed = SystemTime::UNIX_EPOCH + Duration::from_millis(1_794_813_165_007 + 700 * number);
    Change {
        number,
        family: if number.is_multiple_of(2) { Family::V6 } else { Family::V4 },
        kind: if number == 1 { ChangeKind::Full } else { ChangeKind::Partial },
        services: vec![ServiceName::new("shop", EVIL), ServiceName::new("shop", "web")],
        service_count: 2 + usize::try_from(number).unwrap() % 3,
        seen: latency.map(|latency| committed - Duration::from_micros(latency)),
        committed,
        latency: latency.map(Duration::from_micros),
        took: Duration::from_micros(300),
        operations: 1234,
        outcome,
    }
}

fn changes() -> Changes {
    let entries = vec![
        change(1, Some(840_000), Outcome::Written),
        change(2, None, Outcome::Written),
        change(3, Some(950), Outcome::SetAside(2)),
        change(4, Some(61_200), Outcome::Failed(EVIL.to_owned())),
        change(5, Some(1_840), Outcome::Written),
    ];
    Changes { entries, last: 5 }
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn frontend(dial: &str, kind: FrontendKind) -> Frontend {
    Frontend { dial: dial.parse().unwrap(), protocol: Protocol::Tcp, kind }
}

fn summary(name: &str, ready: usize, served: usize) -> ServiceSummary {
    ServiceSummary {
        name: ServiceName::new("shop", name),
        frontends: vec![
            frontend("10.96.0.10:80", FrontendKind::ClusterIp),
            frontend("[fd00:10:96::10]:80", FrontendKind::LoadBalancerIp),
            frontend("192.0.2.1:30080", FrontendKind::NodePort),
        ],
        frontend_count: 7,
        families: vec![Family::V4, Family::V6],
        endpoints: 12_345,
        ready,
        ports: 2,
        served,
        set_aside: usize::from(served == 1),
        is_sticky: served == 2,
        is_local: served == 2,
    }
}

#[test]
fn the_overview() {
    let family =
        |family, node_ip| FamilyCounts { family, node_ip, service_ports: 50_000, endpoints: 250_000 };
    let overview = Overview {
        is_started: true,
        services: 50_000,
        families: vec![family(Family::V4, address("192.0.2.1")), family(Family::V6, address("2001:db8::1"))],
        set_aside: 3,
        changes: changes(),
    };
    check("overview", &page(Tab::Overview, &well(), |html| overview::content(html, &overview)));
    let failing = Health { healthy: true, node_eligible: false, last_error: Some(EVIL.to_owned()) };
    let empty = Overview::default();
    check("starting", &page(Tab::Overview, &failing, |html| overview::content(html, &empty)));
}

#[test]
fn the_list_of_services() {
    let search = Search { text: EVIL.to_owned(), page: 1 };
    let services = vec![summary("web", 3, 2), summary(EVIL, 0, 0), summary(&"x".repeat(63), 1, 1)];
    let list = ServicePage { search, found: 50_000, page_size: 50, services };
    check("services", &page(Tab::Services, &well(), |html| services::content(html, &list)));
    let none = ServicePage { search: Search::default(), page_size: 50, ..ServicePage::default() };
    check("no-services", &page(Tab::Services, &Health::default(), |html| services::content(html, &none)));
}

#[test]
fn one_service() {
    let endpoint = |address: &str, state, node: &str| Endpoint {
        address: address.parse().unwrap(),
        state,
        node: Some(node.to_owned()),
        is_here: node == "n1",
        hints: vec![format!("zone {EVIL}")],
        is_used: state == EndpointState::Ready,
    };
    let route = Route {
        frontend: frontend("10.96.0.10:80", FrontendKind::ClusterIp),
        client: "anyone".to_owned(),
        verdict: "one of 2 endpoints".to_owned(),
        masquerade: "no".to_owned(),
        allowed_sources: vec!["10.0.0.0/8".to_owned()],
    };
    let port = PortSheet {
        port_name: EVIL.to_owned(),
        protocol: Protocol::Tcp,
        family: Family::V4,
        affinity_seconds: Some(10_800),
        internal_policy: TrafficPolicy::Local,
        external_policy: TrafficPolicy::Local,
        health_check_node_port: Some(31_000),
        set_aside: Some(EVIL.to_owned()),
        routes: vec![route],
        route_count: 3,
        endpoints: vec![
            endpoint("10.1.1.1:80", EndpointState::Ready, "n1"),
            endpoint("10.1.1.2:80", EndpointState::NotReady, EVIL),
            endpoint("10.1.1.3:80", EndpointState::ServingWhileEnding, "n2"),
            endpoint("[fd00::1]:80", EndpointState::Ending, "n2"),
        ],
        endpoint_count: 5000,
    };
    let empty = PortSheet {
        routes: vec![],
        endpoints: vec![],
        set_aside: None,
        affinity_seconds: None,
        ..port.clone()
    };
    let sheet = ServiceSheet { name: ServiceName::new(EVIL, EVIL), ports: vec![port, empty], port_count: 9 };
    check("service", &page(Tab::Services, &well(), |html| service::content(html, &sheet)));
}

#[test]
fn the_ledger() {
    check("changes", &page(Tab::Changes, &well(), |html| changes::content(html, &changes())));
    let event = changes::event(&changes().entries[3]);
    let cells: serde_json::Value = serde_json::from_str(&event).unwrap();
    assert_eq!(cells["number"], 4);
    let texts: Vec<&str> =
        cells["cells"].as_array().unwrap().iter().map(|cell| cell["text"].as_str().unwrap()).collect();
    assert_eq!((texts[1], texts[2]), ("07:12:47.745", "07:12:47.807"));
    assert_eq!((texts[6], texts[7], texts[8]), ("1,234", "61.2 ms", "Failed"));
    assert!(!event.contains(['\u{1b}', '\u{202e}', '\u{200b}', '\n', '\r']), "{event}");
}

#[test]
fn what_was_set_aside() {
    let item = |kind, family| SetAside { kind, object: EVIL.to_owned(), family, cause: EVIL.repeat(30) };
    let items = vec![
        item(SetAsideKind::Object, None),
        item(SetAsideKind::Refused, Some(Family::V4)),
        item(SetAsideKind::Conflict, Some(Family::V6)),
        item(SetAsideKind::Unserved, Some(Family::V4)),
        item(SetAsideKind::LeftOut, Some(Family::V4)),
    ];
    let list = SetAsidePage { items, total: 1205 };
    check("set-aside", &page(Tab::SetAside, &well(), |html| set_aside::content(html, &list)));
}

#[test]
fn explanations() {
    let typed = Typed { from: EVIL.to_owned(), to: EVIL.to_owned(), protocol: "udp".to_owned() };
    check(
        "explain-refused",
        &page(Tab::Explain, &well(), |html| explain::content(html, &typed, Some(Err(EVIL)))),
    );
    let answer = serde_json::json!({
        "apiVersion": "v1", "from": "10.1.1.7", "interface": EVIL, "isFromThisNode": false, "to": "10.96.0.10:80",
        "protocol": "tcp", "verdict": "endpoints", "reason": EVIL, "somethingNewer": [1],
        "hit": {
            "service": format!("shop/{EVIL}"), "portName": EVIL, "frontend": "10.96.0.10:80/tcp", "frontendKind": "cluster IP",
            "client": "a pod of this node", "affinitySeconds": 600, "allowedSources": ["10.0.0.0/8"], "losers": [EVIL],
            "endpoints": [
                { "address": "10.1.1.1:80", "node": EVIL, "odds": "1/1", "seenSource": "client", "sourceReason": "kept", "excluded": null },
                { "address": "10.1.1.2:80", "node": null, "odds": null, "seenSource": null, "sourceReason": null, "excluded": EVIL },
            ],
        },
        "by": ["element frontends { 10.96.0.10 . tcp . 80 : goto pick-1 }", EVIL], "byLeftOut": 1,
    });
    let answer: Explanation = serde_json::from_value(answer).unwrap();
    let typed = Typed { to: "10.96.0.10:80".to_owned(), ..Typed::default() };
    let refused = serde_json::json!({
        "from": "10.1.1.7", "isFromThisNode": true, "to": "10.96.0.10:81", "protocol": "tcp", "verdict": "reject",
        "reason": EVIL, "hit": null, "by": vec![EVIL; 101], "byLeftOut": 1000,
    });
    let refused: Explanation = serde_json::from_value(refused).unwrap();
    let page_of =
        |answer| page(Tab::Explain, &well(), |html| explain::content(html, &typed, Some(Ok(answer))));
    let long = page_of(&refused);
    assert_eq!(long.matches("<li><code>").count(), 100, "{long}");
    assert!(long.contains("1,001 lines more are not shown here."), "{long}");
    check("explain", &page_of(&answer));
}
