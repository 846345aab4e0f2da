//! What happens per kind of traffic, for both families.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use switchyard_model::Family;

use super::*;
use crate::testing::{World, plain, plain_range};

/// The routes of the first service port, except those whose frontend contains a word of `lost`.
fn check(text: &str, lost: &[&str], expect: &Expect) {
    let show = |family| {
        let world = World::new(family, text);
        let port = &world.ports[0];
        let is_lost = |f: &Frontend| lost.iter().any(|word| show_frontend(f).contains(word));
        let routes = routes(&world.settings, port, is_lost);
        routes.routes.iter().map(show_route).collect::<String>()
    };
    let shown: BTreeSet<String> = Family::ALL.map(show).into();
    assert_eq!(shown.len(), 1, "{shown:#?}");
    expect.assert_eq(shown.first().unwrap());
}

fn show_frontend(frontend: &Frontend) -> String {
    match frontend.address {
        FrontendAddress::Ip(ip) => format!("{}:{}/{}", plain(ip), frontend.port, frontend.protocol),
        FrontendAddress::Node(_) => format!("node:{}/{}", frontend.port, frontend.protocol),
    }
}

fn show_route(route: &Route) -> String {
    let mut shown = format!("{:?} {}", route.kind, show_frontend(&route.frontend));
    if !route.allowed_sources.is_empty() {
        let range = |r: &IpNet| plain_range(r).to_string();
        let ranges: Vec<String> = route.allowed_sources.iter().map(range).collect();
        shown += &format!(" from {}", ranges.join(" "));
    }
    for branch in &route.branches {
        shown +=
            &format!("\n    {:?}: {:?}, masquerade {:?}", branch.client, branch.verdict, branch.masquerade);
    }
    shown + "\n"
}

const ALL_FRONTENDS: &str = "node=30080 ext=203.0.113.1 lb=198.51.100.1";

