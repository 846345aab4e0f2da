//! Table tests: a JSON object in, a line of text out.
#![expect(clippy::needless_pass_by_value, reason = "rows of tables are written in place")]

mod arbitrary;

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};
use switchyard_model::{EndpointSlice, Service};

use super::*;
use crate::wire::{self, Lax};

fn decode<O: Object>(value: Value) -> O {
    match Lax::deserialize(value) {
        Ok(Lax::Is(object)) => object,
        other => panic!("not an object: {:?}", other.map(|_| ())),
    }
}

/// A sound Service with the given changes to its spec; null removes a field.
fn service_with(spec: Value) -> wire::Service {
    let mut object = json!({
        "metadata": {"namespace": "ns", "name": "web", "creationTimestamp": "1970-01-01T00:00:07Z"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "http", "port": 80}]},
    });
    for (key, value) in spec.as_object().expect("an object") {
        object["spec"][key] = value.clone();
    }
    decode(object)
}

fn show_service(service: &Service) -> String {
    let mut text = format!("{} {:?}", service.name, service.cluster_ips);
    for port in &service.ports {
        let node_port = port.node_port.map(|p| format!("@{p}")).unwrap_or_default();
        write!(text, " {}={}/{}{node_port}", port.name, port.port, port.protocol).expect("writable");
    }
    text
}

fn problems<T>(converted: &Converted<T>) -> String {
    converted.complaints.iter().map(|c| c.problem.as_str()).collect::<Vec<_>>().join(" | ")
}

/// Spec changes, the Service that comes out ("-" for none), and a part of every complaint.
fn check_service(spec: Value, want: &str, complaints: &[&str]) {
    let converted = service(&service_with(spec.clone()), &mut Interner::default());
    let got = converted.value.as_ref().map_or("-".to_owned(), show_service);
    assert_eq!(got, want, "{spec}");
    let problems = problems(&converted);
    assert_eq!(converted.complaints.len(), complaints.len(), "{spec}: {problems}");
    for part in complaints {
        assert!(problems.contains(part), "{spec}: {problems}");
    }
}

#[test]
fn cluster_ips_follow_the_families() {
    let ports = "http=80/tcp";
    let v4 = format!("ns/web [10.0.0.1] {ports}");
    let dual = format!("ns/web [10.0.0.1, fd00::1] {ports}");
    let none = format!("ns/web [] {ports}");
    let both = json!(["fd00::1", "10.0.0.1"]);
    check_service(json!({}), &v4, &[]);
    check_service(json!({"clusterIP": "None"}), "-", &[]);
    check_service(json!({"clusterIP": null, "clusterIPs": ["None"]}), "-", &[]);
    check_service(json!({"clusterIP": ""}), &none, &[]);
    check_service(json!({"clusterIP": null}), &none, &[]);
    check_service(
        json!({"clusterIP": "fd00::1", "clusterIPs": both, "ipFamilies": ["IPv6", "IPv4"]}),
        &dual,
        &[],
    );
    check_service(json!({"clusterIPs": both}), &dual, &[]);
    check_service(json!({"clusterIPs": both, "ipFamilies": ["IPv4", "IPv6"]}), &none, &["[0]", "[1]"]);
    check_service(json!({"clusterIPs": ["10.0.0.1", "10.0.0.2"]}), &v4, &["second address"]);
    check_service(json!({"clusterIP": "10.0.0"}), &none, &["not an IP address"]);
    check_service(json!({"clusterIP": 5}), &none, &["spec.clusterIP is a number where text is expected"]);
    check_service(json!({"clusterIP": "010.00.0.01"}), &v4, &[]);
    check_service(json!({"type": "Weird"}), &v4, &["spec.type"]);
}

