//! A live node changes hands: from kube-proxy's ipvs mode, and back to it. What it writes is written here with the programs that it uses.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use switchyard_lab::{Dial, Host, Transport};
use switchyard_model::Family;
use switchyard_netlink::ipvs::ServiceId;

use super::common::looking::{PATIENCE, at, eventually, ip, script};
use super::common::traffic::{assert_held, hold_both, while_connecting};
use super::common::variant::Variant;
use super::common::world::World;
use super::{LINK, WEB, destinations, link_addresses, running, services, start, stop};

/// A virtual address of a Service that is gone since.
fn stale(family: Family) -> IpAddr {
    at("cluster.9:80", family).ip()
}

/// The node port of a Service that is gone since.
const STALE_NODE_PORT: u16 = 30_999;

/// A file for a program that reads its standard input.
fn feed(world: &World, program: &str, input: &str) {
    let path = world.path("feed.sh");
    script(&path, &format!("{program} <<'END'\n{input}END\n"));
    world.n1().exec_ok("sh", &[path.to_str().unwrap()]).unwrap();
}

/// Everything that kube-proxy 1.36 writes in ipvs mode for the Service of [`WEB`], and for one that is gone.
fn kube_proxy_was_here(world: &World) {
    let n1 = world.n1();
    n1.exec_ok("ip", &["link", "add", LINK, "type", "dummy"]).unwrap();
    for family in Family::ALL {
        let (cluster_ip, node) = (at("cluster.1:80", family).ip(), ip(n1, family));
        for address in [cluster_ip, stale(family)] {
            let prefix = format!("{address}/{}", family.host_prefix());
            n1.exec_ok("ip", &["address", "add", &prefix, "dev", LINK]).unwrap();
        }
        let ends = ["n1.1", "n2.1"].map(|pod| SocketAddr::new(ip(&world.pod(pod), family), 8080));
        let mut servers = String::new();
        for (address, port) in
            [(cluster_ip, 80), (stale(family), 80), (node, 30_080), (node, STALE_NODE_PORT)]
        {
            let server = SocketAddr::new(address, port);
            servers.push_str(&format!("-A -t {server} -s rr\n"));
            ends.iter().for_each(|end| servers.push_str(&format!("-a -t {server} -r {end} -m -w 1\n")));
        }
        feed(world, "ipvsadm -R", &servers);
    }
    kube_proxy_writes_its_filters(world);
    for name in ["vs/conntrack", "ip_forward"] {
        script(&world.path("sysctl.sh"), &format!("echo 1 > /proc/sys/net/ipv4/{name}\n"));
        n1.exec_ok("sh", &[world.path("sysctl.sh").to_str().unwrap()]).unwrap();
    }
    n1.exec_ok("ipset", &["create", "SOMEBODY-ELSES", "hash:ip"]).unwrap();
}

/// Sets, chains and rules beside virtual servers.
fn kube_proxy_writes_its_filters(world: &World) {
    for family in Family::ALL {
        feed(world, "ipset restore", &sets(family, at("cluster.1:80", family).ip(), stale(family)));
        let program = match family {
            Family::V4 => "iptables-nft-restore --noflush",
            Family::V6 => "ip6tables-nft-restore --noflush",
        };
        feed(world, program, &rules(family));
    }
}

fn prefix(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::V4 => ("KUBE-", "inet"),
        Family::V6 => ("KUBE-6-", "inet6"),
    }
}

fn sets(family: Family, cluster_ip: IpAddr, stale: IpAddr) -> String {
    let (kube, inet) = prefix(family);
    format!(
        "create {kube}CLUSTER-IP hash:ip,port family {inet} hashsize 1024 maxelem 65536\n\
         create {kube}LOOP-BACK hash:ip,port,ip family {inet} hashsize 1024 maxelem 65536\n\
         create {kube}NODE-PORT-TCP bitmap:port range 0-65535\n\
         create {kube}IPVS-IPS hash:ip family {inet} hashsize 1024 maxelem 65536\n\
         add {kube}CLUSTER-IP {cluster_ip},tcp:80\nadd {kube}CLUSTER-IP {stale},tcp:80\n\
         add {kube}NODE-PORT-TCP 30080\nadd {kube}NODE-PORT-TCP {STALE_NODE_PORT}\n\
         add {kube}IPVS-IPS {cluster_ip}\nadd {kube}IPVS-IPS {stale}\n"
    )
}

