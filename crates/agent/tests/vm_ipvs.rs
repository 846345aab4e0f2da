//! ipvs mode beyond scenarios: restarts, connections that outlive their endpoint, options, virtual servers of others, harm,
//! changes of the mode, an operator's subcommands, a pod's privileges, and kube-proxy's place. Needs a kernel with IPVS: `make vm` boots one. Elsewhere only the refusal is seen.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;
#[path = "vm_ipvs/ctl.rs"]
mod ctl;
#[path = "vm_ipvs/explained.rs"]
mod explained;
#[path = "vm_ipvs/modes.rs"]
mod modes;
#[path = "vm_ipvs/pod.rs"]
mod pod;
#[path = "vm_ipvs/takeover.rs"]
mod takeover;

use std::time::Duration;

use switchyard_lab::Transport::{Tcp, Udp};
use switchyard_lab::{Dial, Lab};
use switchyard_model::Family;
use switchyard_netlink::ipvs::{
    Command, Destination, Forwarding, Ipvs, Listed, Persistence, Service, ServiceFlags, ServiceId, Timeouts,
};

use common::looking::{PATIENCE, at, eventually, ip, is_idle, within};
use common::variant::Variant;
use common::world::World;

const WEB: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080";
const LINK: &str = "kube-ipvs0";
/// IPVS keeps a connection that both sides have closed for this long.
const REMEMBERED: Duration = Duration::from_secs(120);

fn ipvs<T: Send>(world: &World, ask: impl FnOnce(&mut Ipvs) -> T + Send) -> T {
    world.n1().run(|| ask(&mut Ipvs::open().unwrap().unwrap())).unwrap()
}

fn services(world: &World) -> Vec<Service> {
    ipvs(world, |ipvs| ipvs.services().unwrap())
}

fn destinations(world: &World, to: &str, family: Family) -> Vec<Listed> {
    let (to, protocol) = (at(to, family), 6);
    ipvs(world, |ipvs| ipvs.destinations(ServiceId { address: to.ip(), protocol, port: to.port() }).unwrap())
}

fn link_addresses(world: &World) -> String {
    world.n1().exec_ok("ip", &["-o", "address", "show", "dev", LINK]).unwrap_or_default()
}

fn start(world: &World, flags: &[&str]) {
    let all = [&["--ipvs-min-sync-period=0s", "--ipvs-sync-period=1s"], flags].concat();
    world.start(&all);
}

/// Ends the agent, as a node does.
fn stop(world: &World) {
    world.agent(|agent| agent.terminate().unwrap());
    assert!(world.agent(|agent| agent.wait(PATIENCE)).unwrap().is_some(), "it does not end");
}

fn running(objects: &str, flags: &[&str]) -> Option<World> {
    let world = World::new_or_skip(Variant::Ipvs)?;
    world.write(objects);
    start(&world, flags);
    world.settle();
    Some(world)
}

#[test]
fn a_kernel_without_ipvs_is_refused_at_the_start() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let n1 = lab.node(switchyard_lab::Node::N1);
    if n1.run(|| Ipvs::open().unwrap().is_some()).unwrap() {
        return; // Everything else here shows that it starts.
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.args(["--proxy-mode=ipvs", "--manifests"]).arg(dir.path());
    let mut agent = n1.start(&mut command, &dir.path().join("log")).unwrap();
    assert!(agent.wait(PATIENCE).unwrap().is_some_and(|status| !status.success()));
    assert!(agent.log().unwrap().contains("modprobe ip_vs"), "{}", agent.log().unwrap());
}

