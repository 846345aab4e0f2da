//! Which capabilities each mode needs, as `docs/privileges.md` says: with them everything is written, with one less the program ends
//! and names the one that is missing.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::looking::PATIENCE;
use common::variant::Variant;
use switchyard_lab::{Lab, Node, Process};

const OBJECTS: &str = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}}"#;

/// What a mode needs.
fn needed(variant: Variant) -> &'static [&'static str] {
    match variant {
        Variant::Nftables | Variant::Ipvs | Variant::Userspace | Variant::Nft => &["net_admin"],
        Variant::Legacy => &["net_admin", "net_raw"],
    }
}

/// The program on node n1, with these capabilities and no others; it cannot get more.
fn start(lab: &Lab, directory: &Path, variant: Variant, capabilities: &[&str]) -> Process {
    let mut command = Command::new("setpriv");
    let set: String = capabilities.iter().map(|name| format!(",+{name}")).collect();
    command.args([format!("--bounding-set=-all{set}"), "--no-new-privs".to_owned()]);
    command.arg(env!("CARGO_BIN_EXE_switchyard")).arg(variant.flag());
    command.arg("--manifests").arg(directory.join("objects.json")).arg("--hostname-override=n1");
    // The size of the table of connections is the host's; where it differs from what is asked for, only the host's root may set it.
    command.arg("--conntrack-max-per-core=0");
    command.env("XTABLES_LOCKFILE", directory.join("xtables.lock"));
    lab.node(Node::N1).start(&mut command, &directory.join("log")).unwrap()
}

/// Every capability of `needed` is needed, and no other.
fn capabilities_are_those_of_the_documentation(variant: Variant) {
    let Some(lab) = Lab::new_or_skip().filter(|lab| variant.is_usable(lab)) else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("objects.json"), OBJECTS).unwrap();
    let needed = needed(variant);
    let mut agent = start(&lab, directory.path(), variant, needed);
    for family in ["IPv4", "IPv6"] {
        agent.wait_for_log(&format!("full sync done family={family}"), PATIENCE).unwrap();
    }
    agent.terminate().unwrap();
    assert!(agent.wait(PATIENCE).unwrap().is_some_and(|status| status.success()), "{}", agent.log().unwrap());
    for missing in needed {
        let rest: Vec<&str> = needed.iter().filter(|name| *name != missing).copied().collect();
        let mut agent = start(&lab, directory.path(), variant, &rest);
        let status = agent.wait(PATIENCE + Duration::from_secs(5)).unwrap();
        let log = agent.log().unwrap();
        assert!(status.is_some_and(|status| status.code() == Some(1)), "{status:?} {log}");
        let name = format!("CAP_{}", missing.to_uppercase());
        assert!(log.contains(&name), "without {name}: {log}");
    }
}

#[test]
fn ipvs() {
    capabilities_are_those_of_the_documentation(Variant::Ipvs);
}

every_mode!(capabilities_are_those_of_the_documentation);