/// Chains, jumps and rules, without those of sets that are empty.
fn rules(family: Family) -> String {
    let (kube, pods) = match family {
        Family::V4 => ("KUBE-", "10.1.0.0/16"),
        Family::V6 => ("KUBE-6-", "fd00:10:1::/48"),
    };
    format!(
        "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-POSTROUTING - [0:0]\n:KUBE-NODE-PORT - [0:0]\n:KUBE-LOAD-BALANCER - [0:0]\n\
         :KUBE-MARK-MASQ - [0:0]\n\
         -I OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
         -I PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n\
         -I POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING\n\
         -A KUBE-SERVICES ! -s {pods} -m set --match-set {kube}CLUSTER-IP dst,dst -j KUBE-MARK-MASQ\n\
         -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT\n\
         -A KUBE-SERVICES -m set --match-set {kube}CLUSTER-IP dst,dst -j ACCEPT\n\
         -A KUBE-NODE-PORT -p tcp -m set --match-set {kube}NODE-PORT-TCP dst -j KUBE-MARK-MASQ\n\
         -A KUBE-POSTROUTING -m set --match-set {kube}LOOP-BACK dst,dst,src -j MASQUERADE\n\
         -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n\
         -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000\n\
         -A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE\n\
         -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000\nCOMMIT\n\
         *filter\n:KUBE-FORWARD - [0:0]\n:KUBE-NODE-PORT - [0:0]\n:KUBE-PROXY-FIREWALL - [0:0]\n\
         :KUBE-SOURCE-RANGES-FIREWALL - [0:0]\n:KUBE-IPVS-FILTER - [0:0]\n:KUBE-IPVS-OUT-FILTER - [0:0]\n\
         -I FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD\n\
         -I INPUT -m comment --comment \"kubernetes health check rules\" -j KUBE-NODE-PORT\n\
         -I INPUT -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL\n\
         -I FORWARD -m comment --comment \"kube-proxy firewall rules\" -j KUBE-PROXY-FIREWALL\n\
         -I INPUT -m comment --comment \"kubernetes ipvs access filter\" -j KUBE-IPVS-FILTER\n\
         -I OUTPUT -m comment --comment \"kubernetes ipvs access filter\" -j KUBE-IPVS-OUT-FILTER\n\
         -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n\
         -A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
         -A KUBE-IPVS-FILTER -m set --match-set {kube}CLUSTER-IP dst,dst -j RETURN\n\
         -A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set {kube}IPVS-IPS dst -j REJECT\nCOMMIT\n"
    )
}

/// Rules and sets that are left, of both families.
fn filters(n1: &Host) -> String {
    let rules =
        ["iptables-nft-save", "ip6tables-nft-save"].map(|save| n1.exec_ok(save, &[] as &[&str]).unwrap());
    rules.concat() + &n1.exec_ok("ipset", &["list", "-n"]).unwrap()
}

#[test]
fn kube_proxys_ipvs_mode_is_taken_over_and_no_connection_fails() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    world.write(WEB);
    kube_proxy_was_here(&world);
    let caller = world.pod("n1.9");
    let mut held = Family::ALL.map(|family| {
        let mut held = caller.hold(&Dial::tcp(at("cluster.1:80", family))).unwrap();
        let name = held.ask().name().unwrap().to_owned();
        (held, name)
    });
    let adopted = Family::ALL.map(|family| destinations(&world, "cluster.1:80", family).len());
    assert_eq!(adopted, [2, 2]);
    while_connecting(&world, || {
        start(&world, &[]);
        eventually("theirs goes", || !filters(world.n1()).contains("KUBE-"));
        world.settle();
    });
    held.iter_mut().for_each(|(held, name)| assert_eq!(held.ask().name(), Some(name.as_str())));
    assert!(filters(world.n1()).contains("SOMEBODY-ELSES"));
    for family in Family::ALL {
        let gone = stale(family);
        assert!(!link_addresses(&world).contains(&format!(" {gone}/")), "{gone}");
        let known: BTreeSet<ServiceId> = services(&world).into_iter().map(|service| service.id).collect();
        let id = |address, port| ServiceId { address, protocol: 6, port };
        let node = ip(world.n1(), family);
        assert!(
            known.contains(&id(at("cluster.1:80", family).ip(), 80)) && known.contains(&id(node, 30_080))
        );
        assert!(!known.contains(&id(gone, 80)));
        // Nothing says whose it was.
        assert!(known.contains(&id(node, STALE_NODE_PORT)));
    }
    // Cleaning up takes all that is ours.
    stop(&world);
    world.launch(world.n1(), &mut world.command(&["--cleanup"]));
    assert!(world.agent(|agent| agent.wait(PATIENCE)).unwrap().is_some_and(|status| status.success()));
    assert!(link_addresses(&world).is_empty() && !world.has_rules());
    assert!(services(&world).iter().all(|service| service.id.port == STALE_NODE_PORT));
}

/// What `docs/migrate.md` tells to run after going back from ipvs mode.
fn documented_removal() -> &'static str {
    let text = include_str!("../../../../docs/migrate.md");
    let row = text.lines().find_map(|line| line.strip_prefix("| ipvs | `nft ")).unwrap();
    row.split('`').next().unwrap()
}

/// kube-proxy goes on with the virtual servers and addresses that it finds, as we do with its own.
#[test]
fn the_way_back_is_the_documented_one_and_no_connection_fails() {
    let Some(world) = running(WEB, &[]) else { return };
    let mut held = hold_both(&world);
    let before = (services(&world), link_addresses(&world));
    while_connecting(&world, || {
        stop(&world);
        kube_proxy_writes_its_filters(&world);
        assert_held(&mut held);
        assert!(world.has_rules());
        world.n1().exec_ok("sh", &["-c", &format!("nft {}", documented_removal())]).unwrap();
        assert!(!world.has_rules());
        assert_held(&mut held);
    });
    held.extend(hold_both(&world));
    for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080")] {
        for pod in ["n1.1", "n2.1"] {
            world.wait_for_answer(from, Transport::Tcp, to, &[pod]);
        }
    }
    assert_held(&mut held);
    assert_eq!((services(&world), link_addresses(&world)), before);
    // And we come again.
    while_connecting(&world, || {
        start(&world, &[]);
        eventually("theirs goes", || !filters(world.n1()).contains("KUBE-"));
        world.settle();
    });
    assert_held(&mut held);
}
