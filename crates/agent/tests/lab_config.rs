//! The stock configuration file at work: kubeadm's ConfigMap, the kernel's settings, and what ends the process.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::looking::{HEALTH, METRICS, PATIENCE, eventually, http};
use switchyard_lab::{Host, Lab, Node, Process};
use tempfile::TempDir;

const KUBEADM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kubeadm-config.conf");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

/// A node with a configuration file of its own.
struct Seat {
    directory: TempDir,
    lab: Lab,
}

impl Seat {
    fn new(lab: Lab) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(KUBEADM).unwrap();
        // The limit belongs to the machine, not to the lab; everything else is as kubeadm wrote it.
        let text = text.replace("maxPerCore: null", "maxPerCore: 0");
        fs::write(directory.path().join("config.conf"), text).unwrap();
        Self { directory, lab }
    }

    fn node(&self) -> &Host {
        self.lab.node(Node::N1)
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("config.conf")
    }

    fn edit(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.config()).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(self.config(), text.replace(from, to)).unwrap();
    }

    /// Starts the agent with the file, and with nothing else that the file has a field for.
    fn start(&self, flags: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.env("XTABLES_LOCKFILE", self.directory.path().join("lock"));
        command.arg("--config").arg(self.config()).args(["--manifests", EXAMPLES, "--hostname-override=n1"]);
        self.node().start(command.args(flags), &self.directory.path().join("log")).unwrap()
    }

    fn setting(&self, name: &str) -> String {
        let path = Path::new("/proc/sys/net").join(name);
        self.node().run(|| fs::read_to_string(&path).unwrap().trim().to_owned()).unwrap()
    }

    fn page(&self, server: &str, path: &str) -> String {
        http(self.node(), server, path).unwrap_or_default().1
    }
}

/// A heap profile of a running agent, decompressed; nothing while it does not answer.
fn heap_profile(node: &Host) -> Option<Vec<u8>> {
    let fetch = || -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(METRICS)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /debug/pprof/heap HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = node.run(fetch).unwrap().ok()?;
    let body = answer.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let mut profile = Vec::new();
    flate2::read::GzDecoder::new(answer.get(body..)?).read_to_end(&mut profile).ok()?;
    Some(profile)
}

/// Fails unless it ended with this code; its log.
fn ended(process: &mut Process, code: i32) -> String {
    let status = process.wait(PATIENCE).unwrap();
    let log = process.log().unwrap();
    assert_eq!(status.and_then(|status| status.code()), Some(code), "{log}");
    log
}

#[test]
fn kubeadms_file_runs_a_proxy_until_it_is_edited() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let seat = Seat::new(lab);
    let mut agent = seat.start(&["-v=4"]);
    eventually("it serves", || seat.page(HEALTH, "/livez").contains("\"healthy\":true"));
    eventually("it tells its mode", || seat.page(METRICS, "/proxyMode") == "iptables");
    let configz = seat.page(METRICS, "/configz");
    assert!(configz.contains("\"clusterCIDR\":\"10.244.0.0/16\""), "{configz}");
    assert!(configz.contains("\"hostnameOverride\":\"n1\""), "{configz}");
    let flagz = seat.page(METRICS, "/flagz");
    assert!(flagz.contains("hostname-override") && flagz.contains("conntrack-udp-timeout-stream"), "{flagz}");
    assert_eq!(seat.setting("netfilter/nf_conntrack_tcp_timeout_established"), "86400");
    assert_eq!(seat.setting("netfilter/nf_conntrack_tcp_timeout_close_wait"), "3600");
    assert_eq!(seat.setting("ipv4/conf/all/route_localnet"), "1");
    agent.wait_for_log("full sync done", PATIENCE).unwrap();
    // Half a line: whoever starts it again must judge it, not this process.
    let mut file = fs::OpenOptions::new().append(true).open(seat.config()).unwrap();
    file.write_all(b"mode: [").unwrap();
    let log = ended(&mut agent, 1);
    assert!(log.contains("configuration file was updated"), "{log}");
    let log = ended(&mut seat.start(&[]), 1);
    assert!(log.contains("is neither YAML nor JSON"), "{log}");
}

#[test]
fn with_profiling_the_agent_says_who_has_its_memory() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let seat = Seat::new(lab);
    let has_profile = || heap_profile(seat.node());
    let agent = seat.start(&[]);
    eventually("it serves", || seat.page(METRICS, "/proxyMode") == "iptables");
    assert_eq!(has_profile(), None, "the file says enableProfiling: false");
    drop(agent);
    seat.edit("enableProfiling: false", "enableProfiling: true");
    let _agent = seat.start(&[]);
    // Making a profile takes memory too, so there is something to be seen at the latest after some of them.
    eventually("stacks of ours are in the profile", || {
        let profile = has_profile().unwrap_or_default();
        let has = |text: &[u8]| profile.windows(text.len()).any(|part| part == text);
        has(b"inuse_space") && has(b"switchyard_agent::")
    });
}

#[test]
fn init_only_sets_the_kernel_and_writes_no_rule() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let seat = Seat::new(lab);
    seat.edit("udpTimeout: 0s", "udpTimeout: 33s");
    seat.edit("udpStreamTimeout: 0s", "udpStreamTimeout: 44s");
    seat.edit("tcpBeLiberal: false", "tcpBeLiberal: true");
    ended(&mut seat.start(&["--init-only"]), 0);
    for (name, want) in [
        ("netfilter/nf_conntrack_udp_timeout", "33"),
        ("netfilter/nf_conntrack_udp_timeout_stream", "44"),
        ("netfilter/nf_conntrack_tcp_be_liberal", "1"),
        ("ipv4/conf/all/route_localnet", "1"),
    ] {
        assert_eq!(seat.setting(name), want, "{name}");
    }
    let rules = seat.node().exec_ok("nft", &["list", "ruleset"]).unwrap();
    assert!(!rules.contains("KUBE-SERVICES"), "{rules}");
}

/// In a network namespace the limit of connections can be read and not written.
#[test]
fn a_limit_that_cannot_be_set_matters_only_if_it_is_too_low() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let seat = Seat::new(lab);
    let current: u64 = seat.setting("netfilter/nf_conntrack_max").parse().unwrap();
    seat.edit("maxPerCore: 0", "maxPerCore: 1");
    seat.edit("min: null", "min: 1");
    let log = ended(&mut seat.start(&["--init-only"]), 0);
    assert!(log.contains("cannot be set, but is large enough"), "{log}");
    seat.edit("min: 1", &format!("min: {}", current + 1));
    let log = ended(&mut seat.start(&["--init-only"]), 1);
    for word in ["could not set conntrack parameters", "--conntrack-max-per-core=0", "nf_conntrack_max"] {
        assert!(log.contains(word), "{word}: {log}");
    }
}

#[test]
fn what_is_written_reads_back_to_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("first"), directory.path().join("second"));
    let write = |config: &Path, to: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        command.arg("--config").arg(config).arg("--write-config-to").arg(to);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        fs::read_to_string(to).unwrap()
    };
    let page = write(Path::new(KUBEADM), &first);
    assert_eq!(write(&first, &second), page);
    assert!(
        page.contains("maxPerCore: 32768") && page.contains("healthzBindAddress: 0.0.0.0:10256"),
        "{page}"
    );
}
