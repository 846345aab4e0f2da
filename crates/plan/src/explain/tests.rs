//! Reasons, case by case, for both families.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use switchyard_model::Protocol;

use super::*;
use crate::testing::clients::{Client as Sender, NODE, OUTSIDE, POD};
use crate::testing::packets::packet;
use crate::testing::{World, address, plain_socket};

/// The explanation of one TCP packet.
fn check(text: &str, from: Sender, to: (&str, u16), expect: &Expect) {
    let explained = |family| explained(family, text, from, to, Manners::Lenient);
    let shown: BTreeSet<String> = Family::ALL.map(explained).into();
    assert_eq!(shown.len(), 1, "{shown:#?}");
    expect.assert_eq(shown.first().unwrap());
}

fn explained(family: Family, text: &str, from: Sender, to: (&str, u16), manners: Manners<'_>) -> String {
    let world = World::new(family, text);
    let book = world.book();
    let node = NodeAddresses::from([address(family, "192.168.0.10"), address(family, "192.168.1.10")]);
    let packet = packet(family, from, to.0, Protocol::Tcp, to.1);
    show(&explain(Place { book: &book, node: &node, manners }, &packet))
}

fn show(explanation: &Explanation<'_>) -> String {
    let answer = match &explanation.answer {
        Answer::Endpoints(some) => format!("{} endpoints", some.len()),
        other => format!("{other:?}").to_lowercase(),
    };
    let mut shown = format!("{answer}: {}\n", explanation.reason);
    let Some(hit) = &explanation.hit else { return shown };
    shown += &format!("{} of {}, sent by {}\n", hit.kind, hit.port.name, hit.client);
    for loser in &hit.losers {
        shown += &format!("not {}\n", loser.name);
    }
    for judged in &hit.endpoints {
        let at = plain_socket(judged.endpoint.address);
        shown += &match judged.standing {
            Standing::Candidate(source) => format!("+ {at} source {source}\n"),
            Standing::Excluded(exclusion) => format!("- {at} {exclusion}\n"),
        };
    }
    shown
}

const PODS_TOLD: &str = "node detector=prefix:cali\n";

const ALL_KINDS: &str =
    "svc shop/web:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 lb=198.51.100.1 from=8.8.0.0/16 etp=local
    ep 10.1.0.1:8080 @here
    ep 10.1.1.1:8080 @there";

/// [`check`] with the sentences alone: from, to, and what is said.
fn check_all(text: &str, flows: &[(Sender, (&str, u16))], expect: &Expect) {
    let mut shown = String::new();
    for (from, to) in flows {
        let one = |family| explained(family, text, *from, *to, Manners::Lenient);
        let both: BTreeSet<String> = Family::ALL.map(one).into();
        assert_eq!(both.len(), 1, "{both:#?}");
        shown += &format!("{} -> {}:{}\n{}", from.0, to.0, to.1, both.first().unwrap());
    }
    expect.assert_eq(&shown);
}

