//! `iptables-restore` fails: one bad Service is set aside, trouble for all is waited out.

use switchyard_lab::Transport::Tcp;

use crate::common::looking::eventually;
use crate::common::variant::Variant;
use crate::common::world::World;

iptables_only![
    a_service_that_is_refused_by_line_is_set_aside,
    a_service_that_is_refused_without_a_line_is_found,
    a_service_that_is_refused_later_is_set_aside_and_the_old_one_kept,
    trouble_for_all_is_waited_out_and_nobody_is_blamed,
];

const QUARANTINED: &str = "switchyard_quarantined_objects";
const PORT: &str = "kind=\"ServicePort\"";

/// Seven good Services and one with the cluster IP 10.96.0.66.
fn objects() -> String {
    let good: String = (1..=7)
        .map(|n| format!("service good{n} cluster.{n}:80/tcp\nendpoint good{n} n1.1:8080\n"))
        .collect();
    format!("{good}service bad cluster.66:80/tcp\nendpoint bad n1.1:8080\n")
}

/// Refuses whatever mentions the bad Service's address, with this message for line `$line`.
fn refuse_bad(world: &World, message: &str) {
    world.fake_restore(&format!(
        "line=$(grep -n -e '-d 10.96.0.66 ' /proc/self/fd/0 | head -n 1 | cut -d: -f1)\n\
             if [ -n \"$line\" ]; then echo \"{message}\" >&2; exit 1; fi\n\
             exec \"$REAL\" \"$@\""
    ));
}

fn bad_is_set_aside(variant: Variant, message: &str) {
    let Some(world) = World::new_or_skip(variant) else { return };
    refuse_bad(&world, message);
    world.write(&objects());
    world.start(&["--iptables-sync-period=1s"]);
    world.settle();
    for n in 1..=7 {
        world.wait_for_answer("n1.9", Tcp, &format!("cluster.{n}:80"), &["n1.1"]);
    }
    eventually("it is counted", || world.metric(QUARANTINED, PORT) == 1.0);
    let log = world.log();
    let told: Vec<&str> = log.lines().filter(|l| l.contains("refuses a service port")).collect();
    assert!(matches!(told[..], [line] if line.contains("WARN") && line.contains("default/bad")), "{told:?}");
    let rules = world.rules();
    assert!(!rules.contains("10.96.0.66/32") && !rules.contains("PROBE"), "{rules}");
    // Changes of others do not wait for it.
    world.write("service good8 cluster.8:80/tcp\nendpoint good8 n1.1:8080");
    world.wait_for_answer("n1.9", Tcp, "cluster.8:80", &["n1.1"]);
    // When the object changes, it is tried again.
    world.write("service bad cluster.67:80/tcp");
    world.wait_for_answer("n1.9", Tcp, "cluster.67:80", &["n1.1"]);
    eventually("nothing is set aside", || world.metric(QUARANTINED, PORT) == 0.0);
    world.assert_as_fresh();
}

fn a_service_that_is_refused_by_line_is_set_aside(variant: Variant) {
    bad_is_set_aside(variant, "iptables-restore: line $line failed");
}

fn a_service_that_is_refused_without_a_line_is_found(variant: Variant) {
    bad_is_set_aside(variant, "iptables-restore: something is wrong");
}

/// While it runs, a change of one Service is refused: what it had before stays in force.
fn a_service_that_is_refused_later_is_set_aside_and_the_old_one_kept(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    refuse_bad(&world, "iptables-restore: line $line failed");
    world.write("service web cluster.1:80/tcp\nendpoint web n1.1:8080\nservice other cluster.2:80/tcp\nendpoint other n1.1:8080");
    world.start(&[]);
    world.settle();
    world.write("service web cluster.66:80/tcp\nendpoint other n2.1:8080\nremove endpoint other n1.1:8080");
    world.wait_for_answer("n1.9", Tcp, "cluster.2:80", &["n2.1"]);
    eventually("it is counted", || world.metric(QUARANTINED, PORT) == 1.0);
    let answer = world.ask("n1.9", Tcp, "cluster.1:80", switchyard_model::Family::V4);
    assert_eq!(answer.name(), Some("pod-1-1"), "the last good rules stay");
    world.write("service web cluster.3:80/tcp");
    world.wait_for_answer("n1.9", Tcp, "cluster.3:80", &["n1.1"]);
    world.settle();
    assert_eq!(world.metric(QUARANTINED, PORT), 0.0);
    world.assert_as_fresh();
}

fn trouble_for_all_is_waited_out_and_nobody_is_blamed(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    let broken = world.path("broken");
    std::fs::write(&broken, "").unwrap();
    world.fake_restore(&format!(
        "if [ -e '{}' ]; then echo 'cannot do it today' >&2; exit 1; fi\nexec \"$REAL\" \"$@\"",
        broken.display()
    ));
    world.write(&objects());
    world.start(&["--iptables-sync-period=1s"]);
    eventually("it is told", || world.health("/healthz").1.contains("cannot do it today"));
    let failures = "kubeproxy_sync_proxy_rules_iptables_restore_failures_total";
    eventually("it is tried again", || world.metric(failures, "") >= 4.0);
    assert!(world.health("/healthz").1.contains("lastError"));
    assert_eq!(world.metric(QUARANTINED, PORT), 0.0, "{}", world.log());
    assert_eq!(world.log().matches("sync failed").count(), 1, "said once");
    std::fs::remove_file(&broken).unwrap();
    for n in ["1", "66"] {
        world.wait_for_answer("n1.9", Tcp, &format!("cluster.{n}:80"), &["n1.1"]);
    }
    eventually("it is told", || !world.health("/healthz").1.contains("lastError"));
    world.wait_for_log("sync works again");
    world.settle();
    world.assert_as_fresh();
}
