//! Objects that are wrong, odd or at odds with each other, beside good ones.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchyard_lab::Transport::{Tcp, Udp};
use switchyard_lab::{Dial, Transport};
use switchyard_model::Family;

use crate::common::looking::{at, eventually};
use crate::common::objects::{service, slice};
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![the_older_of_two_services_keeps_a_frontend_that_both_ask_for, odd_names_are_served_or_set_aside];

const GOOD: &str = "service good cluster.1:80/tcp nodeport=30080\nendpoint good n1.1:8080";

fn assert_only(world: &World, from: &str, to: &str, transport: Transport, pod: &str) {
    world.wait_for_answer(from, transport, to, &[pod]);
    for family in Family::ALL {
        let tally = world.host(from).dial_many(&Dial::new(transport, at(to, family)), 10);
        assert_eq!(tally.answered.len(), 1, "{to}: {tally:?}");
        assert_eq!(tally.answered.get(world.pod(pod).name()), Some(&10), "{to}: {tally:?}");
    }
}

fn the_older_of_two_services_keeps_a_frontend_that_both_ask_for(variant: Variant) {
    let both = "service young cluster.2:80/tcp nodeport=30080 ext=ext.1 created=20\nendpoint young n2.1:8080\n\
                service old cluster.1:80/tcp nodeport=30080 ext=ext.1 created=10\nendpoint old n1.1:8080\n\
                service udp cluster.3:80/udp nodeport=30080 ext=ext.1 created=30\nendpoint udp n2.1:8080/udp";
    let Some(world) = World::running(variant, both) else { return };
    for (from, to) in
        [("client", "n1:30080"), ("client", "ext.1:80"), ("n1.9", "ext.1:80"), ("n1.9", "cluster.1:80")]
    {
        assert_only(&world, from, to, Tcp, "n1.1");
    }
    assert_only(&world, "n1.9", "cluster.2:80", Tcp, "n2.1");
    // Another protocol is another frontend.
    assert_only(&world, "client", "n1:30080", Udp, "n2.1");
    // Told after the rules are written: the first packets may be quicker.
    let end = Instant::now() + Duration::from_secs(10);
    let told = loop {
        let log = world.log();
        let told: Vec<String> = log
            .lines()
            .filter(|l| l.contains("two Services ask for one frontend"))
            .map(String::from)
            .collect();
        if told.len() >= 4 || Instant::now() >= end {
            break told;
        }
    };
    assert_eq!(told.len(), 4, "node port and external IP, both families: {told:?}");
    let names_both =
        |l: &String| l.contains("WARN") && l.contains("default/old") && l.contains("default/young");
    assert!(told.iter().all(names_both), "{told:?}");
    assert_eq!(world.metric("switchyard_frontend_conflicts", ""), 4.0);
    world.write("remove service old");
    for (from, to) in [("client", "n1:30080"), ("client", "ext.1:80"), ("n1.9", "cluster.2:80")] {
        assert_only(&world, from, to, Tcp, "n2.1");
    }
    world.settle();
    while world.metric("switchyard_frontend_conflicts", "") != 0.0 {
        assert!(Instant::now() < end, "the conflict is over, but still told");
    }
    world.assert_as_fresh();
}

/// A Service with an endpoint, as one file.
fn put(world: &World, file: &str, objects: &[Value]) {
    let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    world.put_manifest(file, text.as_bytes());
}

fn answers(world: &World, to: &str) -> bool {
    let dial = Dial::tcp(to.parse().unwrap());
    world.pod("n1.9").dial(&dial).name() == Some("pod-1-1")
}

fn odd_names_are_served_or_set_aside(variant: Variant) {
    let Some(world) = World::running(variant, GOOD) else { return };
    let long = ["a", "b", "c"].map(|letter| letter.repeat(63));
    let [namespace, name, port] = [&long[0], &long[1], &long[2]].map(String::as_str);
    put(
        &world,
        "long.yaml",
        &[
            service(namespace, name, port, "10.96.0.100", &json!(80)),
            slice(namespace, name, port, "IPv4", "10.1.1.11", &json!(8080)),
        ],
    );
    let hostile = [
        "x\" -j ACCEPT #",
        "x\nCOMMIT\n*filter\n-P INPUT DROP",
        "x y",
        "$(touch /tmp/switchyard-was-here)",
        "../../etc",
        "\u{202e}rtl",
        "",
        &"d".repeat(64),
        &"e".repeat(100_000),
    ];
    for (n, name) in hostile.iter().enumerate() {
        let ip = format!("10.96.0.{}", 110 + n);
        put(&world, &format!("hostile-{n}.yaml"), &[service("default", name, "", &ip, &json!(80))]);
        let ip = format!("10.96.0.{}", 130 + n);
        put(
            &world,
            &format!("port-{n}.yaml"),
            &[service("default", &format!("p{n}"), name, &ip, &json!(80))],
        );
        put(&world, &format!("space-{n}.yaml"), &[service(name, "web", "", "10.96.0.150", &json!(80))]);
    }
    eventually("long names are served", || answers(&world, "10.96.0.100:80"));
    world.settle();
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    assert!(world.metric("switchyard_quarantined_objects", "kind=\"Service\"") >= 15.0, "{}", world.log());
    let rules = world.rules();
    for bad in ["ACCEPT #", "touch", "rtl", "etc", &"d".repeat(64), "INPUT DROP"] {
        assert!(!rules.contains(bad), "{bad}: {rules}");
    }
    let log = world.log();
    assert!(!log.lines().any(|line| line.starts_with("COMMIT") || line.len() > 5000), "{log}");
}

