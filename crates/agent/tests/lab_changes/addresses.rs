//! Addresses of the node that come and go while node ports are limited to some of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::json;
use switchyard_lab::Dial;
use switchyard_model::Family;

use crate::common::looking::{eventually, ip};
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![a_node_port_follows_the_addresses_of_the_node, the_primary_address_follows_the_node];

const RANGES: &str = "--nodeport-addresses=192.168.77.0/24,fd00:77::/64";

fn a_node_port_follows_the_addresses_of_the_node(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    world.write("service web cluster.1:80/tcp nodeport=30080\nendpoint web n2.1:8080");
    world.start(&[RANGES]);
    world.settle();
    let caller = world.pod("n1.9");
    let answers = |ip: IpAddr| {
        let dial = Dial::tcp(SocketAddr::new(ip, 30080)).within(Duration::from_millis(500));
        caller.dial(&dial).name() == Some(world.pod("n2.1").name())
    };
    let addresses = [("192.168.77.1/32", "192.168.77.1"), ("fd00:77::1/128", "fd00:77::1")];
    for (address, ip) in addresses {
        let ip: IpAddr = ip.parse().unwrap();
        assert!(!answers(ip));
        world.n1().exec_ok("ip", &["address", "add", address, "dev", "lo"]).unwrap();
        eventually("the node port answers on the new address", || answers(ip));
        let before = world.rules();
        world.n1().exec_ok("ip", &["address", "delete", address, "dev", "lo"]).unwrap();
        eventually("the rules without the address", || world.rules() != before);
    }
}

fn the_primary_address_follows_the_node(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    world.write("service web cluster.1:80/tcp nodeport=30080\nendpoint web n2.1:8080");
    let node = |addresses: &[String]| {
        let list: Vec<_> =
            addresses.iter().map(|ip| json!({ "type": "InternalIP", "address": ip })).collect();
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" }, "status": { "addresses": list } });
        // After the file of the world, whose Node it replaces.
        world.put_manifest("zz-node.json", node.to_string().as_bytes());
    };
    let first = Family::ALL.map(|family| ip(world.n1(), family));
    let later: [IpAddr; 2] = ["192.168.77.1".parse().unwrap(), "fd00:77::1".parse().unwrap()];
    for ip in later {
        world.n1().exec_ok("ip", &["address", "add", &ip.to_string(), "dev", "lo"]).unwrap();
    }
    node(&first.map(|ip| ip.to_string()));
    world.start(&["--nodeport-addresses=primary"]);
    world.settle();
    let caller = world.pod("n1.9");
    let answers = |ip: IpAddr| {
        let dial = Dial::tcp(SocketAddr::new(ip, 30080)).within(Duration::from_millis(500));
        caller.dial(&dial).name() == Some(world.pod("n2.1").name())
    };
    assert!(first.into_iter().all(answers) && !later.into_iter().any(answers));
    node(&later.map(|ip| ip.to_string()));
    eventually("node ports moved to the new addresses", || later.into_iter().all(answers));
    assert!(!first.into_iter().any(answers));
}
