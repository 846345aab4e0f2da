//! Whole rulesets for small worlds, as nft would list them, in both families.
//!
//! The files hold IPv4, and only what depends on the world: `nothing.txt` shows the rest. The IPv6 ruleset must be the
//! same after its addresses are mapped back and hashes are numbered; one file of its own shows it as it is.

use std::collections::BTreeMap;
use std::net::IpAddr;

use expect_test::{ExpectFile, expect_file};
use ipnet::IpNet;
use switchyard_model::Family;

use super::fake::FakeKernel;
use super::planner::Ruleset;
use super::{Config, Planner};
use crate::book::Book;
use crate::testing::{World, all, plain, plain_range, range};

fn ruleset(family: Family, text: &str) -> Ruleset {
    ruleset_with(Config::default(), family, text)
}

fn ruleset_with(config: Config, family: Family, text: &str) -> Ruleset {
    let world = World::new(family, text);
    let mut planner = Planner::new(config, Book::new(world.settings.clone()));
    let mut kernel = FakeKernel::holding(planner.ruleset());
    assert_eq!(kernel.commit(&planner.partial(all(&world.ports)).ops), Ok(()));
    assert_eq!(kernel.ruleset, planner.ruleset());
    kernel.ruleset
}

/// A ruleset without the chains that a node without wishes and Services has as well.
fn own(family: Family, text: &str) -> String {
    own_of(ruleset(family, text), family)
}

fn own_of(mut shown: Ruleset, family: Family) -> String {
    let nothing = ruleset(family, "");
    shown.chains.retain(|name, chain| nothing.chains.get(name) != Some(chain));
    shown.to_text(family)
}

fn check(expect: &ExpectFile, text: &str) {
    let [v4, v6] = Family::ALL.map(|family| own(family, text));
    expect.assert_eq(&numbered(&v4));
    let (v4, v6) = (normal(&v4), normal(&v6));
    assert_eq!(v4, v6);
}

/// Text with its hashes numbered: they are no use to a reader.
fn numbered(text: &str) -> String {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let mut shown = String::new();
    let is_hash = |word: &str| word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
    for piece in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if is_hash(word) {
            let next = numbers.len();
            let number = numbers.entry(word.to_owned()).or_insert(next);
            shown += &piece.replace(word, &format!("HASH{number}"));
        } else {
            shown += piece;
        }
    }
    shown
}

/// Words with IPv4 addresses, without hashes, in order: the order of addresses differs between families.
fn normal(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(normal_line).collect();
    lines.sort();
    lines
}

