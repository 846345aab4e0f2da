//! The proxy is killed and started again, or has very much to do, while connections are made all the time.

use std::time::Duration;

use switchyard_lab::Dial;
use switchyard_model::Family;

use crate::common::looking::{PATIENCE, at, eventually, script};
use crate::common::traffic::while_connecting;
use crate::common::variant::Variant;
use crate::common::world::World;

every_mode![
    killed_at_any_moment_it_converges_and_no_connection_fails,
    churn_of_other_services_disturbs_nobody,
    a_restart_without_changes_changes_nothing,
];

/// A restore that outlives its killed proxy writes old rules over those of the next one. The kernel tells of it on the nft variant.
#[test]
fn a_restore_that_outlives_its_proxy_is_put_right() {
    let Some(world) = World::new_or_skip(Variant::Nft) else { return };
    let (begun, end) = (world.path("begun"), world.path("end"));
    let wait =
        format!("n=0; while [ ! -e '{}' -a $n -lt 600 ]; do n=$((n+1)); sleep 0.05; done", end.display());
    let text = format!(
        "if [ ! -e '{0}' ]; then touch '{0}'; {wait}; fi\nexec /usr/sbin/iptables-nft-restore \"$@\"",
        begun.display()
    );
    script(&world.fakes().join("iptables-nft-restore"), &text);
    world.write(&format!("{WEB}{}", crowd(0..5, "n1.1")));
    world.start(&[]);
    eventually("the first restore has begun", || begun.exists());
    world.kill();
    world.write("remove service crowd1\nremove endpoint web n1.1:8080");
    world.start(&[]);
    world.settle();
    std::fs::write(end, "").unwrap();
    eventually("the old restore is noticed", || {
        world.metric("switchyard_rules_repaired_total", "IPv4") >= 1.0
    });
    world.assert_as_fresh();
}

/// Services that are there only to make the work longer.
fn crowd(numbers: std::ops::Range<u16>, endpoint: &str) -> String {
    let one = |n: u16| {
        format!(
            "service crowd{n} cluster.{}:{}/tcp\nendpoint crowd{n} {endpoint}:8080\n",
            n % 200 + 20,
            80 + n / 200
        )
    };
    numbers.map(one).collect()
}

const WEB: &str =
    "service web cluster.1:80/tcp nodeport=30080\nendpoint web n1.1:8080\nendpoint web n2.1:8080\n";

fn kill_after(world: &World, ms: u64) {
    let ended = world.agent(|agent| agent.wait(Duration::from_millis(ms))).unwrap();
    assert!(ended.is_none(), "it ended by itself: {ended:?}");
    world.kill();
}

fn killed_at_any_moment_it_converges_and_no_connection_fails(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    world.write(&format!("{WEB}{}", crowd(0..300, "n1.1")));
    for ms in [30, 150, 400, 900] {
        world.start(&[]);
        kill_after(&world, ms);
    }
    world.start(&[]);
    world.settle();
    let dial = Dial::tcp(at("cluster.1:80", Family::V4)).within(Duration::from_secs(10));
    let mut held = world.pod("n1.9").hold(&dial).unwrap();
    let answer = held.ask();
    assert!(answer.name().is_some(), "{answer:?}");
    let name = answer.name().unwrap_or_default().to_owned();
    while_connecting(&world, || {
        world.kill();
        for (n, ms) in [(0, 40), (1, 200), (2, 500), (3, 1000)] {
            // Some go, some come, some change.
            let gone: String = (n * 40..n * 40 + 40).map(|k| format!("remove service crowd{k}\n")).collect();
            world.write(&format!("{gone}{}", crowd(250 + n * 5..260 + n * 5, "n2.2")));
            world.start(&[]);
            kill_after(&world, ms);
        }
        world.start(&[]);
        world.settle();
        assert_eq!(held.ask().name(), Some(name.as_str()));
    });
    world.assert_as_fresh();
    assert_eq!(held.ask().name(), Some(name.as_str()));
}

fn churn_of_other_services_disturbs_nobody(variant: Variant) {
    let Some(world) = World::running(variant, WEB) else { return };
    while_connecting(&world, || {
        for n in 0..200u16 {
            let k = n % 20;
            let statement = match n / 20 % 4 {
                0 => crowd(k..k + 1, "n1.1"),
                1 => format!("endpoint crowd{k} n2.2:8080"),
                2 => format!("remove endpoint crowd{k} n1.1:8080"),
                _ => format!("remove service crowd{k}"),
            };
            world.write(&statement);
        }
        world.settle();
    });
    world.assert_as_fresh();
}

fn a_restart_without_changes_changes_nothing(variant: Variant) {
    let objects = format!(
        "{WEB}service dns cluster.2:53/udp affinity=60\nendpoint dns n1.1:8080/udp\n\
         service lb cluster.3:80/tcp nodeport=30082 lb=lb.3 ext=ext.3 ranges=client etp=Local\nendpoint lb n1.1:8080\n\
         service none cluster.4:80/tcp nodeport=30083\n"
    );
    let Some(world) = World::running(variant, &objects) else { return };
    let before = world.rules();
    for _ in 0..2 {
        world.agent(|agent| agent.terminate().unwrap());
        let status = world.agent(|agent| agent.wait(PATIENCE)).unwrap();
        assert!(status.is_some_and(|s| s.success()));
        assert_eq!(world.rules(), before, "SIGTERM leaves the rules");
        world.start(&[]);
        eventually("it writes", || {
            world.metric("kubeproxy_sync_proxy_rules_last_timestamp_seconds", "") > 1e9
        });
        eventually("both families", || world.log().matches("full sync done").count() % 2 == 0);
        assert_eq!(world.rules(), before);
    }
}