#[test]
fn bad_ports_are_left_out_and_good_ones_stay() {
    let check = |port: Value, want: &str, complaints: &[&str]| {
        let want = format!("ns/web [10.0.0.1] {want}ok=1/tcp");
        check_service(json!({"ports": [port, {"name": "ok", "port": 1}]}), &want, complaints);
    };
    check(json!({"port": 65535, "protocol": "SCTP"}), "=65535/sctp ", &[]);
    check(json!({"port": 80, "nodePort": 30080, "protocol": "UDP"}), "=80/udp@30080 ", &[]);
    check(json!({"port": 80, "nodePort": 0}), "=80/tcp ", &[]);
    check(json!({"port": 80, "nodePort": 70000}), "=80/tcp ", &["nodePort 70000 is not in"]);
    for port in [0, 65536, -1, i64::MIN, i64::MAX] {
        check(json!({"port": port}), "", &["is not in 1 to 65535"]);
    }
    check(json!({"port": u64::MAX}), "", &["is not in 1 to 65535"]);
    check(json!({"port": 80.5}), "", &["a fraction", "no port number"]);
    check(json!({"port": "80"}), "", &["is text where a whole number", "no port number"]);
    check(json!({}), "", &["no port number"]);
    check(json!({"port": 80, "protocol": "ICMP"}), "", &["`ICMP` is not TCP, UDP or SCTP"]);
    check(json!({"port": 80, "protocol": 6}), "", &["protocol is a number"]);
    check(json!({"port": 80, "name": "a b"}), "", &["not a DNS label"]);
    check(json!({"port": 80, "name": "x\" drop"}), "", &["not a DNS label"]);
    check(json!({"port": 80, "name": "x".repeat(64)}), "", &["not a DNS label"]);
    check(json!(null), "", &["spec.ports[0] is null"]);
    check(json!([]), "", &["spec.ports[0] is a list where an object"]);
    check_service(
        json!({"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}, {"name": "a", "port": 2, "protocol": "UDP"}]}),
        "ns/web [10.0.0.1] a=1/tcp a=2/udp",
        &["earlier port"],
    );
    check_service(json!({"ports": {"a": [1, {"b": 2}]}}), "ns/web [10.0.0.1]", &["spec.ports is an object"]);
}

/// Converts a sound Service with changes and returns it with its complaints.
fn converted(spec: Value) -> (Service, String) {
    let converted = service(&service_with(spec), &mut Interner::default());
    let problems = problems(&converted);
    (converted.value.expect("a Service"), problems)
}

#[test]
fn affinity_never_needs_a_timeout() {
    let seconds = |n: Value| json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": n}}});
    for (spec, want, complaint) in [
        (json!({}), None, ""),
        (json!({"sessionAffinity": "None"}), None, ""),
        (json!({"sessionAffinity": "Sticky"}), None, "not a known affinity"),
        (json!({"sessionAffinity": "ClientIP"}), Some(10800), ""),
        (json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {}}), Some(10800), ""),
        (
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": null}}),
            Some(10800),
            "",
        ),
        (seconds(json!(null)), Some(10800), ""),
        (seconds(json!(60)), Some(60), ""),
        (seconds(json!(0)), Some(10800), "not in 1 to 86400"),
        (seconds(json!(-5)), Some(10800), "not in 1 to 86400"),
        (seconds(json!(86401)), Some(10800), "not in 1 to 86400"),
        (seconds(json!("60")), Some(10800), "is text"),
    ] {
        let (service, problems) = converted(spec.clone());
        assert_eq!(service.affinity, want, "{spec}");
        assert!(
            problems.contains(complaint) && problems.is_empty() == complaint.is_empty(),
            "{spec}: {problems}"
        );
    }
}

#[test]
fn external_addresses_ranges_and_policies() {
    let (service, problems) = converted(json!({
        "type": "LoadBalancer",
        "externalIPs": ["1.2.3.4", " ", "", "nonsense", "fd00::9"],
        "loadBalancerSourceRanges": [" 10.1.2.3/8 ", "fd00::/8", "0.0.0.0/0", "bad", ""],
        "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Elsewhere",
        "healthCheckNodePort": 31000,
    }));
    assert_eq!(format!("{:?}", service.external_ips), "[1.2.3.4, fd00::9]");
    assert_eq!(format!("{:?}", service.source_ranges), "[10.0.0.0/8, fd00::/8, 0.0.0.0/0]");
    assert_eq!(format!("{:?} {:?}", service.internal_policy, service.external_policy), "Local Cluster");
    assert_eq!((service.health_check_node_port, service.created), (Some(31000), 7));
    assert_eq!(problems.split(" | ").count(), 3, "{problems}");
}

#[test]
fn load_balancer_addresses_follow_the_mode() {
    let ingress = json!([
        {"ip": "5.0.0.1"}, {"ip": "5.0.0.2", "ipMode": "VIP"}, {"ip": "5.0.0.3", "ipMode": "Proxy"},
        {"hostname": "lb.example.com"}, {"ip": "x"}, {"ip": "5.0.0.4", "ipMode": "Odd"}, 7,
    ]);
    let mut wire = service_with(json!({"type": "LoadBalancer"}));
    wire.status = Lax::deserialize(json!({"loadBalancer": {"ingress": ingress}})).expect("a status");
    let converted = service(&wire, &mut Interner::default());
    assert_eq!(converted.complaints.len(), 3, "{}", problems(&converted));
    assert_eq!(format!("{:?}", converted.value.expect("a Service").load_balancer_ips), "[5.0.0.1, 5.0.0.2]");
    // A list of allowed sources that nobody can read closes the load balancer.
    let mut closed = wire.clone();
    if let Lax::Is(spec) = &mut closed.spec {
        spec.load_balancer_source_ranges = Lax::Wrong("text");
    }
    let closed = service(&closed, &mut Interner::default()).value.expect("a Service");
    assert!(closed.load_balancer_ips.is_empty());
}

