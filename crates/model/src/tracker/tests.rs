//! Tracking tests: objects in, service ports out. Addresses: Services 10.96.0.x, endpoints 10.1.<node>.x.

use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;
use crate::*;

fn service(name: &str, ip: &str) -> Service {
    Service {
        name: ServiceName::new("ns", name),
        created: 0,
        kind: ServiceType::ClusterIp,
        cluster_ips: vec![ip.parse().unwrap()],
        external_ips: vec![],
        load_balancer_ips: vec![],
        source_ranges: vec![],
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        ports: vec![Port { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }],
    }
}

fn slice(name: &str, service: &str, addresses: &[&str]) -> EndpointSlice {
    let endpoint = |a: &&str| SliceEndpoint {
        address: a.parse().unwrap(),
        conditions: Conditions::default(),
        node: None,
        hints: None,
    };
    EndpointSlice {
        name: SliceName::new("ns", name),
        service: ServiceName::new("ns", service),
        family: Family::of(addresses.first().unwrap_or(&"10.1.1.1").parse().unwrap()),
        ports: vec![SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }],
        endpoints: addresses.iter().map(endpoint).collect(),
        trigger: None,
    }
}

fn listed() -> Tracker {
    let mut tracker = Tracker::new();
    tracker.apply(Event::Services(vec![]));
    tracker.apply(Event::Slices(vec![]));
    tracker
}

/// One line per service port: `family name cluster-ip endpoints`.
fn show(snapshot: &Snapshot) -> String {
    let line = |p: &Arc<ServicePort>| {
        let endpoints: Vec<String> = p.endpoints.iter().map(|e| e.address.to_string()).collect();
        format!("{} {} {} [{}]\n", p.family, p.name, p.cluster_ip, endpoints.join(" "))
    };
    snapshot.ports.values().map(line).collect()
}

#[test]
fn nothing_is_taken_before_both_lists_are_complete() {
    let mut tracker = Tracker::new();
    tracker.apply(Event::Services(vec![service("web", "10.96.0.1").into()]));
    assert!(tracker.take().is_none() && !tracker.has_changes());
    tracker.apply(Event::Slice(slice("s1", "web", &["10.1.1.1"]).into()));
    assert!(tracker.take().is_none(), "a single slice is not a list");
    tracker.apply(Event::Slices(vec![slice("s1", "web", &["10.1.1.1"]).into()]));
    assert_eq!(tracker.take().unwrap().ports.len(), 1);
}

#[test]
fn slices_are_merged_and_ordered_by_text() {
    let mut tracker = listed();
    tracker.apply(Event::Service(service("web", "10.96.0.1").into()));
    tracker.apply(Event::Slice(slice("s2", "web", &["10.1.1.10", "10.1.1.2"]).into()));
    tracker.apply(Event::Slice(slice("s1", "web", &["10.1.1.9", "10.1.1.10"]).into()));
    assert_eq!(
        show(&tracker.snapshot()),
        "IPv4 ns/web:http 10.96.0.1 [10.1.1.10:8080 10.1.1.2:8080 10.1.1.9:8080]\n"
    );
}

#[test]
fn a_terminating_duplicate_never_replaces_and_another_always_does() {
    let mut tracker = listed();
    tracker.apply(Event::Service(service("web", "10.96.0.1").into()));
    let mut dying = slice("s2", "web", &["10.1.1.1"]);
    dying.endpoints[0].conditions = Conditions { ready: false, serving: true, terminating: true };
    tracker.apply(Event::Slice(slice("s1", "web", &["10.1.1.1"]).into()));
    tracker.apply(Event::Slice(dying.clone().into()));
    let conditions = |t: &Tracker| t.snapshot().ports.values().next().unwrap().endpoints[0].conditions;
    assert_eq!(conditions(&tracker), Conditions::default());

    let mut tracker = listed();
    tracker.apply(Event::Service(service("web", "10.96.0.1").into()));
    dying.name = SliceName::new("ns", "s0");
    tracker.apply(Event::Slice(dying.into()));
    tracker.apply(Event::Slice(slice("s1", "web", &["10.1.1.1"]).into()));
    assert_eq!(conditions(&tracker), Conditions::default());
}

#[test]
fn a_slice_that_changes_its_service_leaves_the_old_one() {
    let mut tracker = listed();
    tracker.apply(Event::Service(service("a", "10.96.0.1").into()));
    tracker.apply(Event::Service(service("b", "10.96.0.2").into()));
    tracker.apply(Event::Slice(slice("s1", "a", &["10.1.1.1"]).into()));
    tracker.apply(Event::Slice(slice("s1", "b", &["10.1.1.1"]).into()));
    assert_eq!(
        show(&tracker.snapshot()),
        "IPv4 ns/a:http 10.96.0.1 []\nIPv4 ns/b:http 10.96.0.2 [10.1.1.1:8080]\n"
    );
}

#[test]
fn a_relist_reports_only_what_differs() {
    let mut tracker = listed();
    let all: Vec<Arc<Service>> =
        [("a", 1), ("b", 2), ("c", 3)].map(|(name, n)| service(name, &format!("10.96.0.{n}")).into()).into();
    tracker.apply(Event::Services(all.clone()));
    tracker.take();
    tracker.apply(Event::Services(vec![all[0].clone(), service("b", "10.96.0.9").into()]));
    let changes = tracker.take().unwrap();
    let shown: Vec<String> =
        changes.ports.iter().map(|(k, p)| format!("{} {}", k.name, p.is_some())).collect();
    assert_eq!(shown, ["ns/b:http true", "ns/c:http false"]);
}

