//! A page of Services: found by a part of their names, or by an address that is theirs.
//!
//! In: the books, and what is searched for. Out: how many there are, and a summary of each on the page. Names are looked at one by one,
//! which takes some milliseconds for a hundred thousand; routes are worked out for the page alone.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::net::{IpAddr, SocketAddr};

use switchyard_model::{Family, Protocol, ServiceName, ServicePort, ServicePortName, TrafficPolicy};
use switchyard_plan::book::Book;
use switchyard_plan::route::{self, FrontendAddress};
use switchyard_serve::ui::{Frontend, FrontendKind, Search, ServicePage, ServiceSummary};

use crate::sync::{FamilySync, View};

/// Services on a page.
pub(super) const PAGE: usize = 50;

/// Frontends of a Service in the list.
const FRONTENDS: usize = 6;

type Names<'a> = Box<dyn Iterator<Item = &'a ServiceName> + 'a>;

/// Every Service once, in order.
pub(super) fn names<'a>(view: &View<'a>) -> impl Iterator<Item = &'a ServiceName> + use<'a> {
    let books = view.families.iter().map(FamilySync::book);
    let lists = books.flat_map(|book| {
        let served: Names<'a> = Box::new(book.ports().keys().map(|name| &name.service));
        let refused: Names<'a> = Box::new(book.quarantined().keys().map(|name| &name.service));
        [served.peekable(), refused.peekable()]
    });
    Merged { lists: lists.collect() }
}

/// Sorted lists as one, without repetitions.
struct Merged<'a> {
    lists: Vec<Peekable<Names<'a>>>,
}

impl<'a> Iterator for Merged<'a> {
    type Item = &'a ServiceName;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.lists.iter_mut().filter_map(|list| list.peek().copied()).min()?;
        for list in &mut self.lists {
            while list.next_if(|name| *name == first).is_some() {}
        }
        Some(first)
    }
}

/// What fits a search.
enum Pattern<'a> {
    /// Part of a name, in lower case.
    Part(String),
    /// One of these.
    Among(BTreeSet<&'a ServiceName>),
}

impl<'a> Pattern<'a> {
    fn new(view: &View<'a>, text: &str) -> Self {
        match text.trim_matches(['[', ']']).parse() {
            Ok(address) => Self::Among(with_address(view, address)),
            Err(_) => Self::Part(text.to_ascii_lowercase()),
        }
    }

    fn fits(&self, name: &ServiceName, scratch: &mut String) -> bool {
        match self {
            Self::Among(names) => names.contains(name),
            Self::Part(part) if part.is_empty() => true,
            Self::Part(part) => {
                scratch.clear();
                scratch.extend([&*name.namespace, "/", &*name.name]);
                scratch.make_ascii_lowercase();
                scratch.contains(part)
            }
        }
    }
}

/// Services that are dialled at an address, or have an endpoint there.
fn with_address<'a>(view: &View<'a>, address: IpAddr) -> BTreeSet<&'a ServiceName> {
    let has = |port: &ServicePort| {
        port.cluster_ip == address
            || port.external_ips.contains(&address)
            || port.load_balancer_ips.contains(&address)
            || port.endpoints.iter().any(|endpoint| endpoint.address.ip() == address)
    };
    let books = view.families.iter().map(FamilySync::book);
    let books = books.filter(|book| book.settings().family == Family::of(address));
    let found = books.flat_map(|book| book.ports().iter().filter(move |(_, port)| has(port)));
    found.map(|(name, _)| &name.service).collect()
}

/// See the module.
pub(super) fn page(view: &View<'_>, search: Search) -> ServicePage {
    let pattern = Pattern::new(view, &search.text);
    let window = search.page.saturating_mul(PAGE)..search.page.saturating_add(1).saturating_mul(PAGE);
    let (mut found, mut services, mut scratch) = (0, Vec::new(), String::new());
    for name in names(view) {
        if !pattern.fits(name, &mut scratch) {
            continue;
        }
        if window.contains(&found) {
            services.push(summary(view, name));
        }
        found += 1;
    }
    ServicePage { search, found, page_size: PAGE, services }
}

/// The ports of a Service in one family, those that were refused included.
pub(super) fn ports_of<'a>(
    book: &'a Book,
    service: &ServiceName,
) -> impl Iterator<Item = (&'a ServicePort, Option<&'a str>)> + use<'a> {
    let first = ServicePortName { service: service.clone(), port: "".into(), protocol: Protocol::Tcp };
    let mine = {
        let service = service.clone();
        move |name: &ServicePortName| name.service == service
    };
    let is_mine = mine.clone();
    let served = book.ports().range(first.clone()..).take_while(move |(name, _)| is_mine(name));
    let served =
        served.map(|(name, port)| (&**port, book.quarantined().get(name).map(|entry| entry.cause.as_str())));
    // A port that the kernel refused and that had no earlier value is served by nothing.
    let refused = book.quarantined().range(first..).take_while(move |(name, _)| mine(name));
    let refused = refused.filter(|(name, _)| !book.ports().contains_key(*name));
    served.chain(refused.map(|(_, entry)| (&*entry.refused, Some(entry.cause.as_str()))))
}

fn summary(view: &View<'_>, name: &ServiceName) -> ServiceSummary {
    let mut summary = ServiceSummary {
        name: name.clone(),
        frontends: Vec::new(),
        frontend_count: 0,
        families: Vec::new(),
        endpoints: 0,
        ready: 0,
        ports: 0,
        served: 0,
        set_aside: 0,
        is_sticky: false,
        is_local: false,
    };
    for book in view.families.iter().map(FamilySync::book) {
        for (port, refused) in ports_of(book, name) {
            add(&mut summary, book, port, refused);
        }
    }
    summary
}

fn add(summary: &mut ServiceSummary, book: &Book, port: &ServicePort, refused: Option<&str>) {
    let routes = book.routes(port);
    let ready = port.endpoints.iter().filter(|endpoint| endpoint.is_ready()).count();
    if summary.ports == 0 || ready < summary.ready {
        (summary.ready, summary.endpoints) = (ready, port.endpoints.len());
    }
    if !summary.families.contains(&port.family) {
        summary.families.push(port.family);
    }
    summary.ports += 1;
    summary.served += usize::from(!routes.choice.reachable.is_empty());
    summary.set_aside += usize::from(refused.is_some());
    summary.is_sticky |= port.affinity.is_some();
    summary.is_local |= [port.internal_policy, port.external_policy].contains(&TrafficPolicy::Local);
    summary.frontend_count += routes.routes.len();
    let room = FRONTENDS.saturating_sub(summary.frontends.len());
    let shown = routes.routes.iter().take(room).map(|route| frontend(book, route));
    summary.frontends.extend(shown);
}

/// What clients dial. A node port is dialled at the node's own address.
pub(super) fn frontend(book: &Book, route: &route::Route) -> Frontend {
    let route::Frontend { address, protocol, port } = route.frontend;
    let address = match address {
        FrontendAddress::Ip(address) => address,
        FrontendAddress::Node(_) => book.settings().node_ip,
    };
    let kind = match route.kind {
        route::FrontendKind::ClusterIp => FrontendKind::ClusterIp,
        route::FrontendKind::ExternalIp => FrontendKind::ExternalIp,
        route::FrontendKind::LoadBalancerIp => FrontendKind::LoadBalancerIp,
        route::FrontendKind::NodePort => FrontendKind::NodePort,
    };
    Frontend { dial: SocketAddr::new(address, port), protocol, kind }
}