#[test]
fn a_restart_writes_nothing_and_connections_stay() {
    let objects = format!(
        "{WEB}\nservice sticky cluster.2:80/tcp affinity=600\nendpoint sticky n1.1:8080\nendpoint sticky n2.1:8080\n\
         service lb cluster.3:80/tcp lb=lb.3 ext=ext.3 ranges=client etp=Local\nendpoint lb n1.1:8080\nservice none cluster.4:80/tcp"
    );
    let Some(world) = running(&objects, &[]) else { return };
    let caller = world.pod("n1.9");
    let mut held = Family::ALL.map(|family| {
        let mut held = caller.hold(&Dial::tcp(at("cluster.1:80", family))).unwrap();
        let name = held.ask().name().unwrap().to_owned();
        (held, name)
    });
    let before = (services(&world), link_addresses(&world), world.rules());
    for n in 1..=2 {
        if n == 1 {
            world.kill();
        } else {
            world.agent(|agent| agent.terminate().unwrap());
            world.agent(|agent| agent.wait(PATIENCE)).unwrap();
        }
        start(&world, &[]);
        eventually("both families are written", || world.health("/healthz").0 == 200 && is_idle(world.n1()));
        eventually("it has synced", || {
            world.metric("kubeproxy_sync_proxy_rules_last_timestamp_seconds", "") > 0.0
        });
        assert_eq!(world.metric("switchyard_kernel_ops_total", ""), 0.0, "restart {n}");
        assert_eq!((services(&world), link_addresses(&world), world.rules()), before, "restart {n}");
        for (held, name) in &mut held {
            assert_eq!(held.ask().name(), Some(name.as_str()));
        }
    }
}

#[test]
fn a_connection_outlives_its_endpoint_and_new_ones_go_elsewhere() {
    let Some(world) = running(
        "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\n\
         service dns cluster.2:53/udp\nendpoint dns n1.1:8080/udp",
        &[],
    ) else {
        return;
    };
    let caller = world.pod("n1.9");
    let (first, second) = (world.pod("n1.1"), world.pod("n2.1"));
    let mut held = Family::ALL.map(|family| caller.hold(&Dial::tcp(at("cluster.1:80", family))).unwrap());
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some(first.name())));
    world.wait_for_answer("n1.9", Udp, "cluster.2:53", &["n1.1"]);
    world.write(
        "then it moves\nremove endpoint web n1.1:8080\nendpoint web n2.1:8080\n\
         remove endpoint dns n1.1:8080\nendpoint dns n2.1:8080/udp",
    );
    world.settle();
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n2.1"]);
    world.wait_for_answer("n1.9", Udp, "cluster.2:53", &["n2.1"]);
    for family in Family::ALL {
        let weights = || -> Vec<u32> {
            destinations(&world, "cluster.1:80", family).iter().map(|d| d.destination.weight).collect()
        };
        eventually("the old one gets nothing new", || weights().contains(&0) && weights().len() == 2);
        (0..8).for_each(|_| {
            assert_eq!(world.ask("n1.9", Tcp, "cluster.1:80", family).name(), Some(second.name()))
        });
    }
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some(first.name())));
    // It returns while it waits: the connection stays, and new ones may come.
    world.write("then it returns\nendpoint web n1.1:8080");
    for family in Family::ALL {
        eventually("both get their share", || {
            destinations(&world, "cluster.1:80", family).iter().all(|d| d.destination.weight == 1)
        });
    }
    held.iter_mut().for_each(|held| assert_eq!(held.ask().name(), Some(first.name())));
    // It goes for good, and with its last connection from the kernel.
    world.write("then it goes\nremove endpoint web n1.1:8080");
    world.settle();
    drop(held);
    let is_gone =
        || Family::ALL.iter().all(|family| destinations(&world, "cluster.1:80", *family).len() == 1);
    let looks_every_second = || {
        std::thread::sleep(Duration::from_secs(1));
        is_gone()
    };
    assert!(within(REMEMBERED + PATIENCE, looks_every_second), "it is not gone");
}