#[test]
fn other_proxies_and_hostile_names_are_kept_out() {
    let with_meta = |meta: Value| {
        let object = json!({"metadata": meta, "spec": {"clusterIP": "10.0.0.1"}});
        service(&decode(object), &mut Interner::default())
    };
    let label = json!({"service.kubernetes.io/service-proxy-name": "other"});
    let foreign = with_meta(json!({"namespace": "ns", "name": "web", "labels": label}));
    assert!(foreign.value.is_none() && foreign.complaints.is_empty());
    let long = "a".repeat(64);
    for name in [
        "",
        "A",
        "a b",
        "a\"b",
        "a'b",
        "a\nb",
        "a\u{7}",
        "a\u{202e}b",
        "../x",
        "a.b",
        "-a",
        &long,
        "<b>",
        "a\0",
    ] {
        for meta in [json!({"namespace": "ns", "name": name}), json!({"namespace": name, "name": "web"})] {
            let converted = with_meta(meta);
            assert!(converted.value.is_none(), "{name:?}");
            assert_eq!(converted.complaints.len(), 1, "{name:?}");
        }
    }
    for meta in
        [json!(null), json!(5), json!({}), json!({"name": "web"}), json!({"name": 1, "namespace": "ns"})]
    {
        let converted = with_meta(meta.clone());
        assert!(converted.value.is_none() && converted.complaints.len() == 1, "{meta}");
    }
    let huge = with_meta(json!({"namespace": "ns", "name": "ü".repeat(1_000_000)}));
    assert!(huge.complaints[0].to_string().len() < 2000);
}

