//! Very many endpoints.

use std::time::{Duration, Instant};

use serde_json::json;
use switchyard_lab::Dial;

use crate::common::looking::within;
use crate::common::variant::Variant;
use crate::common::world::World;

const ENDPOINTS: u16 = 10_000;

/// A debug build on a busy machine; a release build takes a fraction.
const LIMIT: Duration = Duration::from_secs(60);

/// One pod answers for a whole network, so that any of the endpoints can be chosen.
fn answer_for_all(world: &World) {
    let pod = world.pod("n1.1");
    world.n1().exec_ok("ip", &["route", "add", "10.200.0.0/16", "via", "10.1.1.11"]).unwrap();
    let to = ["-d", "10.200.0.0/16", "-p", "tcp", "-j", "DNAT", "--to-destination", "10.1.1.11:8080"];
    pod.exec_ok("iptables-nft", &[&["-t", "nat", "-A", "PREROUTING"][..], &to[..]].concat()).unwrap();
}

fn ten_thousand_endpoints_in_one_service_work(variant: Variant) {
    let Some(world) = World::running(variant, "service other cluster.2:80/tcp\nendpoint other n1.2:8080")
    else {
        return;
    };
    answer_for_all(&world);
    let endpoint = |n: u16| json!({ "addresses": [format!("10.200.{}.{}", n / 250, n % 250 + 1)] });
    let slice = |part: u16| {
        let numbers = part * 1000..(part + 1) * 1000;
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": { "name": format!("big-{part}"), "labels": { "kubernetes.io/service-name": "big" } },
            "ports": [{ "name": "", "port": 8080 }], "endpoints": numbers.map(endpoint).collect::<Vec<_>>(),
        })
    };
    let mut items: Vec<_> = (0..ENDPOINTS / 1000).map(slice).collect();
    items.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "big" },
        "spec": { "clusterIP": "10.96.0.77", "clusterIPs": ["10.96.0.77"], "ports": [{ "port": 80 }] },
    }));
    let began = Instant::now();
    world.put_manifest("big.json", json!({ "kind": "List", "items": items }).to_string().as_bytes());
    let dial = Dial::tcp("10.96.0.77:80".parse().unwrap());
    let caller = world.pod("n1.9");
    assert!(within(LIMIT, || caller.dial(&dial).name() == Some("pod-1-1")), "{}", world.log());
    eprintln!("{variant}: {ENDPOINTS} endpoints after {:?}", began.elapsed());
    let tally = caller.dial_many(&dial, 20);
    assert_eq!(tally.answered.get("pod-1-1"), Some(&20), "{tally:?}");
}

every_mode![ten_thousand_endpoints_in_one_service_work];
