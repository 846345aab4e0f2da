//! Userspace mode: this process dials the endpoints, behind the rules of nftables mode or with nothing but listeners on loopback addresses.

use expect_test::expect;

use super::*;
use crate::testing::clients::{NODE, OUTSIDE, POD};

const WORLD: &str = "node detector=prefix:cali
    svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there
    svc shop/web:dns udp 10.96.0.1:53 sticky=600 node=30053
    ep 10.1.0.9:53 @here
    ep 10.1.1.1:53 @there starting
    svc shop/down:http tcp 10.96.0.2:80
    ep 10.1.0.1:8080 @here dead
    svc shop/down:dns udp 10.96.0.2:53
    svc shop/far:http tcp 10.96.0.3:80 itp=local
    ep 10.1.1.1:8080 @there
    svc shop/busy:http tcp 10.96.0.4:80 node=30099
    ep 10.1.1.1:8080 @there
    svc tel/sigtran:m3ua sctp 10.96.0.5:2905
    ep 10.1.1.1:2905 @there
    svc shop/zz:http tcp 10.96.0.6:80 lb=198.51.100.1 from=9.0.0.0/8 etp=local node=30090 sticky=60
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there";

pub(super) fn tables() -> Vec<Table> {
    vec![with_rules(), frontends_without_rules(), doors(), doors_of_node_ports()]
}

#[test]
fn every_case() {
    check(tables());
}

