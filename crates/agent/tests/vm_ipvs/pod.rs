//! ipvs mode as `deploy/switchyard.yaml` runs a mode: an init container that may do everything, and then a program that may do little.

use std::process::Command;

use switchyard_lab::Transport;

use super::common::looking::{PATIENCE, eventually, is_idle};
use super::common::variant::Variant;
use super::common::world::World;
use super::{WEB, services, stop};

/// A shell script: its first argument stays writable; the rest is the command. A shell of busybox would take its own `setpriv`, which can less.
const CONFINED: &str = r#"
set -e
own=$1
shift
mount --bind "$own" "$own"
mount --bind /proc/sys /proc/sys
for place in /proc/sys /sys /; do mount -o remount,bind,ro "$place"; done
exec /usr/bin/setpriv --bounding-set=-all,+net_admin --no-new-privs "$@"
"#;

/// In `/proc/PID/status`: the bit of `CAP_NET_ADMIN`, which is 12.
const ONLY_NET_ADMIN: &str = "CapEff:\t0000000000001000";

/// The pod's configuration in ipvs mode. How many connections are tracked is the machine's, not the lab's.
fn configuration() -> String {
    let text = include_str!("../../../../deploy/switchyard.yaml");
    let (_, rest) = text.split_once("  config.conf: |\n").unwrap();
    let (block, _) = rest.split_once("---\n").unwrap();
    let lines: String = block.lines().map(|line| format!("{}\n", line.trim_start())).collect();
    lines.replace("mode: nftables", "mode: ipvs") + "conntrack: {maxPerCore: 0}\n"
}

/// The other container as the manifest has it; this test would be of no use with more.
fn assert_little_is_allowed() {
    let text = include_str!("../../../../deploy/switchyard.yaml");
    for line in
        ["readOnlyRootFilesystem: true", "drop: [ALL]", "add: [NET_ADMIN]", "allowPrivilegeEscalation: false"]
    {
        assert!(text.lines().any(|found| found.trim() == line), "{line}");
    }
}

/// Runs the program with the pod's arguments and these; confined after these words.
fn launch(world: &World, before: &[&str], more: &[&str]) {
    let config = format!("--config={}", world.path("config.conf").display());
    let program = [env!("CARGO_BIN_EXE_switchyard"), &config, "--hostname-override=n1"];
    let words = [before, &program, more].concat();
    let (first, rest) = words.split_first().unwrap();
    let mut command = Command::new(first);
    command.args(rest);
    world.environment(&mut command);
    world.launch(world.n1(), &mut command);
}

/// How it ended.
fn ended_well(world: &World) -> bool {
    world.agent(|agent| agent.wait(PATIENCE)).unwrap().unwrap().success()
}

#[test]
fn the_pod_prepares_the_kernel_and_serves() {
    let Some(world) = World::new_or_skip(Variant::Ipvs) else { return };
    assert_little_is_allowed();
    world.write(WEB);
    std::fs::write(world.path("config.conf"), configuration()).unwrap();
    let own = world.path("").display().to_string();
    let confined = ["unshare", "--mount", "--", "sh", "-c", CONFINED, "pod", &own];
    let socket = world.path("admin.sock");
    let manifests = format!("--manifests={}", world.manifests().display());
    let admin = format!("--admin-socket={}", socket.display());
    let source = [manifests.as_str(), &admin];

    launch(&world, &confined, &source);
    assert!(!ended_well(&world));
    assert!(world.log().contains("no permission for /proc/sys/net/"), "{}", world.log());

    launch(&world, &[], &["--init-only"]);
    assert!(ended_well(&world), "{}", world.log());

    launch(&world, &confined, &source);
    world.settle();
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", world.agent(|agent| agent.id()))).unwrap();
    assert!(status.contains(ONLY_NET_ADMIN) && status.contains("NoNewPrivs:\t1"), "{status}");
    for (from, to) in [("n1.9", "cluster.1:80"), ("client", "n1:30080")] {
        world.wait_for_answer(from, Transport::Tcp, to, &["n1.1", "n2.1"]);
    }
    assert!(socket.exists(), "{}", world.log());
    world.write("then it goes\nremove endpoint web n1.1:8080");
    world.settle();
    world.wait_for_answer("n1.9", Transport::Tcp, "cluster.1:80", &["n2.1"]);
    eventually("all is written", || is_idle(world.n1()));
    assert!(!services(&world).is_empty());
    stop(&world);
}
