//! Sources, programs and locks that are not there or not usable.

use std::process::Command;
use std::time::{Duration, Instant};

use switchyard_lab::Process;
use switchyard_lab::Transport::Tcp;

use crate::common::looking::{PATIENCE, eventually, script};
use crate::common::variant::Variant;
use crate::common::world::World;

both_modes![
    missing_manifests_are_waited_for_and_nothing_is_written,
    an_api_server_that_is_down_is_waited_for_and_nothing_is_written,
    rules_of_an_earlier_run_stay_while_the_api_server_is_down,
];

const GOOD: &str = "service good cluster.1:80/tcp nodeport=30080\nendpoint good n1.1:8080";

/// Runs to the end, which must be a failure; what was said.
fn fails(world: &World, command: &mut Command) -> String {
    world.launch(world.n1(), command);
    let status = world.agent(|agent| agent.wait(PATIENCE)).unwrap();
    assert_eq!(status.and_then(|s| s.code()), Some(1), "{}", world.log());
    world.log()
}

fn assert_no_rules(world: &World) {
    assert!(!world.has_rules(), "{}", world.rules());
}

fn missing_manifests_are_waited_for_and_nothing_is_written(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    std::fs::remove_dir(world.manifests()).unwrap();
    world.start(&[]);
    world.wait_for_log("cannot be read");
    assert!(world.log().contains("nothing is proxied"));
    eventually("it lives", || world.health("/livez").0 == 200);
    assert_no_rules(&world);
    std::fs::create_dir(world.manifests()).unwrap();
    world.write(GOOD);
    world.settle();
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    // When it vanishes again, what it held stays in use.
    std::fs::rename(world.manifests(), world.path("elsewhere")).unwrap();
    world.wait_for_log("what it held before stays in use");
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
    )
}

fn with_kubeconfig(world: &World) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    command.arg("--kubeconfig").arg(world.path("kubeconfig")).args(world.flags());
    world.environment(&mut command);
    command
}

fn an_api_server_that_is_down_is_waited_for_and_nothing_is_written(variant: Variant) {
    let Some(world) = World::new_or_skip(variant) else { return };
    std::fs::write(world.path("kubeconfig"), kubeconfig("https://127.0.0.1:1")).unwrap();
    world.launch(world.n1(), &mut with_kubeconfig(&world));
    world.wait_for_log("API server: connection refused");
    assert!(world.log().contains("https://127.0.0.1:1"));
    eventually("it lives", || world.health("/livez").0 == 200);
    // Long enough for several attempts.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        assert_eq!(world.log().matches("connection refused").count(), 1, "said once: {}", world.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(world.agent(|agent| agent.exit_status()).unwrap(), None);
    assert_no_rules(&world);
}

fn rules_of_an_earlier_run_stay_while_the_api_server_is_down(variant: Variant) {
    let Some(world) = World::running(variant, GOOD) else { return };
    let before = world.rules();
    world.kill();
    std::fs::write(world.path("kubeconfig"), kubeconfig("https://127.0.0.1:1")).unwrap();
    world.launch(world.n1(), &mut with_kubeconfig(&world));
    world.wait_for_log("API server: connection refused");
    assert_eq!(world.rules(), before);
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
}

#[test]
fn a_kubeconfig_that_cannot_be_used_ends_it() {
    let Some(world) = World::new_or_skip(Variant::Nft) else { return };
    let said = fails(&world, &mut with_kubeconfig(&world));
    assert!(said.contains("kubeconfig cannot be used") && said.contains("No such file"), "{said}");
    std::fs::write(world.path("kubeconfig"), "clusters: {").unwrap();
    let said = fails(&world, &mut with_kubeconfig(&world));
    assert!(said.contains("kubeconfig cannot be used; check the file"), "{said}");
    assert_no_rules(&world);
}

#[test]
fn missing_iptables_ends_it() {
    let Some(world) = World::new_or_skip(Variant::Nft) else { return };
    let empty = world.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let hidden = world.path("hidden");
    script(
        &hidden,
        &format!(
            "mount --bind '{}' /usr/sbin && exec '{}' --manifests / --hostname-override=n1",
            empty.display(),
            env!("CARGO_BIN_EXE_switchyard")
        ),
    );
    let said = fails(&world, Command::new("unshare").arg("-m").arg(hidden));
    assert!(
        said.contains("iptables not found in") && said.contains("install the iptables package"),
        "{said}"
    );
}

/// Another program that holds the lock, called flock.
fn hold_lock(world: &World) -> Process {
    let mut command = Command::new("flock");
    command.arg("--close").arg(world.lock_file()).args(["sh", "-c", "echo held; sleep 60"]);
    let mut holder = world.n1().start(&mut command, &world.path("flock.log")).unwrap();
    holder.wait_for_log("held", PATIENCE).unwrap();
    holder
}

#[test]
fn a_lock_that_is_held_at_the_start_is_waited_for() {
    let Some(world) = World::new_or_skip(Variant::Legacy) else { return };
    let mut holder = hold_lock(&world);
    world.write(GOOD);
    world.start(&[]);
    world.wait_for_log(&format!("flock (pid {})", holder.id()));
    assert!(world.log().contains("waiting for the xtables lock"));
    holder.kill().unwrap();
    world.settle();
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
}

#[test]
fn cleanup_fails_if_a_lock_keeps_it_from_looking() {
    let Some(world) = World::running(Variant::Legacy, GOOD) else { return };
    world.kill();
    let holder = hold_lock(&world);
    let said = fails(&world, &mut world.command(&["--cleanup"]));
    assert!(said.contains(&format!("flock (pid {})", holder.id())), "{said}");
    drop(holder);
    world.launch(world.n1(), &mut world.command(&["--cleanup"]));
    let status = world.agent(|agent| agent.wait(PATIENCE)).unwrap();
    assert!(status.is_some_and(|s| s.success()), "{}", world.log());
    let rules = world.rules();
    assert!(!rules.contains("KUBE-SERVICES"), "{rules}");
}

#[test]
fn a_lock_that_another_program_holds_is_told_and_waited_out() {
    let Some(world) = World::new_or_skip(Variant::Legacy) else { return };
    world.write(GOOD);
    world.start(&["--iptables-sync-period=1s"]);
    world.settle();
    let mut holder = hold_lock(&world);
    world.write("service more cluster.2:80/tcp\nendpoint more n1.1:8080");
    let name = format!("flock (pid {})", holder.id());
    world.wait_for_log(&name);
    assert!(world.log().contains("xtables lock"));
    eventually("health tells", || {
        let (_, body) = world.health("/healthz");
        body.contains("lastError") && body.contains(&name)
    });
    // The rules from before are in force.
    world.wait_for_answer("client", Tcp, "n1:30080", &["n1.1"]);
    holder.kill().unwrap();
    world.wait_for_answer("n1.9", Tcp, "cluster.2:80", &["n1.1"]);
    eventually("health is well", || !world.health("/healthz").1.contains("lastError"));
}
