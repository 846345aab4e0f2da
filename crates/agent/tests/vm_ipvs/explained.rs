//! `switchyard explain --probe`: what the agent says beside a real packet, which IPVS leads.

use serde_json::Value;
use switchyard_model::Family;

use super::common::looking::{at, ip};
use super::common::variant::Variant;
use super::common::world::World;
use super::{WEB, start};

/// Beside [`WEB`]: over UDP, from local endpoints alone, without endpoints, with an endpoint that does not listen.
const MORE: &str = "service dns cluster.2:53/udp\nendpoint dns n2.1:8080/udp
service nobody cluster.3:80/tcp
service shut cluster.4:80/tcp\nendpoint shut n1.1:9
service own cluster.5:80/tcp itp=Local\nendpoint own n1.1:8080\nendpoint own n2.1:8080";

/// Exit code and answer.
fn probe(world: &World, to: &str) -> (Option<i32>, Value) {
    let socket = world.path("admin.sock");
    let arguments =
        ["explain", "--probe", "-o", "json", "--to", to, "--admin-socket", socket.to_str().unwrap()];
    let output = world.n1().exec(env!("CARGO_BIN_EXE_switchyard"), &arguments).unwrap();
    let answer = serde_json::from_slice(&output.stdout);
    (output.status.code(), answer.map_err(|_| format!("{to}: {output:?}")).unwrap())
}

/// Everything that a packet of this node can meet, in both families.
#[test]
fn a_packet_goes_where_it_is_said_to_go() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    world.write(&format!("{WEB}\n{MORE}"));
    start(&world, &["--admin-socket", world.path("admin.sock").to_str().unwrap()]);
    world.settle();
    for family in Family::ALL {
        let node = std::net::SocketAddr::new(ip(world.n1(), family), 30_080).to_string();
        let dialled = |symbol: &str, protocol: &str| format!("{}/{protocol}", at(symbol, family));
        for (to, verdict) in [
            (dialled("cluster.1:80", "tcp"), "endpoints"),
            (dialled("cluster.2:53", "udp"), "endpoints"),
            (dialled("cluster.5:80", "tcp"), "endpoints"),
            (node, "endpoints"),
            (dialled("cluster.3:80", "tcp"), "reject"),
        ] {
            // Endpoints take turns: each is somebody whom the agent named.
            for _ in 0..2 {
                let (code, answer) = probe(&world, &to);
                let at = |path: &str| answer.pointer(path).unwrap_or(&Value::Null);
                assert_eq!((code, at("/verdict").as_str()), (Some(0), Some(verdict)), "{to}: {answer}");
                assert_eq!(at("/probe/agrees"), true, "{to}: {answer}");
                assert_eq!(at("/probe/endpoint").is_string(), verdict == "endpoints", "{to}: {answer}");
            }
        }
        // A reset: nobody can say whose it was, or IPVS still knows.
        let (code, answer) = probe(&world, &dialled("cluster.4:80", "tcp"));
        assert!(matches!(code, Some(0 | 2)), "{answer}");
    }
}

/// Other ports of a virtual address: what refuses them is named, and there.
#[test]
fn what_refuses_other_ports_is_named_and_found() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    world.write(WEB);
    start(&world, &["--admin-socket", world.path("admin.sock").to_str().unwrap()]);
    world.settle();
    for (family, word) in [(Family::V4, "ip"), (Family::V6, "ip6")] {
        let (code, answer) = probe(&world, &at("cluster.1:81", family).to_string());
        assert_eq!((code, answer["verdict"].as_str()), (Some(0), Some("reject")), "{answer}");
        let virtual_ip = format!("{{ {} }}", at("cluster.1:81", family).ip());
        let rule = format!(
            "{word} daddr @virtual-ips reject comment \"Reject traffic to other ports of virtual addresses\""
        );
        let by = serde_json::json!([
            format!("element virtual-ips {virtual_ip}"),
            format!("rule {rule} of chain endpoints-check")
        ]);
        assert_eq!(answer["by"], by);
        let listed = ["list", "chain", word, "switchyard-ipvs", "endpoints-check"];
        let chain = world.n1().exec_ok("nft", &listed).unwrap();
        assert!(chain.lines().any(|listed| listed.trim() == rule), "{chain}");
        let element = ["get", "element", word, "switchyard-ipvs", "virtual-ips", &virtual_ip];
        world.n1().exec_ok("nft", &element).unwrap();
    }
}

/// Somebody leads packets elsewhere, in front of IPVS.
#[test]
fn a_packet_that_goes_elsewhere_is_told_with_exit_code_1() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    world.write(WEB);
    start(&world, &["--admin-socket", world.path("admin.sock").to_str().unwrap()]);
    world.settle();
    let elsewhere = std::net::SocketAddr::new(ip(&world.pod("n2.9"), Family::V4), 8080).to_string();
    let rules = format!(
        "table ip theirs {{ chain out {{ type nat hook output priority -150; ip daddr {} tcp dport 80 dnat to {elsewhere}; }}; }}",
        at("cluster.1:80", Family::V4).ip()
    );
    world.n1().exec_ok("nft", &[&rules]).unwrap();
    let (code, answer) = probe(&world, &at("cluster.1:80", Family::V4).to_string());
    assert_eq!((code, answer.pointer("/probe/agrees")), (Some(1), Some(&Value::Bool(false))), "{answer}");
}