#[test]
fn skipped_services_are_like_deleted_ones() {
    let mut tracker = listed();
    tracker.apply(Event::Service(service("a", "10.96.0.1").into()));
    let mut headless = service("a", "10.96.0.1");
    headless.cluster_ips.clear();
    tracker.apply(Event::Service(headless.into()));
    assert_eq!(show(&tracker.snapshot()), "");
    let mut alias = service("a", "10.96.0.1");
    alias.kind = ServiceType::ExternalName;
    tracker.apply(Event::Service(alias.into()));
    assert_eq!(show(&tracker.snapshot()), "");
}

#[test]
fn external_policy_needs_external_traffic_and_health_port_needs_both() {
    let mut tracker = listed();
    let mut web = service("a", "10.96.0.1");
    web.external_policy = TrafficPolicy::Local;
    web.health_check_node_port = Some(32000);
    tracker.apply(Event::Service(web.clone().into()));
    let port = |t: &Tracker| t.snapshot().ports.values().next().unwrap().clone();
    assert_eq!(port(&tracker).external_policy, TrafficPolicy::Cluster);
    web.external_ips = vec!["2001:db8::1".parse().unwrap()];
    tracker.apply(Event::Service(web.clone().into()));
    assert_eq!(port(&tracker).external_policy, TrafficPolicy::Local);
    assert_eq!(port(&tracker).health_check_node_port, None);
    web.kind = ServiceType::LoadBalancer;
    tracker.apply(Event::Service(web.into()));
    assert_eq!(port(&tracker).health_check_node_port, Some(32000));
}

#[test]
fn source_ranges_of_everything_or_of_the_other_family_allow_all() {
    let ranges = |list: &[&str]| {
        let mut tracker = listed();
        let mut web = service("a", "10.96.0.1");
        web.source_ranges = list.iter().map(|r| r.parse().unwrap()).collect();
        tracker.apply(Event::Service(web.into()));
        tracker.snapshot().ports.values().next().unwrap().source_ranges.len()
    };
    assert_eq!(ranges(&["10.0.0.0/8", "2001:db8::/64"]), 1);
    assert_eq!(ranges(&["10.0.0.0/8", "0.0.0.0/0"]), 0);
    assert_eq!(ranges(&["10.0.0.0/8", "::/0"]), 1);
    assert_eq!(ranges(&["2001:db8::/64"]), 0);
}

#[test]
fn trigger_times_are_kept_per_service_and_dropped_when_a_slice_goes() {
    let mut tracker = listed();
    tracker.apply(Event::Service(service("a", "10.96.0.1").into()));
    let mut first = slice("s1", "a", &["10.1.1.1"]);
    first.trigger = Some(UNIX_EPOCH + Duration::from_secs(5));
    tracker.apply(Event::Slice(first.clone().into()));
    tracker.apply(Event::Slice(first.clone().into()));
    assert_eq!(tracker.take().unwrap().triggers.values().flatten().count(), 1);
    first.trigger = Some(UNIX_EPOCH + Duration::from_secs(6));
    tracker.apply(Event::Slice(first.clone().into()));
    tracker.apply(Event::SliceGone(first.name));
    assert!(tracker.take().unwrap().triggers.is_empty());
}

/// Random events over few names, so that they collide often.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0..6u8, 0..4u8, 0..3u8, 0..5u8).prop_map(|(kind, which, owner, n)| match kind {
        0 | 1 => Event::Service(service(&format!("svc{owner}"), &format!("10.96.0.{n}")).into()),
        2 => Event::ServiceGone(ServiceName::new("ns", &format!("svc{owner}"))),
        3 => Event::SliceGone(SliceName::new("ns", &format!("s{which}"))),
        _ => {
            let addresses: Vec<String> = (0..n).map(|i| format!("10.1.{which}.{i}")).collect();
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            Event::Slice(slice(&format!("s{which}"), &format!("svc{owner}"), &addresses).into())
        }
    });
    prop::collection::vec(event, 0..40)
}

proptest! {
    /// Changes taken at any moments, laid over each other, give the same as the final snapshot.
    #[test]
    fn changes_add_up_to_the_snapshot(events in events(), every in 1..5usize) {
        let mut tracker = listed();
        let mut built = BTreeMap::new();
        for (i, event) in events.into_iter().enumerate() {
            tracker.apply(event);
            if i % every == 0 {
                merge(&mut built, tracker.take().unwrap());
            }
        }
        merge(&mut built, tracker.take().unwrap());
        prop_assert_eq!(built, tracker.snapshot().ports);
    }

    /// The final objects as two lists, in any order, give the same snapshot as the events that led there.
    #[test]
    fn order_of_events_does_not_matter(events in events(), seed in any::<u64>()) {
        let mut tracker = listed();
        let (mut services, mut slices) = (BTreeMap::new(), BTreeMap::new());
        for event in events {
            match &event {
                Event::Service(s) => { services.insert(s.name.clone(), s.clone()); }
                Event::ServiceGone(n) => { services.remove(n); }
                Event::Slice(s) => { slices.insert(s.name.clone(), s.clone()); }
                Event::SliceGone(n) => { slices.remove(n); }
                _ => {}
            }
            tracker.apply(event);
        }
        let mut slices: Vec<_> = slices.into_values().collect();
        let turn = usize::try_from(seed % 7).unwrap() % slices.len().max(1);
        slices.rotate_left(turn);
        let mut other = Tracker::new();
        other.apply(Event::Slices(slices));
        other.apply(Event::Services(services.into_values().collect()));
        prop_assert_eq!(other.snapshot(), tracker.snapshot());
    }
}

fn merge(built: &mut BTreeMap<PortKey, Arc<ServicePort>>, changes: Changes) {
    for (key, port) in changes.ports {
        match port {
            Some(port) => built.insert(key, port),
            None => built.remove(&key),
        };
    }
}
