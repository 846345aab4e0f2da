//! Addresses of the node that come and go while node ports are limited to some of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use switchyard_lab::Dial;

use crate::common::looking::eventually;
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![a_node_port_follows_the_addresses_of_the_node];

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
