//! Services that change or go, health-check node ports, and rules of others beside ours.

use std::collections::BTreeSet;

use switchyard_lab::Transport::Tcp;
use switchyard_model::Family;

use crate::common::looking::{PATIENCE, at, eventually, http};
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![a_deleted_service_leaves_nothing_and_others_go_on, a_changed_cluster_ip_moves_the_service,];
both_modes![
    a_health_check_node_port_tells_the_number_of_local_endpoints,
    a_health_check_node_port_that_is_taken_is_tried_again,
];
iptables_only![rules_and_chains_of_others_are_untouched_also_by_cleanup];

const TWO: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\n\
                   service other cluster.2:80/tcp nodeport=30081\nendpoint other n2.1:8080";

fn a_deleted_service_leaves_nothing_and_others_go_on(variant: Variant) {
    let Some(world) = World::running(variant, TWO) else { return };
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1"]);
    assert!(world.rules().contains("10.1.1.11"), "{}", world.rules());
    world.write("remove service web");
    world.settle();
    world.wait_for_silence("n1.9", Tcp, "cluster.1:80");
    world.wait_for_silence("client", Tcp, "n1:30080");
    let rules = world.rules();
    assert!(!rules.contains("default/web"), "{rules}");
    assert!(!rules.contains("10.1.1.11"), "{rules}");
    world.wait_for_answer("n1.9", Tcp, "cluster.2:80", &["n2.1"]);
    world.wait_for_answer("client", Tcp, "n1:30081", &["n2.1"]);
    world.assert_as_fresh();
}

fn a_changed_cluster_ip_moves_the_service(variant: Variant) {
    let Some(world) = World::running(variant, TWO) else { return };
    world.write("service web cluster.5:80/tcp nodeport=30085");
    world.settle();
    world.wait_for_answer("n1.9", Tcp, "cluster.5:80", &["n1.1"]);
    world.wait_for_answer("client", Tcp, "n1:30085", &["n1.1"]);
    world.wait_for_silence("n1.9", Tcp, "cluster.1:80");
    world.wait_for_silence("client", Tcp, "n1:30080");
    world.wait_for_answer("n1.9", Tcp, "cluster.2:80", &["n2.1"]);
}

/// What other programs may have written, one command per line. The last two are the kubelet's.
const FOREIGN: [&str; 8] = [
    "-t nat -N CNI-HOSTPORT",
    "-t nat -A CNI-HOSTPORT -p tcp --dport 9999 -j RETURN",
    "-t nat -A PREROUTING -j CNI-HOSTPORT",
    "-t nat -A POSTROUTING -p tcp --dport 9998 -j ACCEPT",
    "-t filter -N MINE",
    "-t filter -A FORWARD -p tcp --dport 9997 -j MINE",
    "-t filter -N KUBE-FIREWALL",
    "-t mangle -N KUBE-KUBELET-CANARY",
];

fn rules_and_chains_of_others_are_untouched_also_by_cleanup(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        for tool in ["iptables", "ip6tables"] {
            world.iptables(tool, &words);
        }
    };
    FOREIGN.iter().for_each(|line| run(line));
    let before: BTreeSet<String> = world.rules().lines().map(str::to_owned).collect();
    world.write(TWO);
    world.start(&[]);
    world.settle();
    // Now also in front of ours and between them.
    run("-t nat -I PREROUTING -p tcp --dport 9996 -j ACCEPT");
    run("-t filter -I FORWARD 2 -p tcp --dport 9995 -j ACCEPT");
    world.write("remove service other");
    world.settle();
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1"]);
    let during = world.rules();
    let missing: Vec<&String> = before.iter().filter(|line| !during.contains(line.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    world.kill();
    let cleanup = world.n1().start(&mut world.command(&["--cleanup"]), &world.path("cleanup.log"));
    let status = cleanup.unwrap().wait(PATIENCE).unwrap();
    assert!(
        status.is_some_and(|s| s.success()),
        "{}",
        std::fs::read_to_string(world.path("cleanup.log")).unwrap()
    );
    let after: BTreeSet<String> = world.rules().lines().map(str::to_owned).collect();
    let lost: Vec<&String> = before.difference(&after).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let is_ours = |line: &&String| line.contains("KUBE-") && !line.contains("KUBE-FIREWALL");
    let left: Vec<&String> = after.difference(&before).filter(is_ours).collect();
    assert!(left.is_empty(), "{left:?}");
    let added = |port: &str| after.iter().filter(|line| line.contains(port)).count();
    assert_eq!((added("--dport 9996"), added("--dport 9995")), (2, 2));
}

fn a_health_check_node_port_tells_the_number_of_local_endpoints(variant: Variant) {
    let lb = "service web cluster.1:80/tcp nodeport=30080 lb=lb.1 etp=Local health=32100\n\
              endpoint web n1.1:8080\nendpoint web n2.1:8080";
    let Some(world) = World::running(variant, lb) else { return };
    let expect = |status: u16, count: usize| {
        for family in Family::ALL {
            let body = format!("\"localEndpoints\": {count}");
            let is_so = |(s, text): (u16, String)| s == status && text.contains(&body);
            eventually(&body, || http(world.lab.client(), at("n1:32100", family), "/").is_ok_and(is_so));
        }
    };
    expect(200, 1);
    world.write("endpoint web n1.2:8080");
    expect(200, 2);
    world.write("remove endpoint web n1.1:8080\nremove endpoint web n1.2:8080");
    expect(503, 0);
    world.write("endpoint web n1.2:8080");
    expect(200, 1);
    world.write("service web cluster.1:80/tcp nodeport=30080 lb=lb.1 etp=Local health=32101");
    eventually("the port moves", || http(world.lab.client(), "192.168.1.10:32100", "/").is_err());
    eventually("the port moves", || http(world.lab.client(), "192.168.1.10:32101", "/").is_ok());
}

fn a_health_check_node_port_that_is_taken_is_tried_again(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    let squatter = world.n1().echo_tcp(32100).unwrap();
    world.write(
        "service web cluster.1:80/tcp nodeport=30080 lb=lb.1 etp=Local health=32100\nendpoint web n1.1:8080",
    );
    world.start(&[]);
    world.settle();
    world.wait_for_log("failed to start healthcheck");
    assert!(world.log().contains("default/web"));
    world.wait_for_answer("client", Tcp, "lb.1:80", &["n1.1"]);
    drop(squatter);
    world.settle();
    let is_ok = |(status, _)| status == 200;
    eventually("it is opened", || http(world.lab.client(), "192.168.1.10:32100", "/").is_ok_and(is_ok));
}
