//! What the figures were measured on and with, and what else the machine does. What cannot be found out is said to be unknown.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::kind::{Kind, Program};

const UNKNOWN: &str = "unknown";
const MODULE: &str = include_str!("../../../../e2e/go.mod");
const NEXT_MODULE: &str = include_str!("../../../../e2e/kube-proxy-next/go.mod");

/// How much of its sum names a build.
const BUILD_DIGITS: usize = 16;

/// A machine is idle if others used less than this part of its processors for [`LOOK`].
const IDLE: f64 = 0.05;
const LOOK: Duration = Duration::from_millis(500);

/// It is not waited for longer than this: what it does then is noted.
const PATIENCE: Duration = Duration::from_secs(60);

/// Name and value of each fact.
pub(crate) fn facts() -> BTreeMap<String, String> {
    let cores = std::thread::available_parallelism().map_or(0, Into::into);
    let next = Kind::of(Program::Next).is_some_and(|kind| kind.program_or_skip().is_some());
    let facts = [
        ("processor", format!("{}, {cores} cores", field("/proc/cpuinfo", "model name"))),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", format!("Linux {}", file("/proc/sys/kernel/osrelease"))),
        ("iptables", output("iptables-nft", &["--version"])),
        ("nft", output("nft", &["--version"])),
        ("kube-apiserver, kube-proxy 1.36", version(MODULE)),
        ("kube-proxy 1.37", if next { version(NEXT_MODULE) } else { "not built".to_owned() }),
        ("compiler", output("rustc", &["--version"])),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How to measure the same again.
pub(crate) fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if arguments.is_empty() {
        return "make bench-peer".to_owned();
    }
    format!("make bench-peer ARGS='{}'", arguments.join(" "))
}

/// Waits until nobody uses the machine; the part of the processors' time that others used last. What the API server does after thousands
/// of objects were made would belong to whoever comes first.
pub(crate) fn wait_until_idle() -> f64 {
    let begin = Instant::now();
    loop {
        let before = times();
        std::thread::sleep(LOOK);
        let after = times();
        let busy = (after.0 - before.0) / (after.1 - before.1).max(1.0);
        if busy < IDLE || begin.elapsed() > PATIENCE {
            return busy;
        }
    }
}

/// Ticks that the processors worked, and all ticks, since the machine started.
fn times() -> (f64, f64) {
    let text = file("/proc/stat");
    let fields = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<f64> = fields.take(8).filter_map(|field| field.parse().ok()).collect();
    let all: f64 = ticks.iter().sum();
    // The fourth and fifth are times without work.
    (all - ticks.iter().skip(3).take(2).sum::<f64>(), all)
}

/// Runs `body`, and the threads that it starts, on one processor: who measures and who answers shall not change places from one lab to the
/// next. On a machine with fewer processors, wherever there is one.
pub(crate) fn on_processor<T>(number: usize, body: impl FnOnce() -> T) -> T {
    let own = Pid::from_raw(0);
    let before = sched_getaffinity(own);
    let mut only = CpuSet::new();
    if only.set(number).is_ok() {
        // Where there is no such processor, it stays where it is.
        let _ = sched_setaffinity(own, &only);
    }
    let done = body();
    if let Ok(before) = before {
        let _ = sched_setaffinity(own, &before);
    }
    done
}

/// What tells builds of Switchyard apart, from the bytes of the program: a commit that changes documents alone makes no other build.
pub(crate) fn build() -> anyhow::Result<String> {
    let program = env!("CARGO_BIN_EXE_switchyard");
    let sum = output("sha256sum", &[program]);
    let begin = sum.get(..BUILD_DIGITS).map(str::to_owned);
    begin.with_context(|| {
        format!("sha256sum {program} says nothing, so builds cannot be told apart; run it by hand")
    })
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
