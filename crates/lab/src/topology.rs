//! Making the namespaces and the wires between them.

use std::collections::BTreeSet;
use std::io::{Write, stderr};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use switchyard_netlink::netns::Namespace;
use switchyard_netlink::route::{LinkIndex, NextHop, Route, Routes, Veth};
use switchyard_netlink::{Family, NetlinkError};

use crate::LabError;
use crate::address::{self, Node};
use crate::host::{Cable, Host};

const SETTLE_TIME: Duration = Duration::from_secs(5);

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// For every namespace, before its links exist: new links copy `default`.
const SYSCTLS: [(&str, &str); 14] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/default/accept_redirects", "0"),
    // Tests count refusals; the kernel would hold some of them back.
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/all/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
];

/// For namespaces that pass packets on.
const ROUTER_SYSCTLS: [(&str, &str); 2] = [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];

/// Two nodes, a client, and the router between them. Pods are added one by one.
#[derive(Debug)]
pub struct Lab {
    router: Host,
    n1: Host,
    n2: Host,
    client: Host,
    pods: Arc<Mutex<BTreeSet<(Node, u8)>>>,
    cables_made: AtomicU32,
}

impl Lab {
    /// Makes the network. Needs root.
    pub fn new() -> Result<Self, LabError> {
        let router = make_fixed("router", |family| address::router(Node::N1, family))?;
        configure(&router, &ROUTER_SYSCTLS)?;
        let [n1, n2] = Node::ALL.map(|node| -> Result<Host, LabError> {
            let host = make_fixed(node.name(), |family| address::node(node, family))?;
            configure(&host, &ROUTER_SYSCTLS)?;
            attach_edge(&router, &host, node.number(), |family| address::router(node, family))?;
            route_node(&router, &host, node)?;
            Ok(host)
        });
        let client = make_fixed("client", address::client)?;
        attach_edge(&router, &client, 100, address::client_router)?;
        let (n1, n2) = (n1?, n2?);
        [&n1, &n2, &client].into_iter().try_for_each(|leaf| {
            settle(&router, leaf.name())?;
            settle(leaf, "eth0")
        })?;
        Ok(Self { router, n1, n2, client, pods: Arc::default(), cables_made: AtomicU32::new(0) })
    }

    /// Makes the network, or prints why it cannot. With `LAB=require` in the environment that is a panic: for CI.
    #[expect(clippy::panic, reason = "tests must say loudly that they did not run")]
    pub fn new_or_skip() -> Option<Self> {
        let error = match Self::new() {
            Ok(lab) => return Some(lab),
            Err(error) => error,
        };
        let mut reason = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(deeper) = cause {
            reason = format!("{reason}: {deeper}");
            cause = deeper.source();
        }
        if std::env::var("LAB").as_deref() == Ok("require") {
            panic!("LAB=require, but there is no lab: {reason}");
        }
        // Not `eprintln!`: the harness hides what a passing test prints with it. Nothing is left to do if this fails.
        let _ = writeln!(stderr(), "SKIPPED: no lab: {reason} (network namespaces need root)");
        None
    }

    /// One of the nodes.
    pub fn node(&self, node: Node) -> &Host {
        match node {
            Node::N1 => &self.n1,
            Node::N2 => &self.n2,
        }
    }

    /// The client outside of the cluster.
    pub fn client(&self) -> &Host {
        &self.client
    }

    /// The router between nodes and client.
    pub fn router(&self) -> &Host {
        &self.router
    }

    /// Adds pod number `index` (from 0) to a node. When the last copy of the handle is dropped, the pod is gone: packets for it are
    /// dropped silently, and its number is free again.
    pub fn add_pod(&self, node: Node, index: u8) -> Result<Host, LabError> {
        let missing = || LabError::PodIndex { index };
        let v4 = address::pod(node, index, Family::V4).ok_or_else(missing)?;
        let v6 = address::pod(node, index, Family::V6).ok_or_else(missing)?;
        let name = format!("pod-{}-{index}", node.number());
        if !self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert((node, index)) {
            return Err(LabError::PodExists { name });
        }
        let node_host = self.node(node);
        // From here on, dropping the cable frees the number, also after an error.
        let cable = Cable {
            node: Arc::clone(node_host.namespace()),
            addresses: [v4, v6],
            number: (node, index),
            taken: Arc::clone(&self.pods),
        };
        let pod = make(&name, v4, v6, Some(cable))?;
        // The wire of an earlier pod with this number may still be there for a moment: never the same name twice.
        let wire = format!("pod{index}-{}", self.cables_made.fetch_add(1, Ordering::Relaxed));
        attach_pod(node_host, &pod, node, &wire)?;
        settle(node_host, &wire)?;
        settle(&pod, "eth0")?;
        Ok(pod)
    }
}

fn make_fixed(name: &str, ip: impl Fn(Family) -> IpAddr) -> Result<Host, LabError> {
    make(name, ip(Family::V4), ip(Family::V6), None)
}

fn make(name: &str, v4: IpAddr, v6: IpAddr, cable: Option<Cable>) -> Result<Host, LabError> {
    let namespace = Namespace::new().map_err(refused("make a network namespace", name))?;
    let host = Host::new(name, namespace, v4, v6, cable);
    configure(&host, &SYSCTLS)?;
    Ok(host)
}

