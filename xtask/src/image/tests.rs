//! Images are unpacked by `tar`, followed from document to document, and run on a node of the lab.

mod container;
mod pod;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use switchyard_lab::{Lab, Node, Process};
use tempfile::TempDir;

use self::container::{Allowed, Container};
use super::*;
use crate::vm::tool;

const PATIENCE: Duration = Duration::from_secs(60);

const OBJECTS: &str = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
    "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}}"#;

fn unpack(archive: &[u8]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("archive"), archive).unwrap();
    let mut tar = tool::command("tar");
    tool::output(tar.arg("-C").arg(place.path()).arg("-xf").arg(place.path().join("archive"))).unwrap();
    place
}

/// A blob that a descriptor leads to, if it is what the descriptor says.
fn follow(place: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap();
    let bytes = fs::read(place.join("blobs").join(digest.replace(':', "/"))).unwrap();
    assert_eq!(oci::digest(&bytes), digest);
    assert_eq!(descriptor["size"].as_u64(), u64::try_from(bytes.len()).ok());
    bytes
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// The root that a container of the image has.
fn root_of(image: &Image) -> TempDir {
    let place = unpack(&image.archive);
    let index = json(&fs::read(place.path().join("index.json")).unwrap());
    assert_eq!(index["manifests"][0]["digest"], image.digest);
    let manifest = json(&follow(place.path(), &index["manifests"][0]));
    let config = json(&follow(place.path(), &manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], PROGRAM);
    let layer = follow(place.path(), &manifest["layers"][0]);
    assert_eq!(config["rootfs"]["diff_ids"][0], oci::digest(&layer));
    let older = json(&fs::read(place.path().join("manifest.json")).unwrap());
    assert!(place.path().join(older[0]["Layers"][0].as_str().unwrap()).is_file());
    unpack(&layer)
}

/// The agent as `cargo test --workspace` builds it beside this test.
fn agent() -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let built = own.parent()?.parent()?.join("switchyard");
    built.is_file().then_some(built)
}

/// Any program that is linked to something.
fn some_program() -> PathBuf {
    tool::find("tar").unwrap()
}

