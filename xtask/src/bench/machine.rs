//! What the figures were measured on.

use std::fs;
use std::process::Command;

use serde::Serialize;

/// Machine, kernel and versions. What cannot be found out is said to be unknown: it is no reason to stop.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    cpu: String,
    cores: usize,
    memory: String,
    kernel: String,
    iptables: String,
    rustc: String,
    switchyard: String,
    /// Others may use the machine: load average over one minute, before and after.
    load: Vec<String>,
}

impl Machine {
    pub(super) fn here() -> Self {
        let mut machine = Self {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(0, Into::into),
            memory: field("/proc/meminfo", "MemTotal"),
            kernel: file("/proc/sys/kernel/osrelease"),
            iptables: output("iptables-nft", &["--version"]),
            rustc: output("rustc", &["--version"]),
            switchyard: format!("commit {}", output("git", &["describe", "--always", "--dirty"])),
            load: Vec::new(),
        };
        machine.note_load();
        machine
    }

    pub(super) fn note_load(&mut self) {
        let load = file("/proc/loadavg");
        self.load.push(load.split_whitespace().next().unwrap_or("unknown").to_owned());
    }

    /// Name and value of each fact.
    pub(super) fn rows(&self) -> [(&'static str, String); 7] {
        [
            ("processor", format!("{}, {} cores", self.cpu, self.cores)),
            ("memory", self.memory.clone()),
            ("kernel", format!("Linux {}", self.kernel)),
            ("iptables", self.iptables.clone()),
            ("compiler", self.rustc.clone()),
            ("switchyard", self.switchyard.clone()),
            ("load average before and after", self.load.join(", ")),
        ]
    }
}

/// The version of a package of Debian.
pub(super) fn package(name: &str) -> String {
    output("dpkg-query", &["--show", "--showformat=${Package} ${Version}", name])
}

const UNKNOWN: &str = "unknown";

fn file(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| UNKNOWN.to_owned(), |text| text.trim().to_owned())
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
