//! Endpoints that lead back to the relay: no circle, whatever the address is called.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_lab::{Dial, Transport};
use switchyard_model::Family;

use crate::common::looking::{at, eventually, ip};
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::relayed;

const WEB: &str = "service web cluster.1:80/tcp\nendpoint web n1.1:8080";

/// An external IP of the family.
fn external_ip(family: Family) -> SocketAddr {
    match family {
        Family::V4 => "203.0.113.44:80".parse().unwrap(),
        Family::V6 => "[2001:db8:203::44]:80".parse().unwrap(),
    }
}

/// A Service for TCP and UDP, and a slice of it with one endpoint.
fn service(
    name: &str,
    at: SocketAddr,
    node_port: Option<u16>,
    external: &[SocketAddr],
    to: SocketAddr,
) -> [Value; 2] {
    let kind = if at.is_ipv4() { "IPv4" } else { "IPv6" };
    let name = format!("{name}-{}", kind.to_lowercase());
    let ports = ["TCP", "UDP"].map(|protocol| {
        json!({ "name": protocol.to_lowercase(), "protocol": protocol, "port": at.port(), "nodePort": node_port })
    });
    let targets = ["TCP", "UDP"]
        .map(|protocol| json!({ "name": protocol.to_lowercase(), "protocol": protocol, "port": to.port() }));
    let external: Vec<String> = external.iter().map(|at| at.ip().to_string()).collect();
    [
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "circle", "name": name },
            "spec": {
                "type": if node_port.is_some() { "NodePort" } else { "ClusterIP" },
                "clusterIP": at.ip(), "clusterIPs": [at.ip()], "externalIPs": external, "ports": ports,
            },
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": "circle", "name": format!("{name}-1"),
                "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": kind, "ports": targets, "endpoints": [{ "addresses": [to.ip()] }],
        }),
    ]
}

#[test]
fn endpoints_that_are_frontends_lead_nowhere() {
    let Some(world) = World::running(Variant::Userspace, WEB) else { return };
    let mut objects: Vec<Value> = Vec::new();
    let mut frontends: Vec<SocketAddr> = Vec::new();
    for (family, node_port) in [(Family::V4, 30_084), (Family::V6, 30_086)] {
        let cluster = |n: u8| at(&format!("cluster.{n}:80"), family);
        let node = SocketAddr::new(ip(world.n1(), family), node_port);
        let external = external_ip(family);
        objects.extend(service("itself", cluster(40), None, &[], cluster(40)));
        objects.extend(service("there", cluster(41), None, &[], cluster(42)));
        objects.extend(service("and-back", cluster(42), None, &[], cluster(41)));
        objects.extend(service("node-port", cluster(43), Some(node_port), &[], node));
        objects.extend(service("external", cluster(44), None, &[external], external));
        frontends.extend((40..=44).map(cluster).chain([node, external]));
    }
    let list = json!({ "kind": "List", "items": objects }).to_string();
    world.put_manifest("circles.json", list.as_bytes());
    world.settle();
    for transport in [Transport::Tcp, Transport::Udp] {
        for to in &frontends {
            for from in ["n1.9", "n1"] {
                let dial = Dial::new(transport, *to).within(Duration::from_millis(300));
                let answer = world.host(from).dial(&dial);
                assert_eq!(answer.name(), None, "{from} {to}: {answer:?}");
            }
        }
    }
    eventually("all connections are over", || relayed(&world, "open_connections") == 0.0);
    // Each client was accepted at most once. (A node without a way to the endpoint dials it four times.)
    let most = 2.0 * frontends.len() as f64;
    let (connections, flows) = (relayed(&world, "connections_total"), relayed(&world, "flows_total"));
    assert!(connections <= most, "{connections} connections of {most} clients");
    assert!(flows <= 4.0 * most, "{flows} flows of {most} clients");
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n1.1"]);
}
