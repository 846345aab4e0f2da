//! What pages ask for, from books that no loop syncs.

mod crowd;

use switchyard_model::{Family, ObjectName, ServicePort, TrafficPolicy};
use switchyard_serve::ui::{EndpointState, FrontendKind, PortSheet, SetAsideKind};

use super::*;
use crate::board::Board;
use crate::shelf::{Troubles, World, identity, no_source, port};

fn shop() -> World {
    let mut web =
        port("shop/web:http", "10.96.0.1", &["10.1.0.1:80", "10.1.0.2:80 elsewhere", "10.1.0.3:80 unready"]);
    (web.node_port, web.external_policy) = (Some(30080), TrafficPolicy::Local);
    let mut thief = port("shop/thief", "10.96.0.4", &["10.1.0.9:80 ending"]);
    thief.external_ips = vec!["10.96.0.1".parse().unwrap(), "203.0.113.1".parse().unwrap()];
    World::troubled(
        &[
            web,
            ServicePort { port: 443, ..port("shop/web:https", "10.96.0.1", &[]) },
            port("shop/web:http", "fd00::1", &["[fd00:1::1]:80"]),
            port("shop/cart", "10.96.0.2", &["10.1.0.1:81"]),
            thief,
            port("blog/Web", "10.96.0.3", &["10.1.0.7:80 ended"]),
            port("blog/refused", "10.96.0.5", &["10.1.0.8:80"]),
        ],
        Troubles { refused: &["refused"], ..Troubles::default() },
    )
}

/// Services that a search finds.
fn found(world: &World, text: &str) -> Vec<String> {
    let page = lists::page(&world.view(), Search { text: text.to_owned(), page: 0 });
    assert_eq!(page.found, page.services.len());
    page.services.iter().map(|service| service.name.to_string()).collect()
}

#[test]
fn services_are_found_by_parts_of_names_and_by_addresses() {
    let world = shop();
    assert_eq!(found(&world, ""), ["blog/Web", "blog/refused", "shop/cart", "shop/thief", "shop/web"]);
    assert_eq!(found(&world, "WEB"), ["blog/Web", "shop/web"]);
    assert_eq!(found(&world, "shop/"), ["shop/cart", "shop/thief", "shop/web"]);
    assert_eq!(found(&world, "10.96.0.2"), ["shop/cart"]);
    assert_eq!(found(&world, "10.1.0.1"), ["shop/cart", "shop/web"], "by endpoints");
    assert_eq!(found(&world, "203.0.113.1"), ["shop/thief"], "by external IPs");
    assert_eq!(found(&world, "[fd00::1]"), ["shop/web"]);
    assert_eq!(found(&world, "10.96.0.77"), [""; 0]);
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
    world.complain(&ObjectName::new("Service", "shop", "bad"), &["port 0"; 300]);
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
    let world = World::new(&ports.collect::<Vec<_>>());
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

#[test]
fn few_questions_wait_at_a_time_whoever_asks() {
    let board = Board::new();
    let patience = Duration::from_millis(50);
    let looking = Looking { patience, ..Looking::new(Admin::new(board.clone(), identity(), no_source())) };
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
