//! A live node changes hands: from kube-proxy's nftables mode, and from iptables mode. Connections go on.

use std::process::Command;

use switchyard_lab::Process;
use switchyard_model::Family;

use crate::common::looking::{PATIENCE, at, eventually, ip, is_idle};
use crate::common::ruleset;
use crate::common::traffic::{assert_held, hold_both, while_connecting};
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::nft;

const WEB: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080";

/// The table of kube-proxy's nftables mode with the Service of [`WEB`], in the form of its release 1.36. Chains and maps that this
/// Service does not use are left out.
fn kube_proxy_table(world: &World, family: Family) -> String {
    let (nft, address, node) = match family {
        Family::V4 => ("ip", "ipv4_addr", "ip"),
        Family::V6 => ("ip6", "ipv6_addr", "ip6"),
    };
    let service = "service-6FI4YABF-default/web/tcp/";
    let cluster_ip = at("cluster.1:80", family).ip();
    let endpoint =
        |pod: &str| (ip(&world.pod(pod), family), format!("endpoint-{pod}-default/web/tcp/__{pod}/8080"));
    let ends = ["n1.1", "n2.1"].map(endpoint);
    let chains: String = ends
        .iter()
        .map(|(ip, name)| {
            let to = std::net::SocketAddr::new(*ip, 8080);
            format!("chain {name} {{ {node} saddr {ip} jump mark-for-masquerade; meta l4proto tcp dnat to {to}; }}\n")
        })
        .collect();
    let (first, second) = (&ends[0].1, &ends[1].1);
    let own = ip(world.n1(), family);
    format!(
        "table {nft} kube-proxy {{\ncomment \"rules for kube-proxy\";\n\
         set cluster-ips {{ type {address}; comment \"Active ClusterIPs\"; elements = {{ {cluster_ip} }}; }}\n\
         set nodeport-ips {{ type {address}; comment \"IPs that accept NodePort traffic\"; elements = {{ {own} }}; }}\n\
         map no-endpoint-services {{ type {address} . inet_proto . inet_service : verdict; }}\n\
         map service-ips {{ type {address} . inet_proto . inet_service : verdict; comment \"ClusterIP, ExternalIP and LoadBalancer IP traffic\"; }}\n\
         map service-nodeports {{ type inet_proto . inet_service : verdict; comment \"NodePort traffic\"; }}\n\
         chain mark-for-masquerade {{ meta mark set mark or 0x4000; }}\n\
         chain masquerading {{ mark and 0x4000 == 0 return; meta mark set mark xor 0x4000; masquerade fully-random; }}\n\
         chain cluster-ips-check {{ {node} daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\"; }}\n\
         chain service-endpoints-check {{ {node} daddr . meta l4proto . th dport vmap @no-endpoint-services; }}\n\
         {chains}\
         chain {service} {{ {node} daddr {cluster_ip} tcp dport 80 {node} saddr != {pods} jump mark-for-masquerade; \
         numgen random mod 2 vmap {{ 0 : goto {first}, 1 : goto {second} }}; }}\n\
         chain external-6FI4YABF-default/web/tcp/ {{ jump mark-for-masquerade; goto {service}; }}\n\
         chain services {{ {node} daddr . meta l4proto . th dport vmap @service-ips; \
         {node} daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports; }}\n\
         chain filter-forward {{ type filter hook forward priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }}\n\
         chain filter-output {{ type filter hook output priority 0; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }}\n\
         chain nat-prerouting {{ type nat hook prerouting priority -100; jump services; }}\n\
         chain nat-output {{ type nat hook output priority -100; jump services; }}\n\
         chain nat-postrouting {{ type nat hook postrouting priority 100; jump masquerading; }}\n}}\n\
         add element {nft} kube-proxy service-ips {{ {cluster_ip} . tcp . 80 : goto {service} }}\n\
         add element {nft} kube-proxy service-nodeports {{ tcp . 30080 : goto external-6FI4YABF-default/web/tcp/ }}\n",
        pods = match family {
            Family::V4 => "10.1.0.0/16",
            Family::V6 => "fd00:10:1::/48",
        },
    )
}

