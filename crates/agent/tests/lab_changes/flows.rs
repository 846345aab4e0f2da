//! UDP clients that keep sending from one port: their flows must not lead where no rule would lead any more, and nobody else's flow may
//! be touched.

use std::net::IpAddr;
use std::time::Duration;

use switchyard_lab::scenario::address::wire_family;
use switchyard_lab::{Dial, Held, Transport};
use switchyard_model::Family;
use switchyard_netlink::conntrack::{Conntrack, Filter, Flow};

use crate::common::looking::{at, eventually, ip};
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![
    a_udp_client_follows_a_replaced_endpoint,
    a_udp_client_reaches_an_endpoint_that_comes_after_none,
    the_flow_of_a_deleted_service_goes,
    a_udp_client_that_began_before_the_service_reaches_it,
    flows_of_others_and_of_endpoints_that_stay_are_left_alone,
];

const DNS: &str = "service dns cluster.2:53/udp nodeport=30053\nendpoint dns n1.1:8080/udp";
const DELETED: &str = "kubeproxy_conntrack_reconciler_deleted_entries_total";
const UDP: u8 = 17;

/// A socket that asks from one port, and answers late questions quickly.
fn hold(world: &World, from: &str, to: &str, family: Family) -> Held {
    let dial = Dial::new(Transport::Udp, at(to, family)).within(Duration::from_millis(300));
    world.host(from).hold(&dial).unwrap()
}

/// Both ways to the Service: from a pod to its cluster IP, from outside to its node port.
fn hold_all(world: &World) -> Vec<Held> {
    let ways = [("n1.9", "cluster.2:53"), ("client", "n1:30053")];
    let families = Family::ALL.into_iter();
    families.flat_map(|f| ways.map(|(from, to)| hold(world, from, to, f))).collect()
}

fn wait_for(held: &mut Held, name: &str) {
    eventually(&format!("{name} answers on the same source port"), || held.ask().name() == Some(name));
}

/// Tracked UDP flows on n1 that asked for this address and port.
fn flows(world: &World, to: IpAddr, port: u16) -> Vec<Flow> {
    let dump = || {
        let filter = Filter {
            protocol: Some(UDP),
            orig_dst: Some(to),
            orig_dst_port: Some(port),
            ..Filter::family(wire_family(Family::of(to)))
        };
        let mut found = Vec::new();
        Conntrack::open().unwrap().dump(&filter, &mut |flow| found.push(flow)).unwrap();
        found
    };
    world.n1().run(dump).unwrap()
}

fn flows_to(world: &World, to: &str, family: Family) -> Vec<Flow> {
    let to = at(to, family);
    flows(world, to.ip(), to.port())
}

fn a_udp_client_follows_a_replaced_endpoint(variant: Variant) {
    let Some(world) = World::running(variant, DNS) else { return };
    let mut clients = hold_all(&world);
    clients.iter_mut().for_each(|held| wait_for(held, "pod-1-1"));
    assert_eq!(world.metric(DELETED, ""), 0.0);
    world.write("remove endpoint dns n1.1:8080\nendpoint dns n2.1:8080/udp");
    clients.iter_mut().for_each(|held| wait_for(held, "pod-2-1"));
    assert!(world.metric(DELETED, "") >= 4.0, "{}", world.metric(DELETED, ""));
}

fn a_udp_client_reaches_an_endpoint_that_comes_after_none(variant: Variant) {
    let Some(world) = World::running(variant, DNS) else { return };
    let mut clients = hold_all(&world);
    clients.iter_mut().for_each(|held| wait_for(held, "pod-1-1"));
    world.write("remove endpoint dns n1.1:8080");
    for held in &mut clients {
        eventually("nobody answers without endpoints", || held.ask().name().is_none());
    }
    for family in Family::ALL {
        for to in ["cluster.2:53", "n1:30053"] {
            let led = |flow: &Flow| flow.reply.src == ip(&world.pod("n1.1"), family);
            let gone = || !flows_to(&world, to, family).iter().any(led);
            eventually("the flow to the endpoint that went is gone", gone);
        }
    }
    world.write("endpoint dns n2.1:8080/udp");
    clients.iter_mut().for_each(|held| wait_for(held, "pod-2-1"));
}

fn the_flow_of_a_deleted_service_goes(variant: Variant) {
    let Some(world) = World::running(variant, DNS) else { return };
    let mut clients = hold_all(&world);
    clients.iter_mut().for_each(|held| wait_for(held, "pod-1-1"));
    for family in Family::ALL {
        assert_eq!(flows_to(&world, "cluster.2:53", family).len(), 1);
        assert_eq!(flows_to(&world, "n1:30053", family).len(), 1);
    }
    world.write("remove service dns");
    for family in Family::ALL {
        for to in ["cluster.2:53", "n1:30053"] {
            eventually("the flow is gone", || flows_to(&world, to, family).is_empty());
        }
    }
    eventually("they are counted", || world.metric(DELETED, "") >= 4.0);
}

fn a_udp_client_that_began_before_the_service_reaches_it(variant: Variant) {
    let Some(world) = World::running(variant, "") else { return };
    world.pod("n1.1");
    let mut clients = hold_all(&world);
    clients.iter_mut().for_each(|held| assert_eq!(held.ask().name(), None));
    for family in Family::ALL {
        assert_eq!(flows_to(&world, "cluster.2:53", family).len(), 1, "the kernel remembers the attempt");
    }
    world.write(DNS);
    clients.iter_mut().for_each(|held| wait_for(held, "pod-1-1"));
}

fn flows_of_others_and_of_endpoints_that_stay_are_left_alone(variant: Variant) {
    let Some(world) = World::running(variant, &format!("{DNS}\nendpoint dns n1.2:8080/udp")) else { return };
    let other = world.pod("n2.5");
    let _echoes = [53, 30053].map(|port| other.echo_udp(port).unwrap());
    let mut held = Vec::new();
    let mut watched = Vec::new();
    for family in Family::ALL {
        for to in ["n2.5:53", "n2.5:30053"] {
            let mut line = hold(&world, "n1.9", to, family);
            wait_for(&mut line, "pod-2-5");
            held.push(line);
            watched.push(flows_to(&world, to, family));
        }
        let mut line = hold(&world, "n1.9", "cluster.2:53", family);
        while line.ask().name() != Some("pod-1-1") {
            line = hold(&world, "n1.9", "cluster.2:53", family);
        }
        let port = line.local_addr().unwrap().port();
        let mine = flows_to(&world, "cluster.2:53", family).into_iter().filter(|f| f.orig.src_port == port);
        watched.push(mine.collect());
        held.push(line);
    }
    let before: Vec<Flow> = watched.concat();
    assert_eq!(before.len(), 6, "{before:?}");
    assert!(before.iter().all(|flow| flow.id.is_some()));
    world.write("remove endpoint dns n1.2:8080\nendpoint dns n2.1:8080/udp");
    world.settle();
    world.write("service dns cluster.2:53/udp nodeport=30054");
    world.settle();
    for flow in &before {
        let now = flows(&world, flow.orig.dst, flow.orig.dst_port);
        assert!(now.contains(flow), "{flow:?} is gone: {now:?}");
    }
}
