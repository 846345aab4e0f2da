//! Whole plans for small worlds, as text. Rules that a node without Services has as well are in `nothing.txt` only.

use std::fmt::Write;

use expect_test::{ExpectFile, expect_file};
use switchyard_model::Family;

use super::{Config, Planner};
use crate::nft::element::Key;
use crate::testing::{World, node_addresses};

fn planner(family: Family, text: &str) -> Planner {
    let own = node_addresses(family).into_iter().filter(|ip| !ip.is_loopback()).collect();
    Planner::new(Config { own, ..Config::default() }, World::new(family, text).book())
}

fn show(family: Family, text: &str) -> String {
    let planner = planner(family, text);
    let mut shown = String::new();
    for (server, (_, content)) in planner.servers() {
        let sticky = content.options.sticky.map(|s| format!(" sticky {s}s")).unwrap_or_default();
        writeln!(shown, "server {server} {}{sticky}", content.options.scheduler).unwrap();
        for to in content.destinations {
            writeln!(shown, "\t-> {to}").unwrap();
        }
    }
    let mut ruleset = planner.ruleset();
    if !text.is_empty() {
        let nothing = self::planner(family, "").ruleset();
        ruleset.chains.retain(|name, chain| nothing.chains.get(name) != Some(chain));
        ruleset.elements.retain(|place, _| !nothing.elements.contains_key(place));
    }
    assert!(ruleset.elements.keys().all(|place| !matches!(place.key, Key::Slot(..))));
    shown + &ruleset.to_text(family)
}

fn check(expect: &ExpectFile, family: Family, text: &str) {
    expect.assert_eq(&show(family, text));
}

macro_rules! goldens {
    ($($name:ident: $family:ident $text:expr;)*) => {$(
        #[test]
        fn $name() {
            check(&expect_file![concat!("golden/", stringify!($name), ".txt")], Family::$family, $text);
        }
    )*};
}

goldens! {
    nothing: V4 "";
    cluster_ip: V4 "node detector=cidr:10.1.0.0/16
        svc shop/web:http tcp 10.96.0.1:80 sticky=10800
        ep 10.1.0.1:8080 @here
        ep 10.1.1.1:8080 @there
        svc kube-system/dns:dns udp 10.96.0.10:53
        ep 10.1.0.2:53";
    external: V4 "node detector=prefix:cali
        svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1,192.168.0.10 lb=198.51.100.1 from=10.0.0.0/8
        ep 10.1.0.1:8080 @here";
    external_local: V4 "node detector=bridge:cbr0
        svc shop/web:http tcp 10.96.0.1:80 etp=local node=30080 lb=198.51.100.1 health=32000
        ep 10.1.0.1:8080 @here
        ep 10.1.1.1:8080 @there
        svc shop/silent:http tcp 10.96.0.2:80 etp=local itp=local lb=198.51.100.2
        ep 10.1.1.1:8080 @there";
    no_endpoints: V4 "node masquerade=all nodeports=192.168.0.10
        svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1";
    ipv6: V6 "svc shop/web:http sctp 10.96.0.1:80 node=30080
        ep 10.1.0.1:8080 @here";
}
