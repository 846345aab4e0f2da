//! Pages of long lists.

use std::cell::Cell;

use switchyard_model::ServicePortName;
use switchyard_plan::settings::{
    LocalDetector, LoopbackNodePorts, MasqueradeClusterIp, NodePortAddresses, Settings,
};

use super::*;

fn book(family: Family, services: u32) -> Book {
    let settings = Settings {
        family,
        node_name: "here".into(),
        zone: None,
        node_ip: [192, 168, 0, 10].into(),
        detector: LocalDetector::None,
        masquerade: MasqueradeClusterIp::FromOutside,
        node_ports: NodePortAddresses::All,
        loopback_node_ports: LoopbackNodePorts::Refused,
    };
    let mut book = Book::new(settings);
    let port = |n: u32| {
        let service = ServiceName::new(&format!("ns-{:03}", n % 100), &format!("web-{n:05}"));
        let name = ServicePortName { service, port: "http".into(), protocol: Protocol::Tcp };
        let port = ServicePort {
            name: name.clone(),
            family,
            created: 0,
            cluster_ip: std::net::Ipv4Addr::from_bits(0x0a60_0000 + n).into(),
            external_ips: Vec::new(),
            load_balancer_ips: Vec::new(),
            source_ranges: Vec::new(),
            port: 80,
            node_port: None,
            health_check_node_port: None,
            affinity: None,
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            endpoints: Vec::new(),
        };
        (name, Some(Arc::new(port)))
    };
    book.update((0..services).map(port).collect());
    book
}

fn asked(parameters: &[(&str, &str)]) -> Page {
    let query = parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Page::read(&Question { path: "/v1/services".to_owned(), query }).unwrap()
}

/// Every page costs as many items as it holds, however long the list is, and all pages are the whole list.
#[test]
fn fifty_thousand_services_come_in_bounded_pages() {
    let books = [book(Family::V4, 50_000), book(Family::V6, 700)];
    let (mut next, mut seen, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let made = Cell::new(0);
        let one = page(
            books.iter().map(|book| (book, book)),
            &asked(&[("continue", &next), ("limit", "9999")]),
            "List",
            |_, port| {
                made.set(made.get() + 1);
                vec![identity(port)]
            },
        );
        assert!(made.get() <= 500, "{}", made.get());
        let items = one["items"].as_array().unwrap();
        seen.extend(items.iter().map(ToString::to_string));
        pages += 1;
        match one["continue"].as_str() {
            Some(token) => next = token.to_owned(),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (50_700, 102));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 50_700);
}

#[test]
fn a_namespace_and_a_service_are_found_without_the_rest() {
    let books = [book(Family::V4, 50_000)];
    let looked = Cell::new(0);
    let count = |parameters: &[(&str, &str)]| {
        let found = page(books.iter().map(|book| (book, book)), &asked(parameters), "List", |_, port| {
            looked.set(looked.get() + 1);
            vec![identity(port)]
        });
        found["items"].as_array().unwrap().len()
    };
    assert_eq!(count(&[("namespace", "ns-042"), ("limit", "7")]), 7);
    assert_eq!(count(&[("namespace", "ns-042")]), 500);
    assert_eq!(count(&[("namespace", "ns-042"), ("name", "web-00042")]), 1);
    assert_eq!(count(&[("name", "web-00042")]), 1);
    assert_eq!(count(&[("namespace", "nobody")]), 0);
    let page = asked(&[("namespace", "ns-042"), ("name", "web-00042")]);
    let range = books[0].ports().range((page.begin(), Bound::Unbounded));
    assert!(range.take_while(|(name, _)| page.may_have(name)).count() <= 500);
}
