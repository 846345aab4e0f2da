//! iptables mode: routes and nothing else.

use expect_test::expect;

use super::*;
use crate::testing::clients::{NODE, OUTSIDE, POD};

const PODS_TOLD: &str = "node detector=prefix:cali\n";

fn lenient(world: impl Into<String>, flows: &[Flow], said: Expect) -> Table {
    table(Ways::Lenient, world, flows, said)
}

pub(super) fn tables() -> Vec<Table> {
    [readiness(), policies(), sources()]
        .into_iter()
        .flatten()
        .chain([hints(), others(), protocols()])
        .collect()
}

#[test]
fn every_case() {
    check(tables());
}

fn readiness() -> Vec<Table> {
    vec![
        lenient(
            format!(
                "{PODS_TOLD}svc shop/web:http tcp 10.96.0.1:80
                ep 10.1.0.1:8080 @here
                ep 10.1.0.2:8080 @here starting
                ep 10.1.1.1:8080 @there
                ep 10.1.1.2:8080 @there terminating
                ep 10.1.1.3:8080 @there dead"
            ),
            &[(POD, "10.96.0.1:80")],
            expect![[r#"
                10.1.0.9 -> 10.96.0.1:80
                2 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/web:http, sent by anyone
                + 10.1.0.1:8080 1/2, source kept: the client is a pod of this node
                - 10.1.0.2:8080 not ready
                + 10.1.1.1:8080 1/2, source kept: the client is a pod of this node
                - 10.1.1.2:8080 shutting down, and others are ready
                - 10.1.1.3:8080 shutting down, and not serving any more
            "#]],
        ),
        lenient(
            "svc shop/web:http tcp 10.96.0.1:80
            svc shop/ending:http tcp 10.96.0.2:80
            ep 10.1.1.1:8080 @there starting
            ep 10.1.1.2:8080 @there terminating
            svc shop/down:http tcp 10.96.0.3:80
            ep 10.1.1.1:8080 @there starting
            ep 10.1.1.3:8080 @there dead",
            &[(POD, "10.96.0.1:80"), (POD, "10.96.0.2:80"), (POD, "10.96.0.3:80")],
            expect![[r#"
                10.1.0.9 -> 10.96.0.1:80
                reject: the Service has no endpoints: do its selector and its port fit any pod?
                cluster IP of shop/web:http, sent by anyone
                10.1.0.9 -> 10.96.0.2:80
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/ending:http, sent by anyone
                - 10.1.1.1:8080 not ready
                + 10.1.1.2:8080 1/1, source kept: pods are not told from other clients (detectLocalMode has no range of pods to go by)
                10.1.0.9 -> 10.96.0.3:80
                reject: no endpoint is ready, and none still answers while it shuts down
                cluster IP of shop/down:http, sent by anyone
                - 10.1.1.1:8080 not ready
                - 10.1.1.3:8080 shutting down, and not serving any more
            "#]],
        ),
    ]
}

fn hints() -> Table {
    lenient(
        format!(
            "{PODS_TOLD}svc shop/zones:http tcp 10.96.0.1:80
                ep 10.1.0.1:8080 @here zones=a
                ep 10.1.1.1:8080 @there zones=b
                svc shop/nodes:http tcp 10.96.0.2:80
                ep 10.1.0.1:8080 @here nodes=here
                ep 10.1.1.1:8080 @there nodes=there"
        ),
        &[(POD, "10.96.0.1:80"), (POD, "10.96.0.2:80")],
        expect![[r#"
                10.1.0.9 -> 10.96.0.1:80
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/zones:http, sent by anyone
                + 10.1.0.1:8080 1/1, source kept: the client is a pod of this node
                - 10.1.1.1:8080 its hints name another zone
                10.1.0.9 -> 10.96.0.2:80
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/nodes:http, sent by anyone
                + 10.1.0.1:8080 1/1, source kept: the client is a pod of this node
                - 10.1.1.1:8080 its hints name another node
            "#]],
    )
}

fn policies() -> Vec<Table> {
    vec![lenient(
        format!(
            "{PODS_TOLD}svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=8.8.0.0/16 etp=local
            ep 10.1.0.1:8080 @here
            ep 10.1.1.1:8080 @there
            svc shop/inside:http tcp 10.96.0.2:80 itp=local
            ep 10.1.1.1:8080 @there"
        ),
        &[
            (OUTSIDE, "203.0.113.1:80"),
            (POD, "203.0.113.1:80"),
            (NODE, "203.0.113.1:80"),
            (OUTSIDE, "198.51.100.1:80"),
            (POD, "198.51.100.1:80"),
            (OUTSIDE, "192.168.0.10:30080"),
            (POD, "10.96.0.2:80"),
        ],
        expect![[r#"
            8.8.8.8 -> 203.0.113.1:80
            1 endpoints: one of the usable endpoints on this node (the policy is Local), each with the same odds
            external IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/1, source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 203.0.113.1:80
            2 endpoints: one of the usable endpoints, each with the same odds
            external IP of shop/web:http, sent by a pod of this node
            + 10.1.0.1:8080 1/2, source kept: the client is a pod of this node
            + 10.1.1.1:8080 1/2, source kept: the client is a pod of this node
            192.168.0.10 -> 203.0.113.1:80
            2 endpoints: one of the usable endpoints, each with the same odds
            external IP of shop/web:http, sent by this node
            + 10.1.0.1:8080 1/2, source replaced by the node's: the answer must come back through this node
            + 10.1.1.1:8080 1/2, source replaced by the node's: the answer must come back through this node
            8.8.8.8 -> 198.51.100.1:80
            1 endpoints: one of the usable endpoints on this node (the policy is Local), each with the same odds
            load-balancer IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/1, source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 198.51.100.1:80
            drop: the source is in none of loadBalancerSourceRanges
            load-balancer IP of shop/web:http, sent by a pod of this node
            - 10.1.0.1:8080 the sender is not in loadBalancerSourceRanges
            - 10.1.1.1:8080 the sender is not in loadBalancerSourceRanges
            8.8.8.8 -> 192.168.0.10:30080
            1 endpoints: one of the usable endpoints on this node (the policy is Local), each with the same odds
            node port of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/1, source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 10.96.0.2:80
            drop: the policy is Local, and no usable endpoint is on this node
            cluster IP of shop/inside:http, sent by anyone
            - 10.1.1.1:8080 on another node, and the policy is Local
        "#]],
    )]
}

fn sources() -> Vec<Table> {
    let untold = "svc shop/web:http tcp 10.96.0.1:80\nep 10.1.0.1:8080 @here\nep 192.168.0.10:8080 @here";
    vec![
        lenient(
            format!("{PODS_TOLD}svc shop/web:http tcp 10.96.0.1:80 node=30080\nep 10.1.0.9:8080 @here"),
            &[
                (POD, "10.96.0.1:80"),
                (OUTSIDE, "10.96.0.1:80"),
                (NODE, "10.96.0.1:80"),
                (OUTSIDE, "192.168.0.10:30080"),
            ],
            expect![[r#"
                10.1.0.9 -> 10.96.0.1:80
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/web:http, sent by anyone
                + 10.1.0.9:8080 1/1, source replaced by the node's: the client is the endpoint itself
                8.8.8.8 -> 10.96.0.1:80
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/web:http, sent by anyone
                + 10.1.0.9:8080 1/1, source replaced by the node's: the client is not a pod of this node
                192.168.0.10 -> 10.96.0.1:80
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of shop/web:http, sent by anyone
                + 10.1.0.9:8080 1/1, source replaced by the node's: the client is not a pod of this node
                8.8.8.8 -> 192.168.0.10:30080
                1 endpoints: one of the usable endpoints, each with the same odds
                node port of shop/web:http, sent by anyone
                + 10.1.0.9:8080 1/1, source replaced by the node's: the answer must come back through this node
            "#]],
        ),
        lenient(
            untold,
            &[(POD, "10.96.0.1:80")],
            expect![[r#"
            10.1.0.9 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, each with the same odds
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source kept: pods are not told from other clients (detectLocalMode has no range of pods to go by)
            + 192.168.0.10:8080 1/2, source kept: pods are not told from other clients (detectLocalMode has no range of pods to go by)
        "#]],
        ),
        lenient(
            format!("node masquerade=all\n{untold}"),
            &[(POD, "10.96.0.1:80")],
            expect![[r#"
            10.1.0.9 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, each with the same odds
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source replaced by the node's: all traffic is masqueraded
            + 192.168.0.10:8080 1/2, source kept: the endpoint is in the node's own network
        "#]],
        ),
    ]
}

/// Conflicts and near misses.
fn others() -> Table {
    lenient(
        "node nodeports=192.168.0.10
            svc shop/old:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 created=1
            ep 10.1.0.1:8080 @here
            svc shop/new:http tcp 10.96.0.2:80 ext=203.0.113.1 created=2
            ep 10.1.0.2:8080 @here
            svc shop/far:http tcp 10.96.0.3:80 lb=198.51.100.1 etp=local health=32000
            ep 10.1.1.2:8080 @there",
        &[
            (OUTSIDE, "203.0.113.1:80"),
            (OUTSIDE, "10.96.0.1:443"),
            (OUTSIDE, "10.96.0.1:80/udp"),
            (OUTSIDE, "203.0.113.1:443"),
            (OUTSIDE, "198.51.100.1:443"),
            (OUTSIDE, "192.168.1.10:30080"),
            (OUTSIDE, "192.168.0.10:32000"),
            (OUTSIDE, "192.168.0.10:32000/udp"),
            (OUTSIDE, "8.8.4.4:53"),
        ],
        expect![[r#"
                8.8.8.8 -> 203.0.113.1:80
                1 endpoints: one of the usable endpoints, each with the same odds
                external IP of shop/old:http, sent by anyone
                not shop/new:http
                + 10.1.0.1:8080 1/1, source replaced by the node's: the answer must come back through this node
                8.8.8.8 -> 10.96.0.1:443
                untouched: the address is a cluster IP, but its Service has only 80/tcp (shop/old:http)
                8.8.8.8 -> 10.96.0.1:80/udp
                untouched: the address is a cluster IP, but its Service has only 80/tcp (shop/old:http)
                8.8.8.8 -> 203.0.113.1:443
                untouched: the address is an external IP, but its Service has only 80/tcp (shop/old:http)
                8.8.8.8 -> 198.51.100.1:443
                untouched: the address is a load-balancer IP, but its Service has only 80/tcp (shop/far:http)
                8.8.8.8 -> 192.168.1.10:30080
                untouched: shop/old:http has this node port, but node ports are not served on this address (nodePortAddresses)
                8.8.8.8 -> 192.168.0.10:32000
                untouched: the node itself answers health checks of shop/far on this port
                8.8.8.8 -> 192.168.0.10:32000/udp
                untouched: no Service has this address, protocol and port
                8.8.8.8 -> 8.8.4.4:53
                untouched: no Service has this address, protocol and port
            "#]],
    )
}

/// Other protocols, and sticky Services; source ranges do not hold where nobody would answer.
fn protocols() -> Table {
    lenient(
        format!(
            "{PODS_TOLD}svc kube-system/dns:dns udp 10.96.0.10:53 sticky=600
                ep 10.1.0.1:53 @here
                ep 10.1.1.1:53 @there
                svc kube-system/dns:dns-tcp tcp 10.96.0.10:53
                ep 10.1.0.1:53 @here
                svc tel/sigtran:m3ua sctp 10.96.0.11:2905 node=30905 etp=local sticky=10800
                ep 10.1.0.2:2905 @here
                svc tel/empty:m3ua sctp 10.96.0.12:2905 lb=198.51.100.1 from=9.0.0.0/8"
        ),
        &[
            (POD, "10.96.0.10:53/udp"),
            (POD, "10.96.0.10:53/tcp"),
            (POD, "10.96.0.10:53/sctp"),
            (OUTSIDE, "192.168.0.10:30905/sctp"),
            (OUTSIDE, "192.168.0.10:30905/tcp"),
            (OUTSIDE, "198.51.100.1:2905/sctp"),
        ],
        expect![[r#"
                10.1.0.9 -> 10.96.0.10:53/udp
                2 endpoints: one of the usable endpoints, each with the same odds; a client that was here in the last 600 s goes back to the same one
                cluster IP of kube-system/dns:dns, sent by anyone
                + 10.1.0.1:53 1/2, source kept: the client is a pod of this node
                + 10.1.1.1:53 1/2, source kept: the client is a pod of this node
                10.1.0.9 -> 10.96.0.10:53/tcp
                1 endpoints: one of the usable endpoints, each with the same odds
                cluster IP of kube-system/dns:dns-tcp, sent by anyone
                + 10.1.0.1:53 1/1, source kept: the client is a pod of this node
                10.1.0.9 -> 10.96.0.10:53/sctp
                untouched: the address is a cluster IP, but its Service has only 53/udp (kube-system/dns:dns), 53/tcp (kube-system/dns:dns-tcp)
                8.8.8.8 -> 192.168.0.10:30905/sctp
                1 endpoints: one of the usable endpoints on this node (the policy is Local), each with the same odds; a client that was here in the last 10800 s goes back to the same one
                node port of tel/sigtran:m3ua, sent by anyone
                + 10.1.0.2:2905 1/1, source kept: the external policy is Local
                8.8.8.8 -> 192.168.0.10:30905/tcp
                untouched: no Service has this address, protocol and port
                8.8.8.8 -> 198.51.100.1:2905/sctp
                reject: the Service has no endpoints: do its selector and its port fit any pod?
                load-balancer IP of tel/empty:m3ua, sent by anyone
            "#]],
    )
}
