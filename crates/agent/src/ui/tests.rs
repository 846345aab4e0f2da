//! What pages ask for, from books that no loop syncs.

mod crowd;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use switchyard_apply::Mode;
use switchyard_apply::diff::Difference;
use switchyard_apply::report::{Failure, Progress, Report};
use switchyard_model::{
    Complaint, Endpoint as Member, Family, ObjectName, Protocol, ServiceName, ServicePort, ServicePortName,
    TrafficPolicy,
};
use switchyard_plan::book::{Book, PortChanges};

use switchyard_plan::iptables::RuleCounts;
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};
use switchyard_serve::service_health::ServiceHealth;
use switchyard_serve::ui::{EndpointState, FrontendKind, SetAsideKind};
use switchyard_source::events::Recorder;

use super::*;
use crate::board::Board;
use crate::ledger::Ledger;
use crate::notices::Notices;

/// A book that nobody writes to the kernel.
struct Shelf {
    book: Book,
    left_out: BTreeMap<ServicePortName, usize>,
}

impl Mode for Shelf {
    fn book(&self) -> &Book {
        &self.book
    }

    fn counts(&self) -> RuleCounts {
        RuleCounts::default()
    }

    fn left_out(&self) -> &BTreeMap<ServicePortName, usize> {
        &self.left_out
    }

    fn settle(&mut self, _: Settings) {}

    fn distrust(&mut self) {}

    fn needs_full_sync(&self, _: Instant) -> bool {
        false
    }

    fn sync(&mut self, _: Instant, _: PortChanges, _: &mut dyn FnMut(Progress)) -> Report {
        unreachable!("nobody syncs a shelf")
    }

    fn difference(&self) -> Result<Difference, Failure> {
        unreachable!("there is no kernel")
    }
}

/// What a loop would know.
struct World {
    _runtime: tokio::runtime::Runtime,
    families: Vec<FamilySync>,
    complaints: BTreeMap<ObjectName, Vec<Complaint>>,
    ledger: Ledger,
}

impl World {
    fn new(ports: &[ServicePort], refused: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let family = |family: Family| {
            let mut book = Book::new(settings(family));
            let mine = ports.iter().filter(|port| port.family == family);
            book.update(mine.map(|port| (port.name.clone(), Some(Arc::new(port.clone())))).collect());
            let names: Vec<_> = book.ports().keys().cloned().collect();
            for name in names.iter().filter(|name| refused.contains(&&*name.service.name)) {
                book.quarantine(name, None, "no room".to_owned());
            }
            let health = Arc::new(ProxyHealth::new(Duration::from_secs(30)));
            let ports = ServiceHealth::new(family, runtime.handle().clone(), health, "here", Vec::new());
            let mode = Box::new(Shelf { book, left_out: BTreeMap::new() });
            FamilySync::new(family, mode, ports, Notices::new(Recorder::silent(), "here"))
        };
        let families = Family::ALL.map(family).into();
        Self { _runtime: runtime, families, complaints: BTreeMap::new(), ledger: Ledger::default() }
    }

    fn view(&self) -> View<'_> {
        View {
            families: &self.families,
            ledger: &self.ledger,
            complaints: &self.complaints,
            is_started: true,
        }
    }

    fn found(&self, text: &str) -> Vec<String> {
        let page = lists::page(&self.view(), Search { text: text.to_owned(), page: 0 });
        assert_eq!(page.found, page.services.len());
        page.services.iter().map(|service| service.name.to_string()).collect()
    }
}

fn settings(family: Family) -> Settings {
    Settings {
        family,
        node_name: "here".into(),
        zone: None,
        node_ip: if family == Family::V4 { "192.0.2.1" } else { "2001:db8::1" }.parse().unwrap(),
        detector: LocalDetector::None,
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    }
}

fn port(service: &str, cluster_ip: &str, endpoints: &[&str]) -> ServicePort {
    let (namespace, rest) = service.split_once('/').unwrap();
    let (name, port) = rest.split_once(':').unwrap_or((rest, ""));
    let cluster_ip = cluster_ip.parse().unwrap();
    ServicePort {
        name: ServicePortName {
            service: ServiceName::new(namespace, name),
            port: port.into(),
            protocol: Protocol::Tcp,
        },
        family: Family::of(cluster_ip),
        created: 0,
        cluster_ip,
        port: 80,
        node_port: None,
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        source_ranges: Vec::new(),
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: endpoints.iter().map(|text| member(text)).collect(),
    }
}

