//! What carries a packet, in the words of each mode.

use expect_test::{Expect, expect};
use switchyard_model::Protocol;

use super::*;
use crate::testing::clients::{Client as Sender, OUTSIDE, POD};
use crate::testing::packets::packet;
use crate::testing::{World, address, all, node_addresses, range};
use crate::{ipvs, nft};

/// Lines for one TCP packet, mode by mode, each with the explanation in its own manners.
fn check(text: &str, from: Sender, to: (&str, u16), expect: &Expect) {
    let family = Family::V4;
    let world = World::new(family, text);
    let book = world.book();
    let node = NodeAddresses::from([address(family, "192.168.0.10"), address(family, "192.168.1.10")]);
    let packet = packet(family, from, to.0, Protocol::Tcp, to.1);
    let config = nft::Config { service_cidrs: vec![range(family, "10.96.0.0/16")], ..Default::default() };
    let mut nftables = nft::Planner::new(config, Book::new(world.settings.clone()));
    nftables.partial(all(&world.ports));
    let own = node_addresses(family).into_iter().filter(|ip| !ip.is_loopback()).collect();
    let ipvs = ipvs::Planner::new(ipvs::Config { own, ..Default::default() }, world.book());
    let strict = Manners::Strict { service_cidrs: &nftables.config().service_cidrs };
    let ipvs::Config { scheduler, own, .. } = ipvs.config();
    let balanced = Manners::Balanced { scheduler, own };
    let place = |manners| Place { book: &book, node: &node, manners };
    let modes = [
        ("nftables", nftables.means(&explain(place(&strict), &packet), &packet)),
        ("iptables", world.planner().means(&explain(place(&Manners::Lenient), &packet))),
        ("ipvs", ipvs.means(&explain(place(&balanced), &packet), &packet)),
    ];
    let show = |(mode, lines): (&str, Vec<String>)| {
        let lines = if lines.is_empty() { "nothing".to_owned() } else { lines.join("\n  ") };
        format!("{mode}\n  {lines}\n")
    };
    let shown: String = modes.into_iter().map(show).collect();
    expect.assert_eq(&shown);
}

const WEB: &str = "svc shop/web:http tcp 10.96.0.1:80 node=30080 lb=198.51.100.1 from=8.8.0.0/16
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there
    svc shop/other:http tcp 10.96.0.2:80 node=30081
    ep 10.1.0.1:8080 @here";

