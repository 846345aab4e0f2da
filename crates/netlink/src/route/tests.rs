//! Links, addresses and routes of a real kernel, as the `ip` tool sees them; the bytes of requests; bytes that lie.

use std::os::fd::AsFd;

use proptest::prelude::*;

use super::*;
use crate::message::Frames;
use crate::netns::Namespace;
use crate::testing::{exec, namespace_or_skip};

#[test]
fn a_veth_pair_with_addresses_and_routes_as_the_ip_tool_sees_it() {
    let Some(here) = namespace_or_skip() else { return };
    let there = Namespace::new().unwrap();
    let (addresses, routes4, routes6) = here
        .run(|| {
            let mut routes = Routes::open().unwrap();
            let index = Some(LinkIndex(77));
            let veth = Veth { name: "left", index, peer_name: "right", peer: there.as_fd() };
            routes.create_veth(&veth).unwrap();
            assert_eq!(routes.link_index("left").unwrap(), LinkIndex(77));
            let link = routes.link_index("left").unwrap();
            routes.set_up(link).unwrap();
            routes.add_address(link, "192.168.1.1".parse().unwrap(), 24).unwrap();
            routes.add_address(link, "fd00:168:1::1".parse().unwrap(), 64).unwrap();
            for (destination, prefix, next_hop) in [
                ("10.1.1.10", 32, NextHop::Direct(link)),
                ("10.9.0.0", 16, NextHop::Via(link, "192.168.1.2".parse().unwrap())),
                ("0.0.0.0", 0, NextHop::OnLink(link, "172.16.0.1".parse().unwrap())),
                ("fd00:10::a", 128, NextHop::Direct(link)),
                ("10.7.0.0", 16, NextHop::Blackhole),
                ("fd00:7::", 64, NextHop::Blackhole),
                ("::", 0, NextHop::Via(link, "fd00:168:1::2".parse().unwrap())),
            ] {
                let destination = destination.parse().unwrap();
                routes.add_route(&Route { destination, prefix, next_hop }).unwrap();
            }
            routes.add_blackhole_rule("left", "10.96.0.0".parse().unwrap(), 12).unwrap();
            routes.add_blackhole_rule("left", "fd00:96::".parse().unwrap(), 112).unwrap();
            let rules = [exec("ip", &["-4", "rule"]), exec("ip", &["-6", "rule"])].concat();
            assert!(rules.contains("from all to 10.96.0.0/12 iif left blackhole"), "{rules}");
            assert!(rules.contains("from all to fd00:96::/112 iif left blackhole"), "{rules}");
            let local = routes.delivered(Family::V4).unwrap();
            assert!(local.contains(&(link, "192.168.1.1".parse().unwrap())), "{local:?}");
            let list = routes.addresses().unwrap();
            (list, exec("ip", &["-4", "route"]), exec("ip", &["-6", "route"]))
        })
        .unwrap();
    let find = |text: &str| addresses.iter().find(|a| a.address.to_string() == text).unwrap();
    assert_eq!((find("192.168.1.1").prefix, find("192.168.1.1").interface.as_str()), (24, "left"));
    assert_eq!((find("fd00:168:1::1").prefix, find("fd00:168:1::1").scope), (64, Scope::Universe));
    assert_eq!(find("127.0.0.1").scope, Scope::Host);
    assert!(routes4.contains("default via 172.16.0.1 dev left proto static onlink"), "{routes4}");
    assert!(routes4.contains("10.9.0.0/16 via 192.168.1.2 dev left"), "{routes4}");
    assert!(routes4.contains("10.1.1.10 dev left proto static scope link"), "{routes4}");
    assert!(routes6.contains("default via fd00:168:1::2 dev left"), "{routes6}");
    assert!(routes6.contains("fd00:10::a dev left"), "{routes6}");
    assert!(routes4.contains("blackhole 10.7.0.0/16"), "{routes4}");
    assert!(routes6.contains("blackhole fd00:7::/64"), "{routes6}");
    let right = there.run(|| Routes::open().unwrap().link_index("right")).unwrap();
    assert!(right.is_ok());
}

#[test]
fn a_link_that_is_not_there_is_missing_and_a_removed_pair_is_gone() {
    let Some(here) = namespace_or_skip() else { return };
    here.run(|| {
        let mut routes = Routes::open().unwrap();
        assert!(matches!(routes.link_index("nope"), Err(NetlinkError::Missing { .. })));
        assert!(matches!(
            routes.link_index("a-name-that-is-too-long"),
            Err(NetlinkError::Unencodable { .. })
        ));
        let current = Namespace::current().unwrap();
        let veth = Veth { name: "a", index: None, peer_name: "b", peer: current.as_fd() };
        routes.create_veth(&veth).unwrap();
        let a = routes.link_index("a").unwrap();
        let exists = routes.create_veth(&Veth { peer_name: "c", ..veth }).unwrap_err();
        assert_eq!(exists.errno(), Some(nix::errno::Errno::EEXIST));
        routes.delete_link(a).unwrap();
        assert!(matches!(routes.link_index("b"), Err(NetlinkError::Missing { .. })));
    })
    .unwrap();
}

#[test]
fn addresses_come_and_go() {
    let Some(here) = namespace_or_skip() else { return };
    here.run(|| {
        let mut routes = Routes::open().unwrap();
        let link = routes.link_index("lo").unwrap();
        for (text, prefix) in [("10.96.0.1", 32), ("fd00:96::1", 128)] {
            let address = text.parse().unwrap();
            let has = |routes: &mut Routes| routes.addresses().unwrap().iter().any(|a| a.address == address);
            routes.add_address(link, address, prefix).unwrap();
            assert!(has(&mut routes), "{text}");
            routes.remove_address(link, address, prefix).unwrap();
            assert!(!has(&mut routes), "{text}");
            let gone = routes.remove_address(link, address, prefix).unwrap_err();
            assert_eq!(gone.errno(), Some(nix::errno::Errno::EADDRNOTAVAIL), "{text}");
        }
    })
    .unwrap();
}

#[test]
fn dummy_bytes() {
    let bytes = dummy_message("kube-ipvs0").finish(1, 0).unwrap();
    let wanted: &[u8] = b"\x0f\0\x03\0kube-ipvs0\0\0\x10\0\x12\x80\x0a\0\x01\0dummy\0\0\0";
    #[cfg(target_endian = "little")]
    assert_eq!(bytes.get(32..), Some(wanted));
}

#[test]
fn route_bytes() {
    let route = Route {
        destination: "10.1.1.0".parse().unwrap(),
        prefix: 24,
        next_hop: NextHop::Via(LinkIndex(5), "192.168.1.2".parse().unwrap()),
    };
    let bytes = route_message(&route).finish(1, 0).unwrap();
    #[rustfmt::skip]
    let wanted = [
        2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0,
        8, 0, 1, 0, 10, 1, 1, 0,
        8, 0, 4, 0, 5, 0, 0, 0,
        8, 0, 5, 0, 192, 168, 1, 2,
    ];
    #[cfg(target_endian = "little")]
    assert_eq!(bytes[16..], wanted);
}

proptest! {
    #[test]
    fn random_replies_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Message::new(RTM_NEWLINK, 0, &body).finish(1, 0).unwrap();
        for frame in Frames::new(&bytes).flatten() {
            let _ = (bytes::read_link(&frame), bytes::read_address(&frame), bytes::read_local_route(&frame));
        }
    }
}