#[test]
fn digests_are_sha256() {
    assert_eq!(oci::digest(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

#[test]
fn the_same_files_give_the_same_bytes_and_nothing_more() {
    let again = || make(&some_program(), Variant::Plain).unwrap();
    let image = again();
    assert_eq!(image.digest, again().digest);
    let root = root_of(&image);
    let inside = |path: &str| root.path().join(path);
    assert_eq!(fs::read(inside("usr/local/bin/kube-proxy")).unwrap(), fs::read(some_program()).unwrap());
    let programs: Vec<_> = ["usr/bin", "usr/sbin"].iter().flat_map(|dir| fs::read_dir(inside(dir))).collect();
    assert!(programs.into_iter().flatten().next().is_none(), "there is neither a shell nor anything else");
    for library in tool::libraries(&some_program()).unwrap() {
        assert!(inside(library.strip_prefix("/").unwrap().to_str().unwrap()).is_file(), "{library:?}");
    }
}

/// No shell, no package manager: whoever gets in finds the programs of iptables, and nothing else to run.
#[test]
fn the_variant_with_iptables_has_no_other_program() {
    if tool::find("iptables-nft").is_none() {
        assert_ne!(std::env::var("LAB").as_deref(), Ok("require"), "install iptables");
        println!("SKIPPED: no iptables to put into an image");
        return;
    }
    let tree = content(&some_program(), Variant::Iptables).unwrap();
    let mut known: Vec<String> = iptables().map(|name| format!("usr/sbin/{name}")).collect();
    known.extend(["nft", "legacy"].map(|backend| format!("usr/sbin/xtables-{backend}-multi")));
    known.extend([PROGRAM, ALIAS].map(|path| path.trim_start_matches('/').to_owned()));
    let is_library = |path: &str| path.starts_with("usr/lib") && path.contains(".so");
    let others = tree.entries().filter(|(path, entry)| {
        let is_known = known.iter().any(|name| name == path) || is_library(path);
        !is_known && matches!(entry, tree::Entry::File(_))
    });
    assert_eq!(others.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn long_paths_are_kept_in_two_parts() {
    let mut tree = Tree::default();
    let path = format!("/{}/{}", "a".repeat(90), "b".repeat(80));
    tree.link(&path, "x");
    let root = unpack(&tar::pack(&tree).unwrap());
    assert_eq!(fs::read_link(root.path().join(path.trim_start_matches('/'))).unwrap(), Path::new("x"));
}

#[test]
fn arguments_are_checked() {
    let text = |arguments: &[&str]| Options::parse(arguments).unwrap_err().to_string();
    assert!(text(&["--variant", "alpine"]).contains("no variant alpine"));
    assert!(text(&["--out"]).contains("--out needs a value"));
    assert!(text(&["now"]).contains("unknown argument now"));
}

/// The agent, or why no image can be made of it.
fn agent_or_skip() -> Option<PathBuf> {
    let found = agent();
    if found.is_none() {
        let reason = "no agent to put into an image; cargo build -p switchyard";
        assert_ne!(std::env::var("LAB").as_deref(), Ok("require"), "{reason}");
        println!("SKIPPED: {reason}");
    }
    found
}

fn await_sync(process: &mut Process) {
    for family in ["IPv4", "IPv6"] {
        process.wait_for_log(&format!("full sync done family={family}"), PATIENCE).unwrap();
    }
}

fn assert_ends_well(process: &mut Process) {
    process.terminate().unwrap();
    let status = process.wait(PATIENCE).unwrap();
    assert!(status.is_some_and(|status| status.success()), "{}", process.log().unwrap());
}

/// The image of a variant does a full sync in a mode, as root with these capabilities alone.
fn runs_in_a_node(variant: Variant, flags: &[&str], capabilities: &'static str) {
    let Some(lab) = Lab::new_or_skip() else { return };
    run(&lab, variant, flags, capabilities, || {});
}

/// The same on a node that has something already; then `check`, while it runs.
fn run(lab: &Lab, variant: Variant, flags: &[&str], capabilities: &'static str, check: impl FnOnce()) {
    let Some(agent) = agent_or_skip() else { return };
    let container = Container::of(&make(&agent, variant).unwrap());
    container.put("/etc/objects.json", OBJECTS);
    // Nothing has prepared the kernel: pod.rs does that.
    let mut command = vec![ALIAS, "--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"];
    command.extend(["--conntrack-tcp-timeout-close-wait=0s", "--iptables-localhost-nodeports=false"]);
    command.extend(["--manifests=/etc/objects.json", "--hostname-override=n1"]);
    command.extend(flags);
    let mut process = container.start(lab.node(Node::N1), Allowed::Only(capabilities), &command);
    await_sync(&mut process);
    assert!(container.path("/run/switchyard/admin.sock").exists(), "{}", process.log().unwrap());
    check();
    assert_ends_well(&mut process);
}

#[test]
fn the_image_syncs_with_one_capability() {
    runs_in_a_node(Variant::Plain, &["--proxy-mode=nftables"], ",+net_admin");
}

#[test]
fn the_image_syncs_in_userspace_mode() {
    runs_in_a_node(Variant::Plain, &["--proxy-mode=userspace"], ",+net_admin");
}

#[test]
fn the_image_with_iptables_syncs_in_iptables_mode() {
    runs_in_a_node(Variant::Iptables, &["--proxy-mode=iptables", "--iptables-backend=nft"], ",+net_admin");
}

/// Some of what kube-proxy leaves in iptables mode, in its own words, and a chain of somebody else.
const LEFT: &str = r#"*nat
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SVC-LOLE4ISW44XBNF3G - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:OTHERS - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j OTHERS
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-SERVICES -p tcp --dport 80 -j KUBE-SVC-LOLE4ISW44XBNF3G
-A KUBE-SVC-LOLE4ISW44XBNF3G -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-SERVICES - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
"#;

/// The image that the documentation names for the way from kube-proxy's iptables mode to our nftables mode.
fn takes_over_from_iptables(backend: &str, capabilities: &'static str) {
    let Some(lab) = Lab::new_or_skip() else { return };
    let node = lab.node(Node::N1);
    let tools = ["iptables", "ip6tables"].map(|tool| format!("{tool}-{backend}"));
    for tool in &tools {
        let restored = node.feed(&format!("{tool}-restore"), &["--noflush"], LEFT.as_bytes()).unwrap();
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    }
    let saved = || tools.each_ref().map(|tool| node.exec_ok::<&str>(&format!("{tool}-save"), &[]).unwrap());
    run(&lab, Variant::Iptables, &["--proxy-mode=nftables"], capabilities, || {
        let end = Instant::now() + PATIENCE;
        while saved().iter().any(|rules| rules.contains("KUBE-")) {
            assert!(Instant::now() < end, "what kube-proxy left is still there: {:?}", saved());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(saved().iter().all(|rules| rules.contains("-A PREROUTING -j OTHERS")), "{:?}", saved());
        node.exec_ok("nft", &["list", "table", "ip", "switchyard"]).unwrap();
    });
}

#[test]
fn the_image_takes_over_from_iptables_nft() {
    takes_over_from_iptables("nft", ",+net_admin");
}

#[test]
fn the_image_takes_over_from_iptables_legacy() {
    takes_over_from_iptables("legacy", ",+net_admin,+net_raw");
}