#[test]
fn readiness() {
    check(
        &format!(
            "{PODS_TOLD}svc shop/web:http tcp 10.96.0.1:80
            ep 10.1.0.1:8080 @here
            ep 10.1.0.2:8080 @here starting
            ep 10.1.1.1:8080 @there
            ep 10.1.1.2:8080 @there terminating
            ep 10.1.1.3:8080 @there dead"
        ),
        POD,
        ("10.96.0.1", 80),
        &expect![[r#"
            2 endpoints: one of the usable endpoints, each with the same odds
            cluster IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 source kept: the client is a pod of this node
            - 10.1.0.2:8080 not ready
            + 10.1.1.1:8080 source kept: the client is a pod of this node
            - 10.1.1.2:8080 shutting down, and others are ready
            - 10.1.1.3:8080 shutting down, and not serving any more
        "#]],
    );
}

#[test]
fn nobody_is_ready() {
    check_all(
        "svc shop/web:http tcp 10.96.0.1:80
        svc shop/ending:http tcp 10.96.0.2:80
        ep 10.1.1.1:8080 @there starting
        ep 10.1.1.2:8080 @there terminating
        svc shop/down:http tcp 10.96.0.3:80
        ep 10.1.1.1:8080 @there starting
        ep 10.1.1.3:8080 @there dead",
        &[(POD, ("10.96.0.1", 80)), (POD, ("10.96.0.2", 80)), (POD, ("10.96.0.3", 80))],
        &expect![[r#"
            10.1.0.9 -> 10.96.0.1:80
            reject: the Service has no endpoints: do its selector and its port fit any pod?
            cluster IP of shop/web:http, sent by anyone
            10.1.0.9 -> 10.96.0.2:80
            1 endpoints: one of the usable endpoints, each with the same odds
            cluster IP of shop/ending:http, sent by anyone
            - 10.1.1.1:8080 not ready
            + 10.1.1.2:8080 source kept: pods are not told from other clients (no cluster CIDR is set)
            10.1.0.9 -> 10.96.0.3:80
            reject: no endpoint is ready, and none still answers while it shuts down
            cluster IP of shop/down:http, sent by anyone
            - 10.1.1.1:8080 not ready
            - 10.1.1.3:8080 shutting down, and not serving any more
        "#]],
    );
}

#[test]
fn policies() {
    check_all(
        &format!(
            "{PODS_TOLD}{ALL_KINDS}
            svc shop/inside:http tcp 10.96.0.2:80 itp=local
            ep 10.1.1.1:8080 @there"
        ),
        &[
            (OUTSIDE, ("203.0.113.1", 80)),
            (POD, ("203.0.113.1", 80)),
            (NODE, ("203.0.113.1", 80)),
            (OUTSIDE, ("198.51.100.1", 80)),
            (POD, ("198.51.100.1", 80)),
            (OUTSIDE, ("192.168.0.10", 30080)),
            (POD, ("10.96.0.2", 80)),
        ],
        &expect![[r#"
            8.8.8.8 -> 203.0.113.1:80
            1 endpoints: one of the usable endpoints on this node, each with the same odds: the policy is Local
            external IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 203.0.113.1:80
            2 endpoints: one of the usable endpoints, each with the same odds
            external IP of shop/web:http, sent by a pod of this node
            + 10.1.0.1:8080 source kept: the client is a pod of this node
            + 10.1.1.1:8080 source kept: the client is a pod of this node
            192.168.0.10 -> 203.0.113.1:80
            2 endpoints: one of the usable endpoints, each with the same odds
            external IP of shop/web:http, sent by this node
            + 10.1.0.1:8080 source replaced by the node's: the answer must come back through this node
            + 10.1.1.1:8080 source replaced by the node's: the answer must come back through this node
            8.8.8.8 -> 198.51.100.1:80
            1 endpoints: one of the usable endpoints on this node, each with the same odds: the policy is Local
            load-balancer IP of shop/web:http, sent by anyone
            + 10.1.0.1:8080 source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 198.51.100.1:80
            drop: the source is in none of loadBalancerSourceRanges
            load-balancer IP of shop/web:http, sent by a pod of this node
            - 10.1.0.1:8080 the sender is not in loadBalancerSourceRanges
            - 10.1.1.1:8080 the sender is not in loadBalancerSourceRanges
            8.8.8.8 -> 192.168.0.10:30080
            1 endpoints: one of the usable endpoints on this node, each with the same odds: the policy is Local
            node port of shop/web:http, sent by anyone
            + 10.1.0.1:8080 source kept: the external policy is Local
            - 10.1.1.1:8080 on another node, and the policy is Local
            10.1.0.9 -> 10.96.0.2:80
            drop: the policy is Local, and no usable endpoint is on this node
            cluster IP of shop/inside:http, sent by anyone
            - 10.1.1.1:8080 on another node, and the policy is Local
        "#]],
    );
}

#[test]
fn hints() {
    check_all(
        &format!(
            "{PODS_TOLD}svc shop/zones:http tcp 10.96.0.1:80
            ep 10.1.0.1:8080 @here zones=a
            ep 10.1.1.1:8080 @there zones=b
            svc shop/nodes:http tcp 10.96.0.2:80
            ep 10.1.0.1:8080 @here nodes=here
            ep 10.1.1.1:8080 @there nodes=there"
        ),
        &[(POD, ("10.96.0.1", 80)), (POD, ("10.96.0.2", 80))],
        &expect![[r#"
            10.1.0.9 -> 10.96.0.1:80
            1 endpoints: one of the usable endpoints, each with the same odds
            cluster IP of shop/zones:http, sent by anyone
            + 10.1.0.1:8080 source kept: the client is a pod of this node
            - 10.1.1.1:8080 its hints name another zone
            10.1.0.9 -> 10.96.0.2:80
            1 endpoints: one of the usable endpoints, each with the same odds
            cluster IP of shop/nodes:http, sent by anyone
            + 10.1.0.1:8080 source kept: the client is a pod of this node
            - 10.1.1.1:8080 its hints name another node
        "#]],
    );
}

#[test]
fn sources() {
    let told = format!("{PODS_TOLD}svc shop/web:http tcp 10.96.0.1:80 node=30080\nep 10.1.0.9:8080 @here");
    let to = ("10.96.0.1", 80);
    check_all(
        &told,
        &[(POD, to), (OUTSIDE, to), (NODE, to), (OUTSIDE, ("192.168.0.10", 30080))],
        &expect![[r#"
        10.1.0.9 -> 10.96.0.1:80
        1 endpoints: one of the usable endpoints, each with the same odds
        cluster IP of shop/web:http, sent by anyone
        + 10.1.0.9:8080 source replaced by the node's: the client is the endpoint itself
        8.8.8.8 -> 10.96.0.1:80
        1 endpoints: one of the usable endpoints, each with the same odds
        cluster IP of shop/web:http, sent by anyone
        + 10.1.0.9:8080 source replaced by the node's: the client is not a pod of this node
        192.168.0.10 -> 10.96.0.1:80
        1 endpoints: one of the usable endpoints, each with the same odds
        cluster IP of shop/web:http, sent by anyone
        + 10.1.0.9:8080 source replaced by the node's: the client is not a pod of this node
        8.8.8.8 -> 192.168.0.10:30080
        1 endpoints: one of the usable endpoints, each with the same odds
        node port of shop/web:http, sent by anyone
        + 10.1.0.9:8080 source replaced by the node's: the answer must come back through this node
    "#]],
    );
    let untold = "svc shop/web:http tcp 10.96.0.1:80\nep 10.1.0.1:8080 @here\nep 192.168.0.10:8080 @here";
    check_all(
        untold,
        &[(POD, to)],
        &expect![[r#"
        10.1.0.9 -> 10.96.0.1:80
        2 endpoints: one of the usable endpoints, each with the same odds
        cluster IP of shop/web:http, sent by anyone
        + 10.1.0.1:8080 source kept: pods are not told from other clients (no cluster CIDR is set)
        + 192.168.0.10:8080 source kept: pods are not told from other clients (no cluster CIDR is set)
    "#]],
    );
    check_all(
        &format!("node masquerade=all\n{untold}"),
        &[(POD, to)],
        &expect![[r#"
        10.1.0.9 -> 10.96.0.1:80
        2 endpoints: one of the usable endpoints, each with the same odds
        cluster IP of shop/web:http, sent by anyone
        + 10.1.0.1:8080 source replaced by the node's: all traffic is masqueraded
        + 192.168.0.10:8080 source kept: the endpoint is in the node's own network
    "#]],
    );
}

#[test]
fn conflicts_and_near_misses() {
    check_all(
        "node nodeports=192.168.0.10
        svc shop/old:http tcp 10.96.0.1:80 node=30080 ext=203.0.113.1 created=1
        ep 10.1.0.1:8080 @here
        svc shop/new:http tcp 10.96.0.2:80 ext=203.0.113.1 created=2
        ep 10.1.0.2:8080 @here",
        &[
            (OUTSIDE, ("203.0.113.1", 80)),
            (OUTSIDE, ("10.96.0.1", 443)),
            (OUTSIDE, ("192.168.1.10", 30080)),
            (OUTSIDE, ("8.8.4.4", 53)),
        ],
        &expect![[r#"
            8.8.8.8 -> 203.0.113.1:80
            1 endpoints: one of the usable endpoints, each with the same odds
            external IP of shop/old:http, sent by anyone
            not shop/new:http
            + 10.1.0.1:8080 source replaced by the node's: the answer must come back through this node
            8.8.8.8 -> 10.96.0.1:443
            untouched: the address is a cluster IP, but its Service has only 80/tcp (shop/old:http)
            8.8.8.8 -> 192.168.1.10:30080
            untouched: shop/old:http has this node port, but node ports are not served on this address (nodePortAddresses)
            8.8.8.8 -> 8.8.4.4:53
            untouched: no Service has this address, protocol and port
        "#]],
    );
}

#[test]
fn strict_modes_refuse_strays() {
    let text = "svc shop/web:http tcp 10.96.0.1:80\nep 10.1.0.1:8080 @here";
    let ranges = ["10.96.0.0/16".parse().unwrap()];
    let manners = Manners::Strict { service_cidrs: &ranges };
    let ask = |to| explained(Family::V4, text, POD, to, manners);
    expect![[r#"
        reject: the address is a cluster IP, but its Service has only 80/tcp (shop/web:http)
        drop: the address is in the range 10.96.0.0/16 of cluster IPs, and no Service has it
        untouched: no Service has this address, protocol and port
    "#]]
    .assert_eq(&(ask(("10.96.0.1", 443)) + &ask(("10.96.0.9", 80)) + &ask(("8.8.4.4", 53))));
}
