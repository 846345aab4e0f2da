//! nftables mode: what no Service has is refused, and source ranges hold without endpoints.

use expect_test::expect;

use super::*;
use crate::testing::clients::{OUTSIDE, POD};

pub(super) fn tables() -> Vec<Table> {
    vec![strays(), source_ranges()]
}

fn strays() -> Table {
    table(
        Ways::Strict,
        "svc shop/web:http tcp 10.96.0.1:80 ext=203.0.113.1
            ep 10.1.0.1:8080 @here
            svc shop/web:https tcp 10.96.0.1:443
            ep 10.1.0.1:8443 @here
            svc shop/other:http tcp 10.96.0.3:80 ext=10.96.0.1",
        &[
            (POD, "10.96.0.1:8080"),
            (POD, "10.96.0.1:80/udp"),
            (POD, "10.96.0.1:80/sctp"),
            (POD, "10.96.0.9:80"),
            (POD, "10.96.0.9:80/sctp"),
            (POD, "203.0.113.1:8080"),
            (POD, "8.8.4.4:53"),
        ],
        expect![[r#"
                10.1.0.9 -> 10.96.0.1:8080
                reject: the address is a cluster IP, but its Service has only 80/tcp (shop/web:http), 443/tcp (shop/web:https)
                10.1.0.9 -> 10.96.0.1:80/udp
                reject: the address is a cluster IP, but its Service has only 80/tcp (shop/web:http), 443/tcp (shop/web:https)
                10.1.0.9 -> 10.96.0.1:80/sctp
                reject: the address is a cluster IP, but its Service has only 80/tcp (shop/web:http), 443/tcp (shop/web:https)
                10.1.0.9 -> 10.96.0.9:80
                drop: the address is in the range 10.96.0.0/16 of cluster IPs, and no Service has it
                10.1.0.9 -> 10.96.0.9:80/sctp
                drop: the address is in the range 10.96.0.0/16 of cluster IPs, and no Service has it
                10.1.0.9 -> 203.0.113.1:8080
                untouched: the address is an external IP, but its Service has only 80/tcp (shop/web:http)
                10.1.0.9 -> 8.8.4.4:53
                untouched: no Service has this address, protocol and port
            "#]],
    )
}

/// They hold where nobody would answer, too.
fn source_ranges() -> Table {
    table(
        Ways::Strict,
        "node detector=cidr:10.1.0.0/16
            svc shop/empty:http tcp 10.96.0.1:80 lb=198.51.100.1 from=9.0.0.0/8
            svc shop/down:http udp 10.96.0.2:80 lb=198.51.100.2 from=9.0.0.0/8,192.168.0.0/16
            ep 10.1.0.1:8080 @here starting
            svc shop/far:http sctp 10.96.0.3:80 lb=198.51.100.3 from=8.0.0.0/8 etp=local sticky=60
            ep 10.1.1.1:8080 @there
            svc shop/near:http tcp 10.96.0.4:80 lb=198.51.100.4 etp=local sticky=60
            ep 10.1.0.1:8080 @here
            ep 10.1.0.2:8080 @here
            ep 10.1.1.1:8080 @there",
        &[
            (OUTSIDE, "198.51.100.1:80"),
            (("9.9.9.9", "eth0"), "198.51.100.1:80"),
            (OUTSIDE, "198.51.100.2:80/udp"),
            // The node may, so the load balancer's own address may, too.
            (("198.51.100.2", "eth0"), "198.51.100.2:80/udp"),
            (OUTSIDE, "198.51.100.3:80/sctp"),
            (POD, "198.51.100.3:80/sctp"),
            (OUTSIDE, "198.51.100.4:80"),
            (POD, "198.51.100.4:80"),
        ],
        expect![[r#"
                8.8.8.8 -> 198.51.100.1:80
                drop: the source is in none of loadBalancerSourceRanges
                load-balancer IP of shop/empty:http, sent by anyone
                9.9.9.9 -> 198.51.100.1:80
                reject: the Service has no endpoints: do its selector and its port fit any pod?
                load-balancer IP of shop/empty:http, sent by anyone
                8.8.8.8 -> 198.51.100.2:80/udp
                drop: the source is in none of loadBalancerSourceRanges
                load-balancer IP of shop/down:http, sent by anyone
                - 10.1.0.1:8080 not ready
                198.51.100.2 -> 198.51.100.2:80/udp
                reject: no endpoint is ready, and none still answers while it shuts down
                load-balancer IP of shop/down:http, sent by anyone
                - 10.1.0.1:8080 not ready
                8.8.8.8 -> 198.51.100.3:80/sctp
                drop: the policy is Local, and no usable endpoint is on this node
                load-balancer IP of shop/far:http, sent by anyone
                - 10.1.1.1:8080 on another node, and the policy is Local
                10.1.0.9 -> 198.51.100.3:80/sctp
                drop: the source is in none of loadBalancerSourceRanges
                load-balancer IP of shop/far:http, sent by a pod of this node
                - 10.1.1.1:8080 the sender is not in loadBalancerSourceRanges
                8.8.8.8 -> 198.51.100.4:80
                2 endpoints: one of the usable endpoints on this node (the policy is Local), each with the same odds; a client that was here in the last 60 s goes back to the same one
                load-balancer IP of shop/near:http, sent by anyone
                + 10.1.0.1:8080 1/2, source kept: the external policy is Local
                + 10.1.0.2:8080 1/2, source kept: the external policy is Local
                - 10.1.1.1:8080 on another node, and the policy is Local
                10.1.0.9 -> 198.51.100.4:80
                3 endpoints: one of the usable endpoints, each with the same odds; a client that was here in the last 60 s goes back to the same one
                load-balancer IP of shop/near:http, sent by a pod of this node
                + 10.1.0.1:8080 1/3, source kept: the client is a pod of this node
                + 10.1.0.2:8080 1/3, source kept: the client is a pod of this node
                + 10.1.1.1:8080 1/3, source kept: the client is a pod of this node
            "#]],
    )
}

#[test]
fn every_case() {
    check(tables());
}
