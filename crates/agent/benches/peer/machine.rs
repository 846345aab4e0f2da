//! What the figures were measured on and with. What cannot be found out is said to be unknown.

use std::process::Command;

/// How to get them.
pub(crate) const COMMAND: &str = "make bench-peer";

const UNKNOWN: &str = "unknown";
const MODULE: &str = include_str!("../../../../e2e/go.mod");
const NEXT_MODULE: &str = include_str!("../../../../e2e/kube-proxy-next/go.mod");

/// Name and value of each fact.
pub(crate) fn rows() -> [(&'static str, String); 8] {
    let cores = std::thread::available_parallelism().map_or(0, Into::into);
    [
        ("processor", format!("{}, {cores} cores", field("/proc/cpuinfo", "model name"))),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", format!("Linux {}", file("/proc/sys/kernel/osrelease"))),
        ("iptables", output("iptables-nft", &["--version"])),
        ("nft", output("nft", &["--version"])),
        ("kube-apiserver, kube-proxy 1.36", version(MODULE)),
        ("kube-proxy 1.37", version(NEXT_MODULE)),
        ("compiler", output("rustc", &["--version"])),
    ]
}

/// Commit of Switchyard, and day.
pub(crate) fn moment() -> String {
    let commit = output("git", &["describe", "--always", "--dirty"]);
    format!("{commit}, {}", output("date", &["-u", "+%Y-%m-%d"]))
}

fn version(module: &str) -> String {
    let line = module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    line.unwrap_or(UNKNOWN).to_owned()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
}

fn field(path: &str, name: &str) -> String {
    let text = file(path);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    line.unwrap_or(UNKNOWN).trim().to_owned()
}

fn output(program: &str, arguments: &[&str]) -> String {
    let found = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
    found.map_or_else(|| UNKNOWN.to_owned(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}