fn slice_object(change: Value) -> Value {
    let mut object = json!({
        "metadata": {
            "namespace": "ns", "name": "web-x1", "labels": {"kubernetes.io/service-name": "web"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "1970-01-01T00:00:01.5Z"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.1.0.1"]}],
    });
    for (key, value) in change.as_object().expect("an object") {
        object[key] = value.clone();
    }
    object
}

fn converted_slice(change: Value) -> Converted<EndpointSlice> {
    slice(&decode(slice_object(change)), &mut Interner::default())
}

#[test]
fn slices_that_are_not_for_us_give_nothing() {
    let meta = |labels: Value| json!({"metadata": {"namespace": "ns", "name": "x", "labels": labels}});
    for (change, complaints) in [
        (meta(json!({})), 0),
        (meta(json!(null)), 0),
        (meta(json!({"kubernetes.io/service-name": ""})), 0),
        (meta(json!({"kubernetes.io/service-name": "web", "service.kubernetes.io/headless": ""})), 0),
        (meta(json!({"kubernetes.io/service-name": "web\n"})), 1),
        (meta(json!({"kubernetes.io/service-name": 7})), 1),
        (json!({"metadata": null}), 1),
        (json!({"addressType": "FQDN"}), 1),
        (json!({"addressType": null}), 1),
    ] {
        let converted = converted_slice(change.clone());
        assert!(converted.value.is_none(), "{change}");
        assert_eq!(converted.complaints.len(), complaints, "{change}: {}", problems(&converted));
    }
}

#[test]
fn slice_ports_need_name_and_number() {
    let converted = converted_slice(json!({"ports": [
        {"name": "", "port": 1}, {"port": 2}, {"name": "a"}, {"name": "b", "port": 0}, {"name": "c", "port": null},
        {"name": "d", "port": 65536}, {"name": "e", "port": 5, "protocol": "UDP"}, {"name": "F", "port": 6},
    ]}));
    assert_eq!(converted.complaints.len(), 6, "{}", problems(&converted));
    let slice = converted.value.expect("a slice");
    let ports: Vec<_> = slice.ports.iter().map(|p| format!("{}={}/{}", p.name, p.port, p.protocol)).collect();
    assert_eq!(ports, ["=1/tcp", "e=5/udp"]);
    assert_eq!(slice.trigger, Some(std::time::UNIX_EPOCH + std::time::Duration::from_millis(1500)));
}

#[test]
fn endpoints_of_a_slice() {
    let converted = converted_slice(json!({"endpoints": [
        {"addresses": ["010.001.0.1", "10.9.9.9"], "nodeName": "n1", "hints": {"forZones": [{"name": "z1"}], "forNodes": []}},
        {"addresses": ["10.1.0.2"], "conditions": {"ready": false, "serving": null, "terminating": true}},
        {"addresses": []}, {}, {"addresses": ["fd00::1"]}, {"addresses": ["x"]}, {"addresses": [7]},
        {"addresses": ["10.1.0.3"], "nodeName": "bad\"node", "conditions": {"ready": "no"}},
        {"addresses": ["10.1.0.4"], "hints": {"forZones": [{"name": "z 1"}], "forNodes": [{"name": "n2"}]}},
    ]}));
    assert_eq!(converted.complaints.len(), 8, "{}", problems(&converted));
    let show = |e: &switchyard_model::SliceEndpoint| {
        let c = e.conditions;
        let flags: String = [(c.ready, 'r'), (c.serving, 's'), (c.terminating, 't')]
            .iter()
            .filter(|f| f.0)
            .map(|f| f.1)
            .collect();
        let hints = e.hints.as_ref().map(|h| format!(" {:?}{:?}", h.zones, h.nodes)).unwrap_or_default();
        format!("{} {flags} {}{hints}", e.address, e.node.as_deref().unwrap_or("-"))
    };
    let got: Vec<_> = converted.value.expect("a slice").endpoints.iter().map(show).collect();
    let want = ["10.1.0.1 rs n1 [\"z1\"][]", "10.1.0.2 st -", "10.1.0.3 rs -", "10.1.0.4 rs - [][\"n2\"]"];
    assert_eq!(got, want);
}

#[test]
fn complaints_of_one_object_are_bounded() {
    let endpoints: Vec<_> = (0..5000).map(|_| json!({"addresses": ["x".repeat(10_000)]})).collect();
    let converted = converted_slice(json!({"endpoints": endpoints}));
    assert_eq!(converted.complaints.len(), 21);
    assert!(converted.complaints.iter().all(|c| c.problem.len() < 500));
    assert!(problems(&converted).contains("4980 more problems"));
}

#[test]
fn old_endpoints_become_slices() {
    let wire = decode(json!({
        "metadata": {"namespace": "ns", "name": "web"},
        "subsets": [
            {"addresses": [{"ip": "10.1.0.1", "nodeName": "n1"}, {"ip": "fd00::1"}, {"ip": "?"}],
             "notReadyAddresses": [{"ip": "10.1.0.2"}], "ports": [{"port": 80}]},
            {"addresses": [], "ports": [{"name": "b", "port": 81}]},
            {"addresses": [{"ip": "10.1.0.3"}], "ports": [{"name": "b", "port": 0}]},
        ],
    }));
    let converted = endpoints(&wire, &mut Interner::default());
    assert_eq!(converted.complaints.len(), 2, "{}", problems(&converted));
    let slices = converted.value.expect("slices");
    let show = |s: &EndpointSlice| {
        let endpoints: Vec<_> =
            s.endpoints.iter().map(|e| format!("{}={}", e.address, e.conditions.ready)).collect();
        format!("{} {} {} {endpoints:?} ports={}", s.name, s.service, s.family, s.ports.len())
    };
    let got: Vec<_> = slices.iter().map(show).collect();
    assert_eq!(
        got,
        [
            "ns/web-0-ipv4 ns/web IPv4 [\"10.1.0.1=true\", \"10.1.0.2=false\"] ports=1",
            "ns/web-0-ipv6 ns/web IPv6 [\"fd00::1=true\"] ports=1",
            "ns/web-2-ipv4 ns/web IPv4 [\"10.1.0.3=true\"] ports=0",
        ]
    );
}

#[test]
fn nodes_and_service_ranges() {
    let wire = decode(json!({
        "metadata": {"name": "n1", "deletionTimestamp": "2024-01-01T00:00:00Z", "labels": {"topology.kubernetes.io/zone": "z1"}},
        "spec": {"podCIDRs": ["10.1.0.0/24", "?"], "taints": [{"key": "a"}, {"key": "ToBeDeletedByClusterAutoscaler"}]},
        "status": {"addresses": [
            {"type": "ExternalIP", "address": "5.0.0.1"}, {"type": "Hostname", "address": "n1"},
            {"type": "InternalIP", "address": "10.0.0.2"}, {"type": "InternalIP", "address": "fd00::2"},
            {"type": "InternalIP", "address": "?"},
        ]},
    }));
    let converted = node(&wire, &mut Interner::default());
    assert_eq!(converted.complaints.len(), 2, "{}", problems(&converted));
    let node = converted.value.expect("a Node");
    assert_eq!(
        format!("{:?} {:?}", node.addresses, node.pod_cidrs),
        "[10.0.0.2, fd00::2, 5.0.0.1] [10.1.0.0/24]"
    );
    assert!(node.is_being_deleted && node.is_to_be_deleted && node.zone.as_deref() == Some("z1"));
    let cidr =
        service_cidr(&decode(json!({"metadata": {"name": "k"}, "spec": {"cidrs": ["10.96.0.0/12", "x"]}})));
    assert_eq!((cidr.complaints.len(), format!("{:?}", cidr.value)), (1, "Some([10.96.0.0/12])".to_owned()));
}