fn normal_line(line: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_start_matches('[').replace("]:", " ");
        let (first, rest) = bare.split_once(' ').unwrap_or((&bare, ""));
        if let Ok(ip) = first.parse::<IpAddr>() {
            return format!("{} {rest}", plain(ip)).trim_end().replace(' ', ":");
        }
        if let Ok(range) = word.parse::<IpNet>() {
            return if range.addr().is_loopback() {
                "loopback".into()
            } else {
                plain_range(&range).to_string()
            };
        }
        match word.rsplit_once('-') {
            Some((kind, hash)) if hash.trim_end_matches(',').len() == 32 => kind.into(),
            _ => word.replace("ip6", "ip"),
        }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

macro_rules! goldens {
    ($($name:ident: $text:expr;)*) => {$(
        #[test]
        fn $name() {
            check(&expect_file![concat!("golden/", stringify!($name), ".txt")], $text);
        }
    )*};
}

goldens! {
    cluster_ip: "node detector=cidr:10.1.0.0/16
        svc shop/web:http tcp 10.96.0.1:80
        ep 10.1.0.1:8080 @here
        ep 10.1.1.1:8080 @there
        ep 10.1.1.10:8080 @there
        svc shop/unnamed tcp 10.96.0.2:443
        ep 10.1.0.2:443";
    udp_and_sctp: "svc kube-system/dns:dns udp 10.96.0.10:53 node=30053
        ep 10.1.0.1:53
        svc telco/signal:s sctp 10.96.0.11:132 ext=203.0.113.1
        ep 10.1.0.2:132";
    external_ip: "svc shop/web:http tcp 10.96.0.1:80 ext=203.0.113.1,203.0.113.2
        ep 10.1.0.1:8080";
    load_balancer_with_ranges: "svc shop/web:http tcp 10.96.0.1:80 lb=198.51.100.1 from=10.0.0.0/8,10.1.0.0/16
        ep 10.1.0.1:8080";
    load_balancer_with_ranges_of_the_node: "svc shop/web:http tcp 10.96.0.1:80 lb=198.51.100.1 from=192.168.0.0/24";
    node_port: "svc shop/web:http tcp 10.96.0.1:80 node=30080
        ep 10.1.0.1:8080
        ep 10.1.0.2:8080";
    node_ports_on_some_addresses: "node nodeports=192.168.0.10,127.0.0.1 loopback=served
        svc shop/web:http tcp 10.96.0.1:80 node=30080
        ep 10.1.0.1:8080";
    no_endpoints: "svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1";
    internal_local: "svc shop/web:http tcp 10.96.0.1:80 itp=local node=30080
        ep 10.1.0.1:8080 @here
        ep 10.1.1.1:8080 @there
        svc shop/silent:http tcp 10.96.0.2:80 itp=local
        ep 10.1.1.1:8080 @there";
    external_local: "node detector=prefix:cali
        svc shop/web:http tcp 10.96.0.1:80 etp=local node=30080 ext=203.0.113.1
        ep 10.1.0.1:8080 @here
        ep 10.1.0.2:8080 @here
        ep 10.1.1.1:8080 @there
        svc shop/silent:http tcp 10.96.0.2:80 etp=local node=30081
        ep 10.1.1.1:8080 @there";
    external_local_with_hints: "svc shop/web:http tcp 10.96.0.1:80 etp=local ext=203.0.113.1
        ep 10.1.0.1:8080 @here zones=b
        ep 10.1.0.2:8080 @here zones=a
        ep 10.1.1.1:8080 @there zones=a";
    affinity: "svc shop/web:http tcp 10.96.0.1:80 sticky=10800 node=30080
        ep 10.1.0.1:8080
        ep 10.1.0.2:8080";
    affinity_with_local_policies: "node detector=bridge:cbr0
        svc shop/web:http tcp 10.96.0.1:80 sticky=60 itp=local etp=local ext=203.0.113.1
        ep 10.1.0.1:8080 @here
        ep 10.1.1.1:8080 @there";
    masquerade_all: "node masquerade=all detector=cidr:10.1.0.0/16";
    detector_cidr: "node detector=cidr:10.1.0.0/16";
    detector_bridge: "node detector=bridge:cbr0";
    detector_prefix: "node detector=prefix:cali";
}

#[test]
fn nothing() {
    expect_file!["golden/nothing.txt"].assert_eq(&ruleset(Family::V4, "").to_text(Family::V4));
}

#[test]
fn ipv6_as_it_is() {
    let text = "svc shop/web:http tcp 10.96.0.1:80 node=30080 lb=198.51.100.1 from=10.0.0.0/8\n ep 10.1.0.1:8080 @here";
    expect_file!["golden/ipv6_as_it_is.txt"].assert_eq(&ruleset(Family::V6, text).to_text(Family::V6));
}

/// Endpoints are listeners of this node: nothing is masqueraded, and the relay's own packets are left alone.
#[test]
fn relay() {
    let text = "svc shop/dns:dns udp 10.96.0.10:53 node=30053
        ep 192.168.0.10:20053 @there";
    let of = |family| {
        own_of(ruleset_with(Config { relay: Some(0x5359_0000), ..Config::default() }, family, text), family)
    };
    expect_file!["golden/relay.txt"].assert_eq(&of(Family::V4));
    assert_eq!(normal(&of(Family::V4)), normal(&of(Family::V6)));
}

#[test]
fn service_cidrs() {
    for family in Family::ALL {
        let service_cidrs = Family::ALL.map(|family| range(family, "10.96.0.0/16")).to_vec();
        let config = Config { service_cidrs, mark: 1 << 3, ..Config::default() };
        let ruleset = Planner::new(config, World::new(family, "").book()).ruleset();
        let rules = &ruleset.chains["cluster-ips-check"].rules;
        let texts: Vec<String> = rules.iter().map(|rule| normal_line(&rule.to_text(family))).collect();
        let wanted = [
            "ip daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\"",
            "ip daddr 10.96.0.0/16 drop comment \"Drop traffic to unallocated ClusterIPs\"",
        ];
        assert_eq!(texts, wanted);
        assert!(ruleset.to_text(family).contains("meta mark & 0x00000008 != 0x00000000"));
    }
}