/// `nft monitor`, already listening.
fn watch(world: &World) -> Process {
    let mut command = Command::new("nft");
    // A line per event, at once.
    command.arg("monitor");
    let monitor = world.n1().start(&mut command, &world.path("monitor.log")).unwrap();
    eventually("nft listens", || {
        nft(world.n1(), "add table ip hello\ndelete table ip hello");
        monitor.log().unwrap().contains("hello")
    });
    monitor
}

fn has_table(world: &World, family: &str, name: &str) -> bool {
    !ruleset::table(world.n1(), family, name).is_empty()
}

#[test]
fn kube_proxys_table_goes_after_ours_stands() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    world.write(WEB);
    Family::ALL.iter().for_each(|family| nft(world.n1(), &kube_proxy_table(&world, *family)));
    nft(
        world.n1(),
        "table inet other { chain input { type filter hook input priority 0; tcp dport 9999 drop; }\n}",
    );
    let other = ruleset::table(world.n1(), "inet", "other");
    let mut held = hold_both(&world);
    let monitor = watch(&world);
    while_connecting(&world, || {
        world.start(&[]);
        eventually("theirs goes", || !ruleset::has_any_of_kube_proxy(world.n1(), Variant::Nftables));
        assert_held(&mut held);
        world.settle();
    });
    assert_held(&mut held);
    let log = monitor.log().unwrap();
    for family in ruleset::NFT_FAMILIES {
        let position = |text: String| log.find(&text).unwrap_or_else(|| panic!("{text:?} is not in {log}"));
        let gone = position(format!("delete table {family} kube-proxy"));
        assert!(position(format!("add table {family} switchyard")) < gone);
        assert!(position(format!("add element {family} switchyard frontends")) < gone);
    }
    assert_eq!(ruleset::table(world.n1(), "inet", "other"), other);
    world.assert_as_fresh();
}

/// Also the other way round, to go back.
fn between_modes(first: Variant, second: Variant) {
    let Some(world) = World::running(first, WEB) else { return };
    if !second.is_usable(&world.lab) {
        return;
    }
    let mut held = hold_both(&world);
    let is_written = |variant: Variant| match variant.backend() {
        None => ruleset::has_tables(world.n1(), "switchyard"),
        Some(_) => ruleset::rules(world.n1(), variant).contains("KUBE-SVC"),
    };
    let is_gone = |variant: Variant| match variant.backend() {
        None => ruleset::NFT_FAMILIES.iter().all(|f| !has_table(&world, f, "switchyard")),
        Some(_) => !ruleset::has_any_of_kube_proxy(world.n1(), variant),
    };
    assert!(is_written(first) && is_gone(second));
    while_connecting(&world, || {
        world.agent(|agent| agent.terminate().unwrap());
        assert!(world.agent(|agent| agent.wait(PATIENCE)).unwrap().is_some_and(|status| status.success()));
        world.start_as(second);
        eventually("the new rules stand and the old ones are gone", || is_written(second) && is_gone(first));
        eventually("all is written", || is_idle(world.n1()));
        assert_held(&mut held);
    });
    assert_held(&mut held);
    for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080")] {
        world.wait_for_answer(from, switchyard_lab::Transport::Tcp, to, &["n1.1", "n2.1"]);
    }
    world.n1().exec_ok("nft", &["list", "ruleset"]).unwrap();
}

#[test]
fn from_iptables_nft() {
    between_modes(Variant::Nft, Variant::Nftables);
}

#[test]
fn from_iptables_legacy() {
    between_modes(Variant::Legacy, Variant::Nftables);
}

#[test]
fn back_to_iptables_nft() {
    between_modes(Variant::Nftables, Variant::Nft);
}

#[test]
fn back_to_iptables_legacy() {
    between_modes(Variant::Nftables, Variant::Legacy);
}