/// An address, and after a space what is wrong with it.
fn member(text: &str) -> Member {
    let (address, state) = text.split_once(' ').unwrap_or((text, ""));
    let mut member = Member {
        address: address.parse().unwrap(),
        conditions: Default::default(),
        node: Some(if state == "elsewhere" { "there" } else { "here" }.into()),
        hints: None,
    };
    member.conditions.ready = matches!(state, "" | "elsewhere");
    member.conditions.serving = state != "ended";
    member.conditions.terminating = matches!(state, "ending" | "ended");
    member
}

fn shop() -> World {
    let mut web =
        port("shop/web:http", "10.96.0.1", &["10.1.0.1:80", "10.1.0.2:80 elsewhere", "10.1.0.3:80 unready"]);
    (web.node_port, web.external_policy) = (Some(30080), TrafficPolicy::Local);
    let mut thief = port("shop/thief", "10.96.0.4", &["10.1.0.9:80 ending"]);
    thief.external_ips = vec!["10.96.0.1".parse().unwrap(), "203.0.113.1".parse().unwrap()];
    World::new(
        &[
            web,
            ServicePort { port: 443, ..port("shop/web:https", "10.96.0.1", &[]) },
            port("shop/web:http", "fd00::1", &["[fd00:1::1]:80"]),
            port("shop/cart", "10.96.0.2", &["10.1.0.1:81"]),
            thief,
            port("blog/Web", "10.96.0.3", &["10.1.0.7:80 ended"]),
            port("blog/refused", "10.96.0.5", &["10.1.0.8:80"]),
        ],
        &["refused"],
    )
}

#[test]
fn services_are_found_by_parts_of_names_and_by_addresses() {
    let world = shop();
    assert_eq!(world.found(""), ["blog/Web", "blog/refused", "shop/cart", "shop/thief", "shop/web"]);
    assert_eq!(world.found("WEB"), ["blog/Web", "shop/web"]);
    assert_eq!(world.found("shop/"), ["shop/cart", "shop/thief", "shop/web"]);
    assert_eq!(world.found("10.96.0.2"), ["shop/cart"]);
    assert_eq!(world.found("10.1.0.1"), ["shop/cart", "shop/web"], "by endpoints");
    assert_eq!(world.found("203.0.113.1"), ["shop/thief"], "by external IPs");
    assert_eq!(world.found("[fd00::1]"), ["shop/web"]);
    assert_eq!(world.found("10.96.0.77"), [""; 0]);
}

#[test]
fn a_summary_is_about_all_ports_and_families() {
    let world = shop();
    let page = lists::page(&world.view(), Search { text: "shop/web".to_owned(), page: 0 });
    let web = &page.services[0];
    assert_eq!((web.ports, web.served, web.families.len()), (3, 2, 2));
    assert_eq!((web.ready, web.endpoints), (0, 0), "of the port that is worst off");
    assert!(web.is_local && !web.is_sticky && web.set_aside == 0);
    let node_port = web.frontends.iter().find(|one| one.kind == FrontendKind::NodePort).unwrap();
    assert_eq!(node_port.dial.to_string(), "192.0.2.1:30080");
    let page = lists::page(&world.view(), Search { text: "refused".to_owned(), page: 0 });
    assert_eq!((page.services[0].set_aside, page.services[0].ports), (1, 1));
}

