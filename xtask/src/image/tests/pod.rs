//! The pods of `deploy/switchyard.yaml` as a kubelet would start them: the init container, then the other, with the ConfigMap as it is.

use std::fs;

use switchyard_lab::{Lab, Node};

use super::container::{Allowed, Container};
use super::{OBJECTS, PATIENCE, agent_or_skip, assert_ends_well, await_sync};
use crate::image::{PROGRAM, Variant, make};
use crate::repository;

const NODE: [&str; 2] = ["$(NODE_NAME)", "n1"];

/// The files and commands of the manifest.
struct Pod {
    configuration: String,
    /// Of the init container, and of the other.
    arguments: [Vec<String>; 2],
}

impl Pod {
    fn read() -> Self {
        let file = repository::root().unwrap().join("deploy/switchyard.yaml");
        let text = fs::read_to_string(file).unwrap();
        let (_, rest) = text.split_once("  config.conf: |\n").unwrap();
        let (block, _) = rest.split_once("---\n").unwrap();
        let configuration = block.lines().map(|line| format!("{}\n", line.trim_start())).collect();
        let lists = text.lines().filter_map(|line| line.trim().strip_prefix("args: [")?.strip_suffix(']'));
        let words = |list: &str| list.split(", ").map(|word| word.replace(NODE[0], NODE[1])).collect();
        let lists: Vec<Vec<String>> = lists.map(words).collect();
        Self { configuration, arguments: lists.try_into().unwrap() }
    }
}

/// How many connections this kernel tracks at most; a network namespace of its own cannot change that.
fn limit() -> u64 {
    let text = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max").unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// As much as the shipped configuration asks for, by kube-proxy's defaults.
fn has_limit_of_the_configuration() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = (32_768 * u64::try_from(cpus).unwrap()).max(131_072);
    if limit() >= wanted {
        return true;
    }
    let reason = format!(
        "this kernel tracks {} connections, the shipped configuration asks for {wanted}, and a namespace cannot raise that",
        limit()
    );
    assert_ne!(std::env::var("LAB").as_deref(), Ok("require"), "{reason}");
    println!("SKIPPED: {reason}");
    false
}

/// `prepare` may write kernel settings, the other container may not, and needs not.
fn prepares_and_syncs(variant: Variant, mode: &str, capabilities: &'static str) {
    let (Some(lab), Some(agent)) = (Lab::new_or_skip(), agent_or_skip()) else { return };
    if !has_limit_of_the_configuration() {
        return;
    }
    let pod = Pod::read();
    let node = lab.node(Node::N1);
    let container = Container::of(&make(&agent, variant).unwrap());
    container.put("/etc/switchyard/config.conf", &pod.configuration.replace("mode: nftables", mode));
    container.put("/etc/switchyard/objects.json", OBJECTS);
    let start = |allowed, arguments: &[String], more: &[&str]| {
        let words = arguments.iter().map(String::as_str).chain(more.iter().copied());
        container.start(node, allowed, &[PROGRAM].into_iter().chain(words).collect::<Vec<_>>())
    };
    // In place of an API server.
    let source = ["--manifests=/etc/switchyard/objects.json"];
    let [prepare, run] = &pod.arguments;

    let mut early = start(Allowed::Only(capabilities), run, &source);
    assert!(early.wait(PATIENCE).unwrap().is_some_and(|status| !status.success()));
    assert!(early.log().unwrap().contains("/proc/sys/net/"), "{}", early.log().unwrap());

    let mut prepare = start(Allowed::Everything, prepare, &[]);
    let status = prepare.wait(PATIENCE).unwrap();
    assert!(status.is_some_and(|status| status.success()), "{}", prepare.log().unwrap());
    let setting = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";
    assert_eq!(node.exec_ok("cat", &[setting]).unwrap().trim(), "86400", "kube-proxy's default");

    let mut process = start(Allowed::Only(capabilities), run, &source);
    await_sync(&mut process);
    assert!(container.path("/run/switchyard/admin.sock").exists(), "{}", process.log().unwrap());
    assert_ends_well(&mut process);
}

#[test]
fn the_pod_prepares_the_kernel_and_syncs() {
    prepares_and_syncs(Variant::Plain, "mode: nftables", ",+net_admin");
}

/// What the migration page recommends at first.
#[test]
fn the_pod_prepares_the_kernel_and_syncs_in_iptables_mode() {
    prepares_and_syncs(Variant::Iptables, "mode: iptables", ",+net_admin");
}

#[test]
fn the_pod_prepares_the_kernel_and_syncs_in_userspace_mode() {
    prepares_and_syncs(Variant::Plain, "mode: userspace", ",+net_admin");
}
