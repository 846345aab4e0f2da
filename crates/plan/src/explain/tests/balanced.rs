//! ipvs mode: a scheduler chooses, and an address that the node has for Services alone is closed but for their ports.

use expect_test::expect;

use super::*;
use crate::testing::clients::{NODE, OUTSIDE, POD};

const WEB: &str = "svc shop/web:http tcp 10.96.0.1:80
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there";

pub(super) fn tables() -> Vec<Table> {
    [addresses(), policies(), schedulers(), sources()].into_iter().flatten().collect()
}

#[test]
fn every_case() {
    check(tables());
}

/// 192.168.0.10 is the node's own, whatever Services name it.
fn addresses() -> Vec<Table> {
    vec![table(
        Ways::Balanced("rr"),
        "svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1,192.168.0.10 lb=198.51.100.1 etp=local health=32000
        ep 10.1.0.1:8080 @here
        svc shop/more:http udp 10.96.0.2:80 ext=203.0.113.1
        svc shop/taker:http tcp 10.96.0.3:80 ext=198.51.100.1 created=5",
        &[
            (OUTSIDE, "10.96.0.1:443"),
            (OUTSIDE, "203.0.113.1:443"),
            (OUTSIDE, "203.0.113.1:80/udp"),
            (OUTSIDE, "198.51.100.1:80/sctp"),
            (OUTSIDE, "198.51.100.1:80"),
            (OUTSIDE, "198.51.100.1:32000"),
            (OUTSIDE, "198.51.100.1:30080"),
            (OUTSIDE, "192.168.0.10:30080"),
            (OUTSIDE, "192.168.0.10:443"),
            (OUTSIDE, "192.168.0.10:32000"),
            (NODE, "127.0.0.1:30080"),
            (OUTSIDE, "10.96.0.9:80"),
        ],
        expect![[r#"
            8.8.8.8 -> 10.96.0.1:443
            reject: the address is a cluster IP, but its Service has only 80/tcp (shop/web:http)
            8.8.8.8 -> 203.0.113.1:443
            reject: the address is an external IP, but its Services have only 80/udp (shop/more:http), 80/tcp (shop/web:http)
            8.8.8.8 -> 203.0.113.1:80/udp
            reject: the Service has no endpoints: do its selector and its port fit any pod?
            external IP of shop/more:http, sent by anyone
            8.8.8.8 -> 198.51.100.1:80/sctp
            reject: the address is a load-balancer IP, but its Service has only 80/tcp (shop/web:http)
            8.8.8.8 -> 198.51.100.1:80
            1 endpoints: one of the usable endpoints on this node (the policy is Local), which take turns (scheduler rr)
            load-balancer IP of shop/web:http, sent by anyone
            not shop/taker:http
            + 10.1.0.1:8080 1/1, source kept: the external policy is Local
            8.8.8.8 -> 198.51.100.1:32000
            untouched: the node itself answers health checks of shop/web on this port
            8.8.8.8 -> 198.51.100.1:30080
            reject: the address is a load-balancer IP, but its Service has only 80/tcp (shop/web:http)
            8.8.8.8 -> 192.168.0.10:30080
            1 endpoints: one of the usable endpoints on this node (the policy is Local), which take turns (scheduler rr)
            node port of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/1, source kept: the external policy is Local
            8.8.8.8 -> 192.168.0.10:443
            untouched: the address is an external IP, but its Service has only 80/tcp (shop/web:http)
            8.8.8.8 -> 192.168.0.10:32000
            untouched: the node itself answers health checks of shop/web on this port
            192.168.0.10 -> 127.0.0.1:30080
            untouched: shop/web:http has this node port, but node ports are not served on loopback addresses
            8.8.8.8 -> 10.96.0.9:80
            untouched: no Service has this address, protocol and port
        "#]],
    )]
}

fn policies() -> Vec<Table> {
    vec![table(
        Ways::Balanced("rr"),
        "node detector=prefix:cali
        svc shop/web:http tcp 10.96.0.1:80 ext=203.0.113.1 etp=local
        ep 10.1.0.1:8080 @here
        ep 10.1.1.1:8080 @there
        svc shop/far:http udp 10.96.0.2:80 ext=203.0.113.2 etp=local
        ep 10.1.1.1:8080 @there
        svc shop/empty:http tcp 10.96.0.3:80 lb=198.51.100.1 from=9.0.0.0/8",
        &[
            (OUTSIDE, "203.0.113.1:80"),
            (POD, "203.0.113.1:80"),
            (NODE, "203.0.113.1:80"),
            (OUTSIDE, "203.0.113.2:80/udp"),
            (POD, "203.0.113.2:80/udp"),
            (OUTSIDE, "198.51.100.1:80"),
        ],
        expect![[r#"
            8.8.8.8 -> 203.0.113.1:80
            1 endpoints: one of the usable endpoints on this node (the policy is Local), which take turns (scheduler rr)
            external IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/1, source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 203.0.113.1:80
            1 endpoints: one of the usable endpoints on this node (the policy is Local), which take turns (scheduler rr)
            external IP of shop/web:http, sent by a pod of this node
            + 10.1.0.1:8080 1/1, source kept: the client is a pod of this node
            - 10.1.1.1:8080 on another node, and the policy is Local
            192.168.0.10 -> 203.0.113.1:80
            1 endpoints: one of the usable endpoints on this node (the policy is Local), which take turns (scheduler rr)
            external IP of shop/web:http, sent by this node
            + 10.1.0.1:8080 1/1, source replaced by the node's: the answer must come back through this node
            - 10.1.1.1:8080 on another node, and the policy is Local
            8.8.8.8 -> 203.0.113.2:80/udp
            drop: the policy is Local, and no usable endpoint is on this node
            external IP of shop/far:http, sent by anyone
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 203.0.113.2:80/udp
            1 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            external IP of shop/far:http, sent by a pod of this node
            + 10.1.1.1:8080 1/1, source kept: the client is a pod of this node
            8.8.8.8 -> 198.51.100.1:80
            drop: the source is in none of loadBalancerSourceRanges
            load-balancer IP of shop/empty:http, sent by anyone
        "#]],
    )]
}

fn schedulers() -> Vec<Table> {
    let sticky = WEB.replace(":80\n", ":80 sticky=60\n");
    let alone = "node detector=prefix:cali\nsvc shop/web:http sctp 10.96.0.1:80\nep 10.1.0.1:8080 @here";
    vec![
        table(
            Ways::Balanced("lc"),
            format!("node detector=prefix:cali\n{sticky}"),
            &[(POD, "10.96.0.1:80")],
            expect![[r#"
                10.1.0.9 -> 10.96.0.1:80
                2 endpoints: one of the usable endpoints, the one with the fewest connections (scheduler lc); a client that was here in the last 60 s goes back to the same one
                cluster IP of shop/web:http, sent by anyone
                + 10.1.0.1:8080 by lc, source kept: the client is a pod of this node
                + 10.1.1.1:8080 by lc, source kept: the client is a pod of this node
            "#]],
        ),
        table(
            Ways::Balanced("sh"),
            alone,
            &[(POD, "10.96.0.1:80/sctp")],
            expect![[r#"
            10.1.0.9 -> 10.96.0.1:80/sctp
            1 endpoints: one of the usable endpoints, for each client address always the same (scheduler sh)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/1, source kept: the client is a pod of this node
        "#]],
        ),
    ]
}

#[test]
fn every_scheduler_in_its_own_words() {
    let said = |name: &&str| {
        let chooser = Chooser::Scheduler((*name).into());
        format!("{}, alone {}: one, {chooser}\n", chooser.odds(3), chooser.odds(1))
    };
    let all = ["rr", "wrr", "lc", "wlc", "sed", "nq", "sh", "mh", "dh", "lblc", "fo"];
    expect![[r#"
        1/3, alone 1/1: one, which take turns (scheduler rr)
        1/3, alone 1/1: one, which take turns (scheduler wrr)
        by lc, alone 1/1: one, the one with the fewest connections (scheduler lc)
        by wlc, alone 1/1: one, the one with the fewest connections (scheduler wlc)
        by sed, alone 1/1: one, the one with the fewest connections (scheduler sed)
        by nq, alone 1/1: one, the one with the fewest connections (scheduler nq)
        by sh, alone 1/1: one, for each client address always the same (scheduler sh)
        by mh, alone 1/1: one, for each client address and port always the same (scheduler mh)
        by dh, alone 1/1: one, for each address that is dialled always the same (scheduler dh)
        by lblc, alone 1/1: one, as IPVS decides (scheduler lblc)
        by fo, alone 1/1: one, as IPVS decides (scheduler fo)
    "#]]
    .assert_eq(&all.iter().map(said).collect::<String>());
}

/// What the node sends comes from the virtual address itself.
fn sources() -> Vec<Table> {
    let to = [(NODE, "10.96.0.1:80"), (POD, "10.96.0.1:80")];
    vec![
        table(
            Ways::Balanced("rr"),
            WEB,
            &to,
            expect![[r#"
            192.168.0.10 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source replaced by the node's: the node would send from the address that it dials
            + 10.1.1.1:8080 1/2, source replaced by the node's: the node would send from the address that it dials
            10.1.0.9 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source kept: pods are not told from other clients (detectLocalMode has no range of pods to go by)
            + 10.1.1.1:8080 1/2, source kept: pods are not told from other clients (detectLocalMode has no range of pods to go by)
        "#]],
        ),
        table(
            Ways::Balanced("rr"),
            format!("node detector=prefix:cali\n{WEB}"),
            &to,
            expect![[r#"
            192.168.0.10 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source replaced by the node's: the client is not a pod of this node
            + 10.1.1.1:8080 1/2, source replaced by the node's: the client is not a pod of this node
            10.1.0.9 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source kept: the client is a pod of this node
            + 10.1.1.1:8080 1/2, source kept: the client is a pod of this node
        "#]],
        ),
        table(
            Ways::Balanced("rr"),
            format!("node masquerade=all\n{WEB}"),
            &to,
            expect![[r#"
            192.168.0.10 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source replaced by the node's: all traffic is masqueraded
            + 10.1.1.1:8080 1/2, source replaced by the node's: all traffic is masqueraded
            10.1.0.9 -> 10.96.0.1:80
            2 endpoints: one of the usable endpoints, which take turns (scheduler rr)
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 1/2, source replaced by the node's: all traffic is masqueraded
            + 10.1.1.1:8080 1/2, source replaced by the node's: all traffic is masqueraded
        "#]],
        ),
    ]
}