#[test]
fn options_reach_the_kernel() {
    let sticky = "service web cluster.1:80/tcp affinity=77\nendpoint web n1.1:8080";
    let flags = [
        "--ipvs-scheduler=mh",
        "--ipvs-strict-arp",
        "--ipvs-tcp-timeout=901s",
        "--ipvs-tcpfin-timeout=121s",
        "--ipvs-udp-timeout=301s",
    ];
    let Some(world) = running(sticky, &flags) else { return };
    let all = services(&world);
    assert!(all.len() >= 2 && all.iter().all(|s| s.scheduler == "mh" && s.flags == ServiceFlags::MH_PORT));
    let web = all.iter().find(|service| service.id.port == 80).unwrap();
    assert_eq!(web.persistence, Persistence::Seconds(77.try_into().unwrap()));
    let timeouts = ipvs(&world, |ipvs| ipvs.timeouts().unwrap());
    assert_eq!(timeouts, Timeouts { tcp: 901, tcp_fin: 121, udp: 301 });
    let sysctl = |name: &str| world.n1().exec_ok("cat", &[format!("/proc/sys/net/ipv4/{name}")]).unwrap();
    for (name, value) in [
        ("vs/conntrack", "1"),
        ("vs/expire_nodest_conn", "1"),
        ("vs/expire_quiescent_template", "1"),
        ("ip_forward", "1"),
        ("conf/all/arp_ignore", "1"),
        ("conf/all/arp_announce", "2"),
    ] {
        assert_eq!(sysctl(name).trim(), value, "{name}");
    }
    assert!(world.log().contains("The ipvs proxier is now deprecated"));
    // A scheduler that the kernel has not got.
    world.agent(|agent| agent.terminate().unwrap());
    world.agent(|agent| agent.wait(PATIENCE)).unwrap();
    start(&world, &["--ipvs-scheduler=nonsense"]);
    assert!(world.agent(|agent| agent.wait(PATIENCE)).unwrap().is_some_and(|status| !status.success()));
    assert!(world.log().contains("modprobe ip_vs_nonsense"));
}

#[test]
fn virtual_servers_of_others_are_untouched_and_harm_is_repaired() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    let at_node = ServiceId { address: ip(world.n1(), Family::V4), protocol: 6, port: 8443 };
    // At an address of our link, but in a range that is excluded.
    let excluded = ServiceId { address: "10.96.77.7".parse().unwrap(), protocol: 6, port: 80 };
    world.n1().exec_ok("ip", &["link", "add", LINK, "type", "dummy"]).unwrap();
    world.n1().exec_ok("ip", &["address", "add", "10.96.77.7/32", "dev", LINK]).unwrap();
    let to =
        Destination { at: "10.9.9.9:80".parse().unwrap(), weight: 5, forwarding: Forwarding::Masquerade };
    let foreign = [at_node, excluded].map(|id| {
        let service = Service {
            id,
            scheduler: "wlc".into(),
            flags: ServiceFlags::NONE,
            persistence: Persistence::None,
        };
        let add = [Command::AddService(service.clone()), Command::AddDestination(id, to)];
        assert_eq!(ipvs(&world, |ipvs| ipvs.send(&add).unwrap()), [None, None]);
        service
    });
    let is_untouched = || {
        let all = services(&world);
        foreign.iter().all(|service| {
            all.contains(service)
                && ipvs(&world, |ipvs| ipvs.destinations(service.id).unwrap())
                    .iter()
                    .all(|d| d.destination == to)
        })
    };
    world.write(WEB);
    start(&world, &["--ipvs-exclude-cidrs=10.96.77.0/24"]);
    world.settle();
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    assert!(is_untouched());
    // Somebody removes ours, one by one; each look brings them back.
    let web = at("cluster.1:80", Family::V4);
    let id = ServiceId { address: web.ip(), protocol: 6, port: 80 };
    ipvs(&world, |ipvs| ipvs.send(&[Command::DeleteService(id)]).unwrap());
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    world.n1().exec_ok("ip", &["link", "delete", LINK]).unwrap();
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
    world.n1().exec_ok("nft", &["delete", "table", "ip", "switchyard-ipvs"]).unwrap();
    eventually("the table is back", || {
        world.n1().exec_ok("nft", &["list", "table", "ip", "switchyard-ipvs"]).is_ok()
    });
    // Node ports answer on an address that the node gets later.
    world.n1().exec_ok("ip", &["address", "add", "172.31.5.5/32", "dev", "lo"]).unwrap();
    eventually("the new address serves node ports", || {
        world.n1().dial(&Dial::tcp("172.31.5.5:30080".parse().unwrap())).name().is_some()
    });
    assert!(is_untouched());
    // Cleaning up takes ours and leaves theirs.
    world.agent(|agent| agent.terminate().unwrap());
    world.agent(|agent| agent.wait(PATIENCE)).unwrap();
    world.launch(world.n1(), &mut world.command(&["--cleanup"]));
    assert!(world.agent(|agent| agent.wait(PATIENCE)).unwrap().is_some_and(|status| status.success()));
    assert_eq!(services(&world).iter().map(|service| service.id).collect::<Vec<_>>(), [excluded, at_node]);
    assert!(link_addresses(&world).is_empty() && !world.has_rules());
}