/// A Service of this name in a namespace of this name, and its endpoints.
#[expect(clippy::needless_pass_by_value, reason = "so that a call reads as a line of a table")]
fn pair(name: &str, cluster_ip: &str, port: Value, kind: &str, address: &str, end: Value) -> [Value; 2] {
    [service(name, name, "", cluster_ip, &port), slice(name, name, "", kind, address, &end)]
}

const POD: &str = "10.1.1.11";

#[test]
fn wrong_values_cost_only_themselves() {
    let Some(world) = World::running(Variant::Nft, GOOD) else { return };
    let port = || json!(8080);
    let objects = [
        pair("mixed", "10.96.0.101", json!(80), "IPv6", POD, port()),
        pair("zero", "10.96.0.102", json!(0), "IPv4", POD, port()),
        pair("high", "10.96.0.103", json!(65536), "IPv4", POD, port()),
        pair("end", "10.96.0.104", json!(80), "IPv4", POD, json!(65536)),
        pair("text", "10.96.0.105", json!("http"), "IPv4", POD, json!([])),
        pair("where", "300.1.2.3", json!(80), "IPv4", "nowhere", port()),
    ];
    for (n, both) in objects.iter().enumerate() {
        put(&world, &format!("wrong-{n}.yaml"), both);
    }
    let [mut more, ends] = pair("more", "10.96.0.107", json!(80), "IPv4", POD, port());
    more.as_object_mut().unwrap().insert("quantumEntanglement".to_owned(), json!({ "pairs": 7 }));
    put(&world, "unknown.yaml", &[more, ends]);
    eventually("unknown fields are accepted", || answers(&world, "10.96.0.107:80"));
    world.settle();
    for told in
        ["mixed/mixed-1", "zero/zero", "high/high", "end/end-1", "text/text", "where/where", "where/where-1"]
    {
        world.wait_for_log(told);
    }
    for dead in ["10.96.0.101:80", "10.96.0.104:80"] {
        assert!(!answers(&world, dead), "{dead}");
    }
    // A change of the good one still takes effect, and what is corrected is served.
    world.write("service good cluster.9:80/tcp nodeport=30089");
    world.wait_for_answer("n1.9", Tcp, "cluster.9:80", &["n1.1"]);
    put(&world, "wrong-1.yaml", &pair("zero", "10.96.0.102", json!(80), "IPv4", POD, port()));
    eventually("a corrected object is served", || answers(&world, "10.96.0.102:80"));
}

#[test]
fn wrong_files_cost_only_themselves() {
    let Some(world) = World::running(Variant::Nft, GOOD) else { return };
    let kinds =
        [json!({ "kind": "Pod", "apiVersion": "v1" }), json!({ "kind": 7 }), json!([1, 2]), json!("x")];
    put(&world, "kinds.yaml", &kinds);
    world.put_manifest("broken.yaml", b"kind: Service\n  metadata: [\n");
    world.put_manifest("binary.yaml", b"kind: Service\n\xff\xfe\x00");
    std::fs::File::create(world.path("large")).unwrap().set_len(60_000_000).unwrap();
    std::fs::rename(world.path("large"), world.manifests().join("large.yaml")).unwrap();
    for told in ["kinds.yaml", "broken.yaml", "not UTF-8", "larger than 50000000 bytes"] {
        world.wait_for_log(told);
    }
    world.settle();
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    // Half a file is good: its other documents count.
    let [service, slice] = pair("half", "10.96.0.108", json!(80), "IPv4", POD, json!(8080));
    world.put_manifest("broken.yaml", format!("{service}\n---\nkind: [\n---\n{slice}\n").as_bytes());
    eventually("the good documents are served", || answers(&world, "10.96.0.108:80"));
    // A good file that breaks keeps what it held.
    world.put_manifest("broken.yaml", format!("{service}\n---\n{slice}\n").as_bytes());
    world.settle();
    world.put_manifest("broken.yaml", b"\xff");
    world.wait_for_log("the last good content of this file stays in use");
    world.settle();
    assert!(answers(&world, "10.96.0.108:80"));
}
