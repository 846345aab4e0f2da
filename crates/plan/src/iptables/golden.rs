//! Full restore input for small worlds, line by line as kube-proxy would write it, in both families.
//!
//! The files hold IPv4. The IPv6 input must be the same after its addresses are mapped back and hashes are numbered,
//! except for the tail of KUBE-SERVICES, which one file of its own shows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use expect_test::{ExpectFile, expect_file};
use ipnet::IpNet;
use switchyard_model::Family;

use crate::iptables::Planner;
use crate::testing::kernel::FakeKernel;
use crate::testing::{World, plain, plain_range, plain_socket};

fn full_text(planner: &mut Planner) -> String {
    let mut kernel = FakeKernel::default();
    let mut all = String::new();
    for step in planner.full(&BTreeSet::new(), 100) {
        let text = planner.render(&step).restore.text();
        assert_eq!(kernel.restore(&text), Ok(()));
        all += &text;
    }
    all
}

fn check(expect: &ExpectFile, text: &str) {
    let [v4, v6] = Family::ALL.map(|family| full_text(&mut World::new(family, text).planner()));
    expect.assert_eq(&v4);
    let (v4, v6) = (normal(&v4), normal(&v6));
    let differs = v4.lines().zip(v6.lines()).find(|(a, b)| a != b);
    assert!(v4 == v6, "{differs:?}");
}

/// Text with IPv4 addresses and with endpoint chains numbered, without what differs between families by intent.
fn normal(text: &str) -> String {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut lines = Vec::new();
    for line in text.lines().filter(|l| !l.contains("must be the last rule") && !l.contains("KUBE-FIREWALL"))
    {
        let mut words: Vec<String> = Vec::new();
        for word in line.split([' ', '"', ':'].as_slice()).filter(|w| w.starts_with("KUBE-SEP-")) {
            let next = numbers.len();
            numbers.entry(word.into()).or_insert(next);
        }
        for word in line.split(' ') {
            let bare = word.trim_matches(['"', ':'].as_slice());
            let shown = match numbers.get(bare) {
                Some(n) => format!("SEP{n}"),
                None => plain_word(word),
            };
            words.push(shown);
        }
        // Loopback node ports exist in IPv4 only.
        if !line.contains("localhost_nps_accepted_pkts") {
            lines.push(words.join(" "));
        }
    }
    lines.join("\n")
}

fn plain_word(word: &str) -> String {
    let bare = word.trim_matches('"');
    let quote = if word.ends_with('"') { "\"" } else { "" };
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return plain(ip).to_string();
    }
    if let Ok(at) = bare.parse::<SocketAddr>() {
        return format!("{}{quote}", plain_socket(at));
    }
    if let Ok(range) = bare.parse::<IpNet>() {
        return plain_range(&range).to_string();
    }
    word.into()
}

#[test]
fn nothing() {
    check(&expect_file!["golden/nothing.txt"], "");
}

#[test]
fn cluster_ip() {
    check(
        &expect_file!["golden/cluster_ip.txt"],
        "node detector=cidr:10.1.0.0/16
         svc shop/web:http tcp 10.96.0.1:80
         ep 10.1.0.1:8080 @here
         ep 10.1.1.1:8080 @there
         ep 10.1.1.10:8080 @there
         svc shop/unnamed tcp 10.96.0.2:443
         ep 10.1.0.2:443",
    );
}

#[test]
fn udp_and_sctp() {
    check(
        &expect_file!["golden/udp_and_sctp.txt"],
        "svc kube-system/dns:dns udp 10.96.0.10:53 node=30053
         ep 10.1.0.1:53
         svc telco/signal:s sctp 10.96.0.11:132 ext=203.0.113.1
         ep 10.1.0.2:132",
    );
}

