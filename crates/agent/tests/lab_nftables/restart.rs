//! Restarts and crashes over a table that an earlier run left.

use std::time::Instant;

use serde_json::{Value, json};
use switchyard_lab::Dial;
use switchyard_lab::Transport::Tcp;
use switchyard_model::Family;
use switchyard_netlink::nftables::Nft;

use crate::common::looking::{PATIENCE, at, eventually, is_idle};
use crate::common::objects;
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::common::world::World;
use crate::nft;

const OBJECTS: &str = "service-cidrs 10.96.0.0/16,fd00:10:96::/112\n\
    service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080\n\
    service sticky cluster.2:80/tcp nodeport=30081 affinity=600 etp=Local\n\
    endpoint sticky n1.1:8080\nendpoint sticky n1.2:8080\nendpoint sticky n2.1:8080\nendpoint sticky n2.2:8080\n\
    service lb cluster.3:80/tcp nodeport=30082 lb=lb.3 ext=ext.3 ranges=client etp=Local\nendpoint lb n1.1:8080\n\
    service none cluster.4:80/tcp nodeport=30083\n";

/// The generation of n1's rules: every transaction makes another one.
fn generation(world: &World) -> u32 {
    world.n1().run(|| Nft::open().unwrap().generation().unwrap().0).unwrap()
}

/// The clients that sticky Services remember.
fn clients(world: &World) -> Vec<String> {
    let text = world.n1().exec_ok("nft", &["--json", "list", "sets"]).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let sets = json["nftables"].as_array().unwrap().iter().map(|object| &object["set"]);
    let elements = |set: &Value| {
        let name = set["name"].as_str().unwrap_or_default().to_owned();
        let list = set["elem"].as_array().cloned().unwrap_or_default();
        list.into_iter().map(move |element| format!("{name} {}", element["elem"]["val"])).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = sets.flat_map(elements).filter(|text| text.starts_with("clients-")).collect();
    all.sort();
    all
}

/// Waits until the loop has done all that it had to do after its start: it tells of a wrong object only then.
fn wait_for_loop(world: &World, name: &str) {
    let wrong = objects::service("default", name, "", "10.96.0.200", &json!(0));
    world.put_manifest("wrong.yaml", wrong.to_string().as_bytes());
    world.wait_for_log(&format!("default/{name}"));
    eventually("it is idle", || is_idle(world.n1()));
}

#[test]
fn a_restart_writes_nothing() {
    let Some(world) = World::running(Variant::Nftables, OBJECTS) else { return };
    world.refuse_untranslated();
    let caller = world.pod("n1.9");
    let hold = |family| {
        let mut held = caller.hold(&Dial::tcp(at("cluster.1:80", family))).unwrap();
        let name = held.ask().name().unwrap().to_owned();
        (held, name)
    };
    let stick = |family| world.ask("n1.9", Tcp, "cluster.2:80", family).name().map(str::to_owned);
    let mut held = Family::ALL.map(hold);
    let sticky = Family::ALL.map(stick);
    wait_for_loop(&world, "wrong-0");
    let before = (generation(&world), world.rules(), clients(&world));
    assert_eq!(before.2.len(), 2, "{:?}", before.2);
    for n in 1..=3 {
        if n == 2 {
            world.kill();
        } else {
            world.agent(|agent| agent.terminate().unwrap());
            assert!(
                world.agent(|agent| agent.wait(PATIENCE)).unwrap().is_some_and(|status| status.success())
            );
        }
        world.start(&[]);
        wait_for_loop(&world, &format!("wrong-{n}"));
        assert_eq!(world.metric("switchyard_kernel_ops_total", ""), 0.0);
        assert_eq!((generation(&world), world.rules(), clients(&world)), before, "restart {n}");
        for (held, name) in &mut held {
            assert_eq!(held.ask().name(), Some(name.as_str()));
        }
        // By chance, one of four would answer all of these once in 16 million runs.
        (0..12).for_each(|_| assert_eq!(Family::ALL.map(stick), sticky));
    }
}

#[test]
fn a_restart_after_changes_writes_only_them() {
    let Some(world) = World::running(Variant::Nftables, OBJECTS) else { return };
    let stick = || world.ask("n1.9", Tcp, "cluster.2:80", Family::V4).name().map(str::to_owned);
    let sticky = stick();
    while_connecting(&world, || {
        world.kill();
        world.write("remove service none\nendpoint web n2.2:8080\nservice new cluster.5:80/tcp\nendpoint new n1.1:8080");
        world.start(&[]);
        world.settle();
    });
    let written = world.metric("switchyard_kernel_ops_total", "IPv4");
    assert!((1.0..30.0).contains(&written), "{written}");
    assert_eq!(stick(), sticky);
    world.assert_as_fresh();
}

/// A crash may leave one family written and the other not; nothing else can be half done.
#[test]
fn killed_during_the_first_load_it_converges() {
    let Some(world) = World::new_or_skip(Variant::Nftables) else { return };
    world.put_manifest("crowd.json", objects::crowd(0..1500).to_string().as_bytes());
    world.write(OBJECTS);
    let began = Instant::now();
    world.start(&[]);
    eventually("both families are written", || world.log().matches("full sync done").count() == 2);
    let whole = began.elapsed();
    world.settle();
    let good = world.rules();
    assert!(good.contains(&objects::crowd_ip(200, 1499)), "{good}");
    for part in [1, 4, 6, 7, 8, 9] {
        world.kill();
        nft(world.n1(), "flush ruleset");
        world.start(&[]);
        let ended = world.agent(|agent| agent.wait(whole * part / 8)).unwrap();
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        world.kill();
        let left =
            ["ip", "ip6"].map(|f| world.rules().lines().filter(|l| l.starts_with(&format!("{f} "))).count());
        eprintln!("killed after {part}/8 of {whole:?}: {left:?} lines are left");
        world.start(&[]);
        eventually("it converges", || is_idle(world.n1()) && world.rules() == good);
    }
    world.wait_for_answer("n1.9", Tcp, "cluster.1:80", &["n1.1", "n2.1"]);
}