#[test]
fn nobody_anywhere_rejects() {
    check(
        &format!("svc shop/web tcp 10.96.0.1:80 {ALL_FRONTENDS}"),
        &[],
        &expect![[r#"
        ClusterIp 10.96.0.1:80/tcp
            Anyone: Reject, masquerade Never
        ExternalIp 203.0.113.1:80/tcp
            Anyone: Reject, masquerade Always
        LoadBalancerIp 198.51.100.1:80/tcp
            Anyone: Reject, masquerade Always
        NodePort node:30080/tcp
            Anyone: Reject, masquerade Always
    "#]],
    );
    // The same under Local policy, with endpoints that cannot be used, and source ranges do not matter any more.
    check(
        &format!(
            "svc shop/web udp 10.96.0.1:53 {ALL_FRONTENDS} itp=local etp=local from=10.0.0.0/8
             ep 10.1.0.1:53 @here starting"
        ),
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:53/udp
                Anyone: Reject, masquerade Never
            ExternalIp 203.0.113.1:53/udp
                Anyone: Reject, masquerade Always
            LoadBalancerIp 198.51.100.1:53/udp
                Anyone: Reject, masquerade Always
            NodePort node:30080/udp
                Anyone: Reject, masquerade Always
        "#]],
    );
}

#[test]
fn cluster_policy_picks_from_the_cluster_and_masquerades_outside_traffic() {
    check(
        &format!("svc shop/web tcp 10.96.0.1:80 {ALL_FRONTENDS}\nep 10.1.1.1:80 @there"),
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Pick(Cluster), masquerade Never
            ExternalIp 203.0.113.1:80/tcp
                Anyone: Pick(Cluster), masquerade Always
            LoadBalancerIp 198.51.100.1:80/tcp
                Anyone: Pick(Cluster), masquerade Always
            NodePort node:30080/tcp
                Anyone: Pick(Cluster), masquerade Always
        "#]],
    );
}

#[test]
fn local_policy_with_a_local_endpoint() {
    check(
        &format!(
            "svc shop/web tcp 10.96.0.1:80 {ALL_FRONTENDS} itp=local etp=local
             ep 10.1.0.1:80 @here"
        ),
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Pick(Local), masquerade Never
            ExternalIp 203.0.113.1:80/tcp
                ThisNode: Pick(Cluster), masquerade Always
                Anyone: Pick(Local), masquerade Never
            LoadBalancerIp 198.51.100.1:80/tcp
                ThisNode: Pick(Cluster), masquerade Always
                Anyone: Pick(Local), masquerade Never
            NodePort node:30080/tcp
                ThisNode: Pick(Cluster), masquerade Always
                Anyone: Pick(Local), masquerade Never
        "#]],
    );
}

#[test]
fn local_policy_without_a_local_endpoint_drops_outsiders_only() {
    check(
        "node detector=cidr:10.1.0.0/24
         svc shop/web tcp 10.96.0.1:80 node=30080 itp=local etp=local
         ep 10.1.1.1:80 @there",
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Drop, masquerade FromOutside
            NodePort node:30080/tcp
                LocalPod: Pick(Cluster), masquerade Never
                ThisNode: Pick(Cluster), masquerade Always
                Anyone: Drop, masquerade Never
        "#]],
    );
    check(
        "svc shop/web tcp 10.96.0.1:80 node=30080 etp=local
         ep 10.1.1.1:80 @there",
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Pick(Cluster), masquerade Never
            NodePort node:30080/tcp
                ThisNode: Pick(Cluster), masquerade Always
                Anyone: Drop, masquerade Never
        "#]],
    );
}

#[test]
fn policies_are_independent() {
    check(
        "svc shop/web tcp 10.96.0.1:80 ext=203.0.113.1 itp=local
         ep 10.1.1.1:80 @there",
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Drop, masquerade Never
            ExternalIp 203.0.113.1:80/tcp
                Anyone: Pick(Cluster), masquerade Always
        "#]],
    );
    check(
        "svc shop/web tcp 10.96.0.1:80 ext=203.0.113.1 etp=local
         ep 10.1.1.1:80 @there terminating",
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Pick(Cluster), masquerade Never
            ExternalIp 203.0.113.1:80/tcp
                ThisNode: Pick(Cluster), masquerade Always
                Anyone: Drop, masquerade Never
        "#]],
    );
}

#[test]
fn cluster_ip_masquerade_follows_the_settings() {
    let ep = "\nsvc shop/web tcp 10.96.0.1:80\nep 10.1.1.1:80";
    check(
        &format!("node detector=bridge:cbr0{ep}"),
        &[],
        &expect![[r#"
        ClusterIp 10.96.0.1:80/tcp
            Anyone: Pick(Cluster), masquerade FromOutside
    "#]],
    );
    check(
        &format!("node detector=prefix:cali masquerade=all{ep}"),
        &[],
        &expect![[r#"
        ClusterIp 10.96.0.1:80/tcp
            Anyone: Pick(Cluster), masquerade Always
    "#]],
    );
    check(
        &format!("node masquerade=all{ep}"),
        &[],
        &expect![[r#"
        ClusterIp 10.96.0.1:80/tcp
            Anyone: Pick(Cluster), masquerade Always
    "#]],
    );
}

#[test]
fn source_ranges_are_for_load_balancer_ips_only() {
    check(
        &format!(
            "svc shop/web tcp 10.96.0.1:80 {ALL_FRONTENDS},198.51.100.2 from=10.0.0.0/8,172.16.0.0/16
             ep 10.1.1.1:80"
        ),
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Pick(Cluster), masquerade Never
            ExternalIp 203.0.113.1:80/tcp
                Anyone: Pick(Cluster), masquerade Always
            LoadBalancerIp 198.51.100.1:80/tcp from 10.0.0.0/8 172.16.0.0/16
                Anyone: Pick(Cluster), masquerade Always
            LoadBalancerIp 198.51.100.2:80/tcp from 10.0.0.0/8 172.16.0.0/16
                Anyone: Pick(Cluster), masquerade Always
            NodePort node:30080/tcp
                Anyone: Pick(Cluster), masquerade Always
        "#]],
    );
}

#[test]
fn a_range_with_the_node_in_it_lets_the_load_balancer_ips_in() {
    check(
        "svc shop/web tcp 10.96.0.1:80 lb=198.51.100.1,198.51.100.2 from=192.168.0.0/24
         ep 10.1.1.1:80",
        &[],
        &expect![[r#"
            ClusterIp 10.96.0.1:80/tcp
                Anyone: Pick(Cluster), masquerade Never
            LoadBalancerIp 198.51.100.1:80/tcp from 192.168.0.0/24 198.51.100.1/32 198.51.100.2/32
                Anyone: Pick(Cluster), masquerade Always
            LoadBalancerIp 198.51.100.2:80/tcp from 192.168.0.0/24 198.51.100.1/32 198.51.100.2/32
                Anyone: Pick(Cluster), masquerade Always
        "#]],
    );
}

#[test]
fn lost_frontends_have_no_route() {
    let text = format!("svc shop/web tcp 10.96.0.1:80 {ALL_FRONTENDS},203.0.113.9\nep 10.1.1.1:80");
    check(
        &text,
        &["203.0.113.9:", "node:"],
        &expect![[r#"
        ClusterIp 10.96.0.1:80/tcp
            Anyone: Pick(Cluster), masquerade Never
        ExternalIp 203.0.113.1:80/tcp
            Anyone: Pick(Cluster), masquerade Always
        LoadBalancerIp 198.51.100.1:80/tcp
            Anyone: Pick(Cluster), masquerade Always
    "#]],
    );
}