fn with_rules() -> Table {
    table(
        Ways::Relayed,
        WORLD,
        &[
            (POD, "10.96.0.1:80"),
            (POD, "10.96.0.1:53/udp"),
            (OUTSIDE, "192.168.0.10:30090"),
            (OUTSIDE, "198.51.100.1:80"),
            (OUTSIDE, "10.96.0.2:80"),
            (OUTSIDE, "10.96.0.3:80"),
            (OUTSIDE, "10.96.0.1:443"),
            (OUTSIDE, "10.96.0.99:80"),
            (OUTSIDE, "8.8.4.4:53"),
            (POD, "10.96.0.5:2905/sctp"),
        ],
        expect![[r#"
            10.1.0.9 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            10.1.0.9 -> 10.96.0.1:53/udp
            1 endpoints: one of the usable endpoints, which take turns; a client that was here in the last 600 s goes back to the same one
            cluster IP of shop/web:dns, sent by anyone
            + 10.1.0.9:53 1/1, source the node's: the proxy itself dials the endpoint
            - 10.1.1.1:53 not ready
            8.8.8.8 -> 192.168.0.10:30090
            1 endpoints: one of the usable endpoints on this node (the policy is Local), which take turns; a client that was here in the last 60 s goes back to the same one
            node port of shop/zz:http, sent by anyone
            + 10.1.0.1:8080 1/1, source the node's: the proxy itself dials the endpoint
            - 10.1.1.1:8080 on another node, and the policy is Local
            8.8.8.8 -> 198.51.100.1:80
            drop: the source is in none of loadBalancerSourceRanges
            load-balancer IP of shop/zz:http, sent by anyone
            - 10.1.0.1:8080 the sender is not in loadBalancerSourceRanges
            - 10.1.1.1:8080 on another node, and the policy is Local
            8.8.8.8 -> 10.96.0.2:80
            reject: no endpoint is ready, and none still answers while it shuts down
            cluster IP of shop/down:http, sent by anyone
            - 10.1.0.1:8080 shutting down, and not serving any more
            8.8.8.8 -> 10.96.0.3:80
            drop: the policy is Local, and no usable endpoint is on this node
            cluster IP of shop/far:http, sent by anyone
            - 10.1.1.1:8080 on another node, and the policy is Local
            8.8.8.8 -> 10.96.0.1:443
            reject: the address is a cluster IP, but its Service has only 53/udp (shop/web:dns), 80/tcp (shop/web:http)
            8.8.8.8 -> 10.96.0.99:80
            drop: the address is in the range 10.96.0.0/16 of cluster IPs, and no Service has it
            8.8.8.8 -> 8.8.4.4:53
            untouched: no Service has this address, protocol and port
            10.1.0.9 -> 10.96.0.5:2905/sctp
            reject: userspace mode cannot relay sctp; use another mode
            cluster IP of tel/sigtran:m3ua, sent by anyone
            - 10.1.1.1:2905 the proxy does not speak its protocol
        "#]],
    )
}

fn frontends_without_rules() -> Table {
    table(
        Ways::Loopback,
        WORLD,
        &[
            (NODE, "10.96.0.1:80"),
            (POD, "10.96.0.1:80"),
            (NODE, "10.96.0.1:53/udp"),
            (OUTSIDE, "203.0.113.1:80"),
            (OUTSIDE, "192.168.0.10:30080"),
            (NODE, "192.168.1.10:30080"),
            (NODE, "192.168.0.10:30099"),
            (NODE, "127.0.0.1:30099"),
            (NODE, "10.96.0.5:2905/sctp"),
            (NODE, "10.96.0.1:443"),
            (NODE, "10.96.0.99:80"),
            (NODE, "127.0.0.1:20099"),
        ],
        expect![[r#"
            192.168.0.10 -> 10.96.0.1:80
            untouched: no rule leads to shop/web:http here; on this host dial 127.0.0.1:20006 instead
            10.1.0.9 -> 10.96.0.1:80
            untouched: no rule leads to shop/web:http here; on this host dial 127.0.0.1:20006 instead
            192.168.0.10 -> 10.96.0.1:53/udp
            untouched: no rule leads to shop/web:dns here; on this host dial 127.0.0.1:20005 instead
            8.8.8.8 -> 203.0.113.1:80
            untouched: no rule leads to shop/web:http here; on this host dial 127.0.0.1:20007 instead
            8.8.8.8 -> 192.168.0.10:30080
            untouched: no rule leads to shop/web:http here; on this host dial 127.0.0.1:30080 instead
            192.168.0.10 -> 192.168.1.10:30080
            untouched: no rule leads to shop/web:http here; on this host dial 127.0.0.1:30080 instead
            192.168.0.10 -> 192.168.0.10:30099
            untouched: no rule leads to shop/busy:http here, and nothing listens for it: `switchyard get quarantine` says why
            192.168.0.10 -> 127.0.0.1:30099
            untouched: no rule leads to shop/busy:http here, and nothing listens for it: `switchyard get quarantine` says why
            192.168.0.10 -> 10.96.0.5:2905/sctp
            untouched: no rule leads to tel/sigtran:m3ua here, and nothing listens for it: `switchyard get quarantine` says why
            192.168.0.10 -> 10.96.0.1:443
            untouched: the address is a cluster IP, but its Service has only 53/udp (shop/web:dns), 80/tcp (shop/web:http)
            192.168.0.10 -> 10.96.0.99:80
            untouched: no Service has this address, protocol and port
            192.168.0.10 -> 127.0.0.1:20099
            untouched: no Service has this address, protocol and port
        "#]],
    )
}

/// Who is at which number follows from the order of the names.
fn doors() -> Table {
    table(
        Ways::Loopback,
        WORLD,
        &[
            (NODE, "127.0.0.1:20001"),
            (NODE, "127.0.0.1:20002/udp"),
            (NODE, "127.0.0.1:20003"),
            (NODE, "127.0.0.1:20004"),
            (NODE, "127.0.0.1:20005/udp"),
            (NODE, "127.0.0.1:20006"),
            (NODE, "127.0.0.1:20007"),
            (NODE, "127.0.0.1:20008"),
            (NODE, "127.0.0.1:20009"),
        ],
        expect![[r#"
            192.168.0.10 -> 127.0.0.1:20001
            1 endpoints: one of the usable endpoints, which take turns
            cluster IP of shop/busy:http, sent by anyone
            + 10.1.1.1:8080 1/1, source the node's: the proxy itself dials the endpoint
            192.168.0.10 -> 127.0.0.1:20002/udp
            drop: the Service has no endpoints: do its selector and its port fit any pod?
            cluster IP of shop/down:dns, sent by anyone
            192.168.0.10 -> 127.0.0.1:20003
            reject: no endpoint is ready, and none still answers while it shuts down
            cluster IP of shop/down:http, sent by anyone
            - 10.1.0.1:8080 shutting down, and not serving any more
            192.168.0.10 -> 127.0.0.1:20004
            reject: the policy is Local, and no usable endpoint is on this node
            cluster IP of shop/far:http, sent by anyone
            - 10.1.1.1:8080 on another node, and the policy is Local
            192.168.0.10 -> 127.0.0.1:20005/udp
            1 endpoints: one of the usable endpoints, which take turns; a client that was here in the last 600 s goes back to the same one
            cluster IP of shop/web:dns, sent by anyone
            + 10.1.0.9:53 1/1, source the node's: the proxy itself dials the endpoint
            - 10.1.1.1:53 not ready
            192.168.0.10 -> 127.0.0.1:20006
            2 endpoints: one of the usable endpoints, which take turns
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            192.168.0.10 -> 127.0.0.1:20007
            2 endpoints: one of the usable endpoints, which take turns
            external IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            192.168.0.10 -> 127.0.0.1:20008
            2 endpoints: one of the usable endpoints, which take turns; a client that was here in the last 60 s goes back to the same one
            cluster IP of shop/zz:http, sent by anyone
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            192.168.0.10 -> 127.0.0.1:20009
            reject: the source is in none of loadBalancerSourceRanges
            load-balancer IP of shop/zz:http, sent by this node
            - 10.1.0.1:8080 the sender is not in loadBalancerSourceRanges
            - 10.1.1.1:8080 the sender is not in loadBalancerSourceRanges
        "#]],
    )
}

fn doors_of_node_ports() -> Table {
    table(
        Ways::Loopback,
        WORLD,
        &[
            (NODE, "127.0.0.1:30080"),
            (NODE, "127.0.0.1:30080/udp"),
            (NODE, "127.0.0.1:30053/udp"),
            (NODE, "127.0.0.1:30090"),
            (("127.0.0.1", "-"), "127.0.0.1:30080"),
            (OUTSIDE, "127.0.0.1:30080"),
        ],
        expect![[r#"
            192.168.0.10 -> 127.0.0.1:30080
            2 endpoints: one of the usable endpoints, which take turns
            node port of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            192.168.0.10 -> 127.0.0.1:30080/udp
            untouched: no Service has this address, protocol and port
            192.168.0.10 -> 127.0.0.1:30053/udp
            1 endpoints: one of the usable endpoints, which take turns; a client that was here in the last 600 s goes back to the same one
            node port of shop/web:dns, sent by anyone
            + 10.1.0.9:53 1/1, source the node's: the proxy itself dials the endpoint
            - 10.1.1.1:53 not ready
            192.168.0.10 -> 127.0.0.1:30090
            2 endpoints: one of the usable endpoints, which take turns; a client that was here in the last 60 s goes back to the same one
            node port of shop/zz:http, sent by this node
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            127.0.0.1 -> 127.0.0.1:30080
            2 endpoints: one of the usable endpoints, which take turns
            node port of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            + 10.1.1.1:8080 1/2, source the node's: the proxy itself dials the endpoint
            8.8.8.8 -> 127.0.0.1:30080
            untouched: only this host can dial its loopback addresses
        "#]],
    )
}