#[test]
fn a_sheet_tells_endpoints_and_what_they_are_used_for() {
    let world = shop();
    let sheet = sheet::sheet(&world.view(), "shop", "web").unwrap();
    let ports: Vec<_> = sheet.ports.iter().map(|port| (port.port_name.as_str(), port.family)).collect();
    assert_eq!(ports, [("http", Family::V4), ("http", Family::V6), ("https", Family::V4)]);
    let endpoints: Vec<_> =
        sheet.ports[0].endpoints.iter().map(|one| (one.state, one.is_here, one.is_used)).collect();
    let want = [
        (EndpointState::Ready, true, true),
        (EndpointState::Ready, false, true),
        (EndpointState::NotReady, true, false),
    ];
    assert_eq!(endpoints, want);
    let verdicts: Vec<&str> = sheet.ports[0].routes.iter().map(|route| route.verdict.as_str()).collect();
    assert_eq!(verdicts[0], "one of 2 endpoints");
    assert_eq!(*verdicts.last().unwrap(), "the one endpoint on this node");
    assert_eq!(sheet.ports[2].routes[0].verdict, "rejected: no endpoint can answer");
    let state =
        |name: &str, of: &str| sheet::sheet(&world.view(), name, of).unwrap().ports[0].endpoints[0].state;
    assert_eq!(state("shop", "thief"), EndpointState::ServingWhileEnding);
    assert_eq!(state("blog", "Web"), EndpointState::Ending);
    let refused = sheet::sheet(&world.view(), "blog", "refused").unwrap();
    assert_eq!(refused.ports[0].set_aside.as_deref(), Some("no room"));
    assert_eq!(sheet::sheet(&world.view(), "shop", "we"), None, "names are exact here");
}

#[test]
fn everything_that_was_set_aside_is_listed_and_counted() {
    let mut world = shop();
    let object = ObjectName::new("Service", "shop", "bad");
    let complaint = Complaint { object: object.clone(), problem: "port 0".into() };
    world.complaints.insert(object, vec![complaint; 300]);
    let page = set_aside::page(&world.view());
    assert_eq!((page.items.len(), page.total), (200, 302));
    world.complaints.clear();
    let page = set_aside::page(&world.view());
    let kinds: Vec<_> = page.items.iter().map(|item| (item.kind, item.object.as_str())).collect();
    assert_eq!(kinds, [(SetAsideKind::Refused, "blog/refused"), (SetAsideKind::Conflict, "shop/thief")]);
    assert_eq!(overview(&world.view()).set_aside, 2);
    assert_eq!(overview(&world.view()).services, 5);
}

#[test]
fn every_service_is_on_one_page_and_routes_are_worked_out_for_the_page_alone() {
    let name = |n: usize| format!("team-{}/svc-{n:05}", n % 10);
    let ports = (0..5_020).map(|n| port(&name(n), &format!("10.{}.{}.1", 100 + n / 250, n % 250), &[]));
    let world = World::new(&ports.collect::<Vec<_>>(), &[]);
    let page = |number: usize| lists::page(&world.view(), Search { text: String::new(), page: number });
    let all: Vec<String> =
        (0..101).flat_map(|n| page(n).services).map(|service| service.name.to_string()).collect();
    let mut want: Vec<String> = (0..5_020).map(name).collect();
    want.sort();
    assert_eq!(all, want);
    assert_eq!((page(0).found, page(0).services.len(), page(100).services.len()), (5_020, 50, 20));
    for beyond in [101, usize::MAX] {
        assert_eq!((page(beyond).found, page(beyond).services.len()), (5_020, 0));
    }
}

/// Where nothing can be looked up.
fn no_source() -> admin::Source {
    let nowhere = switchyard_source::manifests::Config {
        path: "/nonexistent".into(),
        node_name: "here".to_owned(),
        service_ranges: Vec::new(),
        max_file_bytes: 0,
    };
    admin::Source::new(switchyard_source::lookup::Origin::Manifests(nowhere))
}

#[test]
fn few_questions_wait_at_a_time_whoever_asks() {
    let board = Board::new();
    let identity = admin::Identity { node: "here".to_owned(), mode: crate::flags::Mode::Nftables };
    let patience = Duration::from_millis(50);
    let looking = Looking { patience, ..Looking::new(Admin::new(board.clone(), identity, no_source())) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Clients that hang up at once: their questions still wait, and keep others from waiting.
        for _ in 0..20 {
            let _ = tokio::time::timeout(Duration::from_millis(1), looking.set_aside()).await;
        }
        let trouble = looking.overview().await.unwrap_err();
        assert_eq!(trouble.status, 503, "{}", trouble.text);
    });
    let waiting = board.take_questions();
    assert_eq!(waiting.len(), TURNS);
    let world = shop();
    waiting.into_iter().for_each(|question| question(&world.view()));
    runtime.block_on(async {
        let overview = looking.overview();
        let answer = async {
            loop {
                board.take_questions().into_iter().for_each(|question| question(&world.view()));
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            overview = overview => assert_eq!(overview.unwrap().services, 5),
            () = answer => {}
        }
    });
}
