//! A cluster that outgrows the sets of its first write.

use switchyard_lab::Transport::Tcp;
use switchyard_model::Family;

use crate::common::looking::{eventually, is_idle};
use crate::common::objects::{crowd, crowd_ip};
use crate::common::traffic::{assert_held, hold_both, while_connecting};
use crate::common::variant::Variant;
use crate::common::world::World;

const OBJECTS: &str = "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080\n\
    service sticky cluster.2:80/tcp affinity=600\nendpoint sticky n1.1:8080\nendpoint sticky n1.2:8080\n\
    endpoint sticky n2.1:8080\nendpoint sticky n2.2:8080";

/// Sizes of the map of endpoints, as `nft` tells it.
fn slots(world: &World) -> String {
    let listed = world.n1().exec_ok("nft", &["--terse", "list", "map", "ip", "switchyard", "slots"]).unwrap();
    listed.lines().map(str::trim).find(|line| line.starts_with("size ")).unwrap_or_default().to_owned()
}

#[test]
fn nobody_notices_that_sets_are_replaced() {
    let Some(world) = World::running(Variant::Nftables, OBJECTS) else { return };
    let stick = || world.ask("n1.9", Tcp, "cluster.2:80", Family::V4).name().map(str::to_owned);
    let sticky = stick();
    let mut held = hold_both(&world);
    assert_eq!(slots(&world), "size 4096");
    while_connecting(&world, || {
        world.put_manifest("crowd.json", crowd(0..4200).to_string().as_bytes());
        eventually("the sets are larger", || slots(&world) == "size 16384" && is_idle(world.n1()));
        world.settle();
    });
    assert!(world.rules().contains(&crowd_ip(200, 4199)));
    assert_held(&mut held);
    // By chance, one of four would answer all of these once in 16 million runs.
    (0..12).for_each(|_| assert_eq!(stick(), sticky));
    assert_eq!(world.metric("switchyard_quarantined_objects", ""), 0.0);
    world.assert_as_fresh();
}