#[test]
fn external_ip() {
    check(
        &expect_file!["golden/external_ip.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 ext=203.0.113.1,203.0.113.2
         ep 10.1.0.1:8080",
    );
}

#[test]
fn load_balancer() {
    check(
        &expect_file!["golden/load_balancer.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 node=30080 lb=198.51.100.1,198.51.100.2
         ep 10.1.0.1:8080",
    );
}

#[test]
fn source_ranges_without_the_node() {
    check(
        &expect_file!["golden/source_ranges_without_the_node.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=10.0.0.0/8,172.16.0.0/16
         ep 10.1.0.1:8080",
    );
}

#[test]
fn source_ranges_with_the_node() {
    check(
        &expect_file!["golden/source_ranges_with_the_node.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 lb=198.51.100.1,198.51.100.2 from=192.168.0.0/24 etp=local
         ep 10.1.1.1:8080 @there",
    );
}

#[test]
fn node_ports_on_some_addresses() {
    check(
        &expect_file!["golden/node_ports_on_some_addresses.txt"],
        "node nodeports=192.168.0.10,192.168.1.10,127.0.0.1
         svc shop/web:http tcp 10.96.0.1:80 node=30080
         ep 10.1.0.1:8080",
    );
}

#[test]
fn loopback_node_ports() {
    check(
        &expect_file!["golden/loopback_node_ports.txt"],
        "node loopback=served
         svc shop/web:http tcp 10.96.0.1:80 node=30080
         ep 10.1.0.1:8080",
    );
    check(
        &expect_file!["golden/loopback_node_ports_on_some_addresses.txt"],
        "node loopback=served nodeports=192.168.0.10,127.0.0.1
         svc shop/web:http tcp 10.96.0.1:80 node=30080
         ep 10.1.0.1:8080",
    );
}

#[test]
fn counters() {
    check(
        &expect_file!["golden/counters.txt"],
        "node loopback=served
         iptables counters
         svc shop/web:http tcp 10.96.0.1:80 node=30080
         ep 10.1.0.1:8080",
    );
}

#[test]
fn health_check_port() {
    check(
        &expect_file!["golden/health_check_port.txt"],
        "svc shop/voice:rtp udp 10.96.0.1:80 lb=198.51.100.1 etp=local health=32000",
    );
}

#[test]
fn internal_policy_local() {
    check(
        &expect_file!["golden/internal_policy_local.txt"],
        "node detector=cidr:10.1.0.0/16
         svc a/here:x tcp 10.96.0.1:80 itp=local
         ep 10.1.0.1:8080 @here
         ep 10.1.1.1:8080 @there
         svc b/elsewhere:x tcp 10.96.0.2:80 itp=local
         ep 10.1.1.1:8080 @there
         svc c/both:x tcp 10.96.0.3:80 itp=local node=30080
         ep 10.1.0.1:8080 @here
         ep 10.1.1.1:8080 @there
         svc d/nowhere:x tcp 10.96.0.4:80 itp=local",
    );
}

const EXTERNAL_LOCAL: &str =
    "svc a/here:x tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 etp=local
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there
    svc b/elsewhere:x tcp 10.96.0.2:80 node=30081 ext=203.0.113.2 lb=198.51.100.2 etp=local
    ep 10.1.1.1:8080 @there";

#[test]
fn external_policy_local() {
    check(&expect_file!["golden/external_policy_local.txt"], EXTERNAL_LOCAL);
}

#[test]
fn external_policy_local_with_a_detector() {
    check(
        &expect_file!["golden/external_policy_local_with_a_detector.txt"],
        &format!("node detector=prefix:cali\n{EXTERNAL_LOCAL}"),
    );
}

#[test]
fn affinity() {
    check(
        &expect_file!["golden/affinity.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 node=30080 sticky=10800 etp=local
         ep 10.1.0.1:8080 @here
         ep 10.1.1.1:8080 @there",
    );
}

#[test]
fn no_endpoints() {
    check(
        &expect_file!["golden/no_endpoints.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=10.0.0.0/8 etp=local
         ep 10.1.0.1:8080 @here starting",
    );
}

#[test]
fn masquerade_all() {
    check(
        &expect_file!["golden/masquerade_all.txt"],
        "node masquerade=all detector=cidr:10.1.0.0/16
         svc shop/web:http tcp 10.96.0.1:80
         ep 10.1.0.1:8080",
    );
}

#[test]
fn detector_bridge() {
    check(
        &expect_file!["golden/detector_bridge.txt"],
        "node detector=bridge:cbr0
         svc shop/web:http tcp 10.96.0.1:80 node=30080 etp=local
         ep 10.1.0.1:8080 @here",
    );
}

#[test]
fn detector_prefix() {
    check(
        &expect_file!["golden/detector_prefix.txt"],
        "node detector=prefix:cali
         svc shop/web:http tcp 10.96.0.1:80
         ep 10.1.0.1:8080 @here",
    );
}

#[test]
fn old_programs_liberal_tracking_and_another_mark() {
    check(&expect_file!["golden/old_programs.txt"], "iptables plain-ports liberal counters mark=1");
}

#[test]
fn hints_and_the_local_union() {
    check(
        &expect_file!["golden/hints_and_the_local_union.txt"],
        "svc shop/web:http tcp 10.96.0.1:80 node=30080 etp=local
         ep 10.1.0.1:8080 @here zones=b
         ep 10.1.1.1:8080 @there zones=a
         ep 10.1.2.1:8080 @there zones=b",
    );
}

#[test]
fn frontends_of_an_older_service_are_left_to_it() {
    check(
        &expect_file!["golden/lost_frontends.txt"],
        "svc a/young:x tcp 10.96.0.1:80 lb=198.51.100.1 from=10.0.0.0/8 created=2
         ep 10.1.0.1:8080
         svc b/old:x tcp 10.96.0.2:80 ext=198.51.100.1 created=1",
    );
}

#[test]
fn ipv6() {
    let text = "node detector=cidr:10.1.0.0/16 loopback=served
         iptables counters
         svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=192.168.0.0/24 sticky=60
         ep 10.1.0.1:8080 @here
         ep 10.1.1.1:8080 @there";
    let shown = full_text(&mut World::new(Family::V6, text).planner());
    expect_file!["golden/ipv6.txt"].assert_eq(&shown);
    let text = "node nodeports=192.168.0.10,127.0.0.1 loopback=served\nsvc a/b tcp 10.96.0.1:80 node=30080";
    let shown = full_text(&mut World::new(Family::V6, text).planner());
    expect_file!["golden/ipv6_node_ports_on_some_addresses.txt"].assert_eq(&shown);
}

/// Comments in front of endpoints go above 1000 endpoints, and only those.
#[test]
fn large_clusters_do_without_comments_in_front_of_endpoints() {
    for (count, is_terse) in [(1000, false), (1001, true)] {
        let eps: String = (0..count).map(|i| format!("ep 10.1.{}.{}:80\n", i / 250, i % 250)).collect();
        let text = format!("svc a/b tcp 10.96.0.1:80 node=30080 sticky=60\n{eps}");
        let text = full_text(&mut World::new(Family::V4, &text).planner());
        let commented = |prefix: &str| {
            let lines = || text.lines().filter(|l| l.starts_with(prefix));
            (lines().filter(|l| l.contains("--comment")).count(), lines().count())
        };
        let (with, all) = commented("-A KUBE-SVC-");
        assert_eq!((with, all), (if is_terse { 0 } else { 2 * count }, 2 * count));
        let (with, all) = commented("-A KUBE-SEP-");
        assert_eq!((with, all), (if is_terse { 0 } else { 2 * count }, 2 * count));
        assert_eq!(commented("-A KUBE-EXT-"), (1, 2));
        assert_eq!(commented("-A KUBE-NODEPORTS"), (1, 1));
        assert_eq!(commented("-A KUBE-SERVICES"), (2, 2));
    }
}
