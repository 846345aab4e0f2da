//! A kernel that refuses, very many objects, and a node without any program.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use switchyard_lab::Transport::Tcp;
use switchyard_lab::{Dial, Process};
use switchyard_model::Family;

use crate::common::looking::{PATIENCE, eventually, script, within};
use crate::common::objects::{crowd, crowd_ip, crowd_service};
use crate::common::ruleset;
use crate::common::variant::Variant;
use crate::common::world::World;

const WEB: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080";
const QUARANTINED: &str = "switchyard_quarantined_objects";

/// A program that owns a table of our name: the kernel lets nobody else write to it, and deletes it with its owner's end, which comes
/// when the file is dropped.
fn own_table(world: &World) -> (Process, File) {
    let orders = world.path("orders");
    nix::unistd::mkfifo(&orders, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let text = format!("exec nft -i < '{}'", orders.display());
    let owner = world.n1().start(Command::new("sh").args(["-c", &text]), &world.path("owner.log")).unwrap();
    let mut orders = OpenOptions::new().write(true).open(orders).unwrap();
    orders.write_all(b"add table ip switchyard { flags owner; }\n").unwrap();
    let is_there = || world.n1().exec_ok("nft", &["list", "tables"]).unwrap().contains("ip switchyard");
    assert!(within(PATIENCE, is_there), "{}", owner.log().unwrap());
    (owner, orders)
}

#[test]
fn trouble_for_all_is_waited_out_and_nobody_is_blamed() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    let (_owner, orders) = own_table(&world);
    world.write(WEB);
    world.start(&["--iptables-sync-period=1s"]);
    eventually("it is told", || world.health("/healthz").1.contains("lastError"));
    let failures = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total";
    eventually("it is counted", || world.metric(failures, "IPv4") >= 1.0);
    assert_eq!(world.metric(QUARANTINED, ""), 0.0, "{}", world.log());
    // The other family does not wait.
    eventually("IPv6 is served", || world.ask("n1.9", Tcp, "cluster.1:80", Family::V6).name().is_some());
    drop(orders);
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    eventually("it is well", || !world.health("/healthz").1.contains("lastError"));
    world.wait_for_log("sync works again");
    world.settle();
    world.assert_as_fresh();
}

/// One pod answers for all of 10.200.0.0/16, on port 8080.
fn answer_for_all(world: &World) {
    let pod = world.pod("n1.1");
    world.n1().exec_ok("ip", &["route", "add", "10.200.0.0/16", "via", "10.1.1.11"]).unwrap();
    let nat = "table ip answers { chain in { type nat hook prerouting priority -100; ip daddr 10.200.0.0/16 tcp dport 8080 dnat to 10.1.1.11:8080; }\n}";
    crate::nft(&pod, nat);
}

fn answers(world: &World, to: &str) -> bool {
    world.pod("n1.9").dial(&Dial::tcp(to.parse().unwrap())).name() == Some("pod-1-1")
}

fn full_syncs(world: &World) -> usize {
    world.log().matches("full sync done").count()
}

/// For a debug build on a busy machine; a release build takes a fraction.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn five_thousand_services_come_and_go() {
    const SERVICES: u16 = 5000;
    let Some(world) = World::running(Variant::Nftables, WEB) else { return };
    answer_for_all(&world);
    world.put_manifest("crowd.json", crowd(0..SERVICES).to_string().as_bytes());
    let some = [0, SERVICES / 2, SERVICES - 1].map(|n| format!("{}:80", crowd_ip(97, n)));
    assert!(within(LONG, || some.iter().all(|to| answers(&world, to))), "{}", world.log());
    let frontends = world.rules().lines().filter(|line| line.starts_with("ip frontends ")).count();
    assert!(frontends >= usize::from(SERVICES), "{frontends}");
    ruleset::check_listable(world.n1()).unwrap();
    // A restart finds all of them.
    world.kill();
    let before = full_syncs(&world);
    world.start(&[]);
    eventually("both families are looked at", || full_syncs(&world) >= before + 2);
    assert_eq!(world.metric("switchyard_kernel_ops_total", ""), 0.0, "{}", world.log());
    world.put_manifest("crowd.json", json!({ "kind": "List", "items": [] }).to_string().as_bytes());
    assert!(within(LONG, || !world.rules().contains("10.97.")), "{}", world.log());
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    world.settle();
    world.assert_as_fresh();
}

/// Sticky Services have a set and a chain for each endpoint.
#[test]
fn a_sticky_service_with_a_thousand_endpoints_works() {
    const ENDPOINTS: u16 = 1000;
    let Some(world) = World::running(Variant::Nftables, WEB) else { return };
    answer_for_all(&world);
    let mut sticky = crowd_service(0);
    sticky["spec"]["sessionAffinity"] = json!("ClientIP");
    let endpoints: Vec<Value> = (0..ENDPOINTS).map(|n| json!({ "addresses": [crowd_ip(200, n)] })).collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "namespace": "crowd", "name": "big", "labels": { "kubernetes.io/service-name": "crowd-0" } },
        "ports": [{ "name": "", "port": 8080 }], "endpoints": endpoints,
    });
    let list = json!({ "kind": "List", "items": [sticky, slice] });
    world.put_manifest("sticky.json", list.to_string().as_bytes());
    assert!(within(LONG, || answers(&world, "10.97.0.1:80")), "{}", world.log());
    let tally = world.pod("n1.9").dial_many(&Dial::tcp("10.97.0.1:80".parse().unwrap()), 20);
    assert_eq!(tally.answered.get("pod-1-1"), Some(&20), "{tally:?}");
    ruleset::check_listable(world.n1()).unwrap();
    world.put_manifest("sticky.json", json!({ "kind": "List", "items": [] }).to_string().as_bytes());
    assert!(within(LONG, || !world.rules().contains("clients-")), "{}", world.log());
    world.settle();
    world.assert_as_fresh();
}

/// Neither nft nor iptables is needed.
#[test]
fn it_works_where_no_program_is_installed() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    let (empty, hidden) = (world.path("empty"), world.path("hidden"));
    std::fs::create_dir(&empty).unwrap();
    let flags = world.flags().map(|flag| format!("'{flag}'")).join(" ");
    let hide =
        format!("mount --bind '{}' /usr/sbin && ! command -v nft && ! command -v iptables", empty.display());
    let start = format!(
        "exec '{}' --manifests '{}' {flags}",
        env!("CARGO_BIN_EXE_switchyard"),
        world.manifests().display()
    );
    script(&hidden, &format!("{hide} && {start}"));
    world.write(WEB);
    world.launch(world.n1(), Command::new("unshare").arg("-m").arg(hidden));
    world.settle();
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    assert!(!world.log().contains("WARN"), "{}", world.log());
    world.assert_as_fresh();
}