fn configure(host: &Host, sysctls: &[(&str, &str)]) -> Result<(), LabError> {
    host.run(|| {
        for (key, value) in sysctls {
            std::fs::write(format!("/proc/sys/net/{key}"), value).map_err(|source| LabError::Io {
                action: format!("set sysctl net/{key}"),
                host: host.name().to_owned(),
                source,
            })?;
        }
        Ok(())
    })?
}

/// A wire between the router and a node or the client, with a default route at the far end.
fn attach_edge(
    router: &Host,
    leaf: &Host,
    number: u8,
    gateway: impl Fn(Family) -> IpAddr + Sync,
) -> Result<(), LabError> {
    network(router, "attach a wire to the router", |routes| {
        // Not the number that eth0 gets at the other end: see `Veth::index`.
        let link = LinkIndex(1000 + u32::from(number));
        let peer = leaf.namespace().as_fd();
        routes.create_veth(&Veth { name: leaf.name(), index: Some(link), peer_name: "eth0", peer })?;
        routes.set_up(link)?;
        FAMILIES.iter().try_for_each(|f| routes.add_address(link, gateway(*f), address::prefix(24, 64, *f)))
    })?;
    network(leaf, "configure eth0", |routes| {
        let link = routes.link_index("eth0")?;
        routes.set_up(link)?;
        FAMILIES.iter().try_for_each(|f| {
            routes.add_address(link, leaf.ip(*f), address::prefix(24, 64, *f))?;
            add_route(routes, address::anywhere(*f), NextHop::Via(link, gateway(*f)))
        })
    })
}

/// On the router: pods of this node, and for n1 the service addresses. On the node: pods that do not exist are dropped.
fn route_node(router: &Host, host: &Host, node: Node) -> Result<(), LabError> {
    network(router, "add routes to the router", |routes| {
        let link = routes.link_index(host.name())?;
        for family in FAMILIES {
            let services = address::service_ranges(family).into_iter().filter(|_| node == Node::N1);
            for range in services.chain([address::pod_range(node, family)]) {
                add_route(routes, range, NextHop::Via(link, host.ip(family)))?;
                // What the node does not want must not come back to it for ever.
                routes.add_blackhole_rule(host.name(), range.0, range.1)?;
            }
        }
        Ok(())
    })?;
    network(host, "add the pod range", |routes| {
        FAMILIES.iter().try_for_each(|f| add_route(routes, address::pod_range(node, *f), NextHop::Blackhole))
    })
}

/// A wire between a node and its pod, with host routes on both ends.
fn attach_pod(node_host: &Host, pod: &Host, node: Node, link_name: &str) -> Result<(), LabError> {
    network(node_host, "attach a pod to its node", |routes| {
        // eth0 of the node comes first, so this end never has the number of the pod's eth0.
        let peer = pod.namespace().as_fd();
        routes.create_veth(&Veth { name: link_name, index: None, peer_name: "eth0", peer })?;
        let link = routes.link_index(link_name)?;
        routes.set_up(link)?;
        for family in FAMILIES {
            routes.add_address(link, address::pod_gateway(node, family), family.bits())?;
            add_route(routes, (pod.ip(family), family.bits()), NextHop::Direct(link))?;
        }
        Ok(())
    })?;
    network(pod, "configure eth0", |routes| {
        let link: LinkIndex = routes.link_index("eth0")?;
        routes.set_up(link)?;
        FAMILIES.iter().try_for_each(|f| {
            let gateway = address::pod_gateway(node, *f);
            routes.add_address(link, pod.ip(*f), f.bits())?;
            add_route(routes, (gateway, f.bits()), NextHop::Direct(link))?;
            add_route(routes, address::anywhere(*f), NextHop::Via(link, gateway))
        })
    })
}

/// Waits until a link really works. The kernel takes notice of a carrier some time after it is there, and drops what the link sends until
/// then; next it makes the link-local address, which forwarding IPv6 needs; and last it begins to answer to the link's IPv6 addresses.
fn settle(host: &Host, link: &str) -> Result<(), LabError> {
    let end = Instant::now() + SETTLE_TIME;
    let settled = network(host, "look at its links", |routes| {
        while !is_settled(routes, link)? {
            if Instant::now() >= end {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(true)
    })?;
    if settled { Ok(()) } else { Err(LabError::Carrier { host: host.name().to_owned() }) }
}

fn is_settled(routes: &mut Routes, link: &str) -> Result<bool, NetlinkError> {
    if !routes.links()?.iter().any(|l| l.name == link && l.is_running) {
        return Ok(false);
    }
    let mut addresses = routes.addresses()?;
    addresses.retain(|a| a.interface == link && a.address.is_ipv6());
    let delivered = routes.delivered(Family::V6)?;
    let answers = addresses.iter().all(|a| delivered.contains(&(a.link, a.address)));
    Ok(answers && addresses.iter().any(|a| is_link_local(a.address)))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn add_route(routes: &mut Routes, network: address::Network, next_hop: NextHop) -> Result<(), NetlinkError> {
    let (destination, prefix) = network;
    routes.add_route(&Route { destination, prefix, next_hop })
}

/// Runs netlink requests inside a namespace.
fn network<T: Send>(
    host: &Host,
    action: &'static str,
    body: impl FnOnce(&mut Routes) -> Result<T, NetlinkError> + Send,
) -> Result<T, LabError> {
    host.run(|| Routes::open().and_then(|mut routes| body(&mut routes)))?
        .map_err(refused(action, host.name()))
}

fn refused(action: &'static str, host: &str) -> impl Fn(NetlinkError) -> LabError {
    move |source| LabError::Network { action, host: host.to_owned(), source }
}
