//! Nothing stays behind. Alone in its binary: it counts what the whole process holds.

#![expect(clippy::unwrap_used, reason = "a failed look at the process is a failed test")]

use std::collections::BTreeSet;

use switchyard_lab::{Dial, Family, Lab, Node};
use switchyard_netlink::route::Routes;

/// Network namespaces that threads or descriptors of this process hold, links and named namespaces of the machine.
fn holdings() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for thread in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        if let Ok(target) = std::fs::read_link(thread.path().join("ns/net")) {
            found.insert(target.to_string_lossy().into_owned());
        }
    }
    for fd in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        if let Ok(target) = std::fs::read_link(fd.path()) {
            let target = target.to_string_lossy().into_owned();
            if target.starts_with("net:") || target.starts_with("socket:") || target.starts_with("/proc") {
                found.insert(if target.starts_with("/proc") { "proc".to_owned() } else { target });
            }
        }
    }
    for link in Routes::open().unwrap().links().unwrap() {
        found.insert(format!("link {}", link.name));
    }
    for named in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        found.insert(format!("{:?}", named.path()));
    }
    found
}

#[test]
fn dropping_the_lab_leaves_no_namespace_no_link_and_no_thread() {
    let before = holdings();
    {
        let Some(lab) = Lab::new_or_skip() else { return };
        let pod = lab.add_pod(Node::N1, 0).unwrap();
        let echo = pod.echo_tcp(8080).unwrap();
        let dial = Dial::tcp((pod.ip(Family::V4), echo.port()).into());
        let mut held = lab.client().hold(&dial).unwrap();
        assert!(held.ask().name().is_some());
        assert!(holdings().len() > before.len());
    }
    assert_eq!(holdings(), before);
}