#[test]
fn a_cluster_ip() {
    check(
        WEB,
        POD,
        ("10.96.0.1", 80),
        &expect![[r#"
            nftables
              element frontends { 10.96.0.1 . tcp . 80 : goto pick-2 }
              element slots { 10.96.0.1 . tcp . 80 . 0 : 10.1.0.1 . 8080 }
              element slots { 10.96.0.1 . tcp . 80 . 1 : 10.1.1.1 . 8080 }
              chain pick-2
            iptables
              rule -A KUBE-SERVICES -m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.0.1:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-TBNV7IABJIRLNIES of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.1.1:8080" -j KUBE-SEP-5XMPV5CQ7YZA7MHX of table nat
              rule -A KUBE-SEP-5XMPV5CQ7YZA7MHX -m comment --comment shop/web:http -s 10.1.1.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-5XMPV5CQ7YZA7MHX -m comment --comment shop/web:http -m tcp -p tcp -j DNAT --to-destination 10.1.1.1:8080 of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -s 10.1.0.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -m tcp -p tcp -j DNAT --to-destination 10.1.0.1:8080 of table nat
            ipvs
              virtual server 10.96.0.1:80/tcp, scheduler rr
              destination 10.1.0.1:8080 of virtual server 10.96.0.1:80/tcp
              destination 10.1.1.1:8080 of virtual server 10.96.0.1:80/tcp
              element frontends { 10.96.0.1 . tcp . 80 : goto cluster-ip }
              element refusals { 10.96.0.1 . tcp . 80 : return }
              element virtual-ips { 10.96.0.1 }
        "#]],
    );
}

#[test]
fn a_node_port() {
    check(
        WEB,
        OUTSIDE,
        ("192.168.0.10", 30080),
        &expect![[r#"
            nftables
              element nodeports { tcp . 30080 : goto nodeport-pick-2-masq }
              element nodeport-slots { tcp . 30080 . 0 : 10.1.0.1 . 8080 }
              element nodeport-slots { tcp . 30080 . 1 : 10.1.1.1 . 8080 }
              chain nodeport-pick-2-masq
            iptables
              rule -A KUBE-NODEPORTS -m comment --comment shop/web:http -m tcp -p tcp --dport 30080 -j KUBE-EXT-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "masquerade traffic for shop/web:http external destinations" -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-EXT-67NZLRHBNDSAWJRO -j KUBE-SVC-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.0.1:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-TBNV7IABJIRLNIES of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.1.1:8080" -j KUBE-SEP-5XMPV5CQ7YZA7MHX of table nat
              rule -A KUBE-SEP-5XMPV5CQ7YZA7MHX -m comment --comment shop/web:http -s 10.1.1.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-5XMPV5CQ7YZA7MHX -m comment --comment shop/web:http -m tcp -p tcp -j DNAT --to-destination 10.1.1.1:8080 of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -s 10.1.0.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -m tcp -p tcp -j DNAT --to-destination 10.1.0.1:8080 of table nat
            ipvs
              virtual server 192.168.0.10:30080/tcp, scheduler rr
              destination 10.1.0.1:8080 of virtual server 192.168.0.10:30080/tcp
              destination 10.1.1.1:8080 of virtual server 192.168.0.10:30080/tcp
              element nodeports { tcp . 30080 : goto external }
        "#]],
    );
}

#[test]
fn a_load_balancer_ip_with_source_ranges() {
    check(
        WEB,
        OUTSIDE,
        ("198.51.100.1", 80),
        &expect![[r#"
            nftables
              element frontends { 198.51.100.1 . tcp . 80 : goto pick-2-masq }
              element slots { 198.51.100.1 . tcp . 80 . 0 : 10.1.0.1 . 8080 }
              element slots { 198.51.100.1 . tcp . 80 . 1 : 10.1.1.1 . 8080 }
              element restricted { 198.51.100.1 . tcp . 80 }
              element allowed-sources { 198.51.100.1 . tcp . 80 . 8.8.0.0/16 }
              chain pick-2-masq
            iptables
              rule -A KUBE-SERVICES -m comment --comment "shop/web:http loadbalancer IP" -m tcp -p tcp -d 198.51.100.1 --dport 80 -j KUBE-FW-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-PROXY-FIREWALL -m comment --comment "shop/web:http traffic not accepted by KUBE-FW-67NZLRHBNDSAWJRO" -m tcp -p tcp -d 198.51.100.1 --dport 80 -j DROP of table filter
              rule -A KUBE-FW-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http loadbalancer IP" -s 8.8.0.0/16 -j KUBE-EXT-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-FW-67NZLRHBNDSAWJRO -m comment --comment "other traffic to shop/web:http will be dropped by KUBE-PROXY-FIREWALL" of table nat
              rule -A KUBE-EXT-67NZLRHBNDSAWJRO -m comment --comment "masquerade traffic for shop/web:http external destinations" -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-EXT-67NZLRHBNDSAWJRO -j KUBE-SVC-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.0.1:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-TBNV7IABJIRLNIES of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.1.1:8080" -j KUBE-SEP-5XMPV5CQ7YZA7MHX of table nat
              rule -A KUBE-SEP-5XMPV5CQ7YZA7MHX -m comment --comment shop/web:http -s 10.1.1.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-5XMPV5CQ7YZA7MHX -m comment --comment shop/web:http -m tcp -p tcp -j DNAT --to-destination 10.1.1.1:8080 of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -s 10.1.0.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -m tcp -p tcp -j DNAT --to-destination 10.1.0.1:8080 of table nat
            ipvs
              virtual server 198.51.100.1:80/tcp, scheduler rr
              destination 10.1.0.1:8080 of virtual server 198.51.100.1:80/tcp
              destination 10.1.1.1:8080 of virtual server 198.51.100.1:80/tcp
              element frontends { 198.51.100.1 . tcp . 80 : goto external }
              element refusals { 198.51.100.1 . tcp . 80 : return }
              element restricted { 198.51.100.1 . tcp . 80 }
              element allowed-sources { 198.51.100.1 . tcp . 80 . 8.8.0.0/16 }
              element virtual-ips { 198.51.100.1 }
        "#]],
    );
}

#[test]
fn nobody_to_answer() {
    check(
        "svc shop/web:http tcp 10.96.0.1:80",
        OUTSIDE,
        ("10.96.0.1", 80),
        &expect![[r#"
        nftables
          element refusals { 10.96.0.1 . tcp . 80 : goto reject-chain }
          chain reject-chain
        iptables
          rule -A KUBE-SERVICES -m comment --comment "shop/web:http has no endpoints" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j REJECT of table filter
        ipvs
          virtual server 10.96.0.1:80/tcp, scheduler rr
          element frontends { 10.96.0.1 . tcp . 80 : goto cluster-ip }
          element refusals { 10.96.0.1 . tcp . 80 : goto reject-chain }
          element virtual-ips { 10.96.0.1 }
    "#]],
    );
}

#[test]
fn a_port_that_no_service_has() {
    check(
        WEB,
        OUTSIDE,
        ("10.96.0.1", 443),
        &expect![[r#"
            nftables
              element cluster-ips { 10.96.0.1 }
              rule ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs" of chain cluster-ips-check
            iptables
              nothing
            ipvs
              element virtual-ips { 10.96.0.1 }
              rule ip daddr @virtual-ips reject comment "Reject traffic to other ports of virtual addresses" of chain endpoints-check
        "#]],
    );
    // Only IPVS makes it an address of the node.
    check(
        WEB,
        OUTSIDE,
        ("198.51.100.1", 443),
        &expect![[r#"
            nftables
              nothing
            iptables
              nothing
            ipvs
              element virtual-ips { 198.51.100.1 }
              rule ip daddr @virtual-ips reject comment "Reject traffic to other ports of virtual addresses" of chain endpoints-check
        "#]],
    );
}

#[test]
fn an_address_that_no_service_has() {
    check(
        WEB,
        OUTSIDE,
        ("10.96.0.99", 80),
        &expect![[r#"
            nftables
              rule ip daddr 10.96.0.0/16 drop comment "Drop traffic to unallocated ClusterIPs" of chain cluster-ips-check
            iptables
              nothing
            ipvs
              nothing
        "#]],
    );
    check(
        WEB,
        OUTSIDE,
        ("8.8.4.4", 53),
        &expect![[r#"
            nftables
              nothing
            iptables
              nothing
            ipvs
              nothing
        "#]],
    );
}

#[test]
fn a_sticky_service() {
    let text = "svc shop/web:http tcp 10.96.0.1:80 sticky=60
        ep 10.1.0.1:8080 @here";
    check(
        text,
        OUTSIDE,
        ("10.96.0.1", 80),
        &expect![[r#"
            nftables
              element frontends { 10.96.0.1 . tcp . 80 : goto sticky-1140d42f259e4691f44e9567805852c3 }
              chain endpoint-31168440f150134cafd680abf11643bb
              chain sticky-1140d42f259e4691f44e9567805852c3
            iptables
              rule -A KUBE-SERVICES -m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j KUBE-SVC-67NZLRHBNDSAWJRO of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.0.1:8080" -m recent --name KUBE-SEP-TBNV7IABJIRLNIES --rcheck --seconds 60 --reap -j KUBE-SEP-TBNV7IABJIRLNIES of table nat
              rule -A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "shop/web:http -> 10.1.0.1:8080" -j KUBE-SEP-TBNV7IABJIRLNIES of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -s 10.1.0.1 -j KUBE-MARK-MASQ of table nat
              rule -A KUBE-SEP-TBNV7IABJIRLNIES -m comment --comment shop/web:http -m recent --name KUBE-SEP-TBNV7IABJIRLNIES --set -m tcp -p tcp -j DNAT --to-destination 10.1.0.1:8080 of table nat
            ipvs
              virtual server 10.96.0.1:80/tcp, scheduler rr
              destination 10.1.0.1:8080 of virtual server 10.96.0.1:80/tcp
              element frontends { 10.96.0.1 . tcp . 80 : goto cluster-ip }
              element refusals { 10.96.0.1 . tcp . 80 : return }
              element virtual-ips { 10.96.0.1 }
        "#]],
    );
}
