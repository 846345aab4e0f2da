//! The real agent in nftables mode, on a node of the lab: memory, what it does while nothing happens, restarts, repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use switchyard_lab::{Host, Lab, Node};
use switchyard_netlink::nftables::{Nft, delete_table};

use super::super::manifests::Manifests;
use super::super::progress::Progress;
use super::super::running::{Memory, OPS, Page, Running, SETTLE};
use super::copy;

/// Steps of one [`watch`].
pub(super) const STEPS: usize = 4;

const FLAGS: [&str; 2] = ["--proxy-mode", "nftables"];
const FULL_SYNC: &str = "kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family=\"IPv4\"}";
const CHANGES: u32 = 3;
const REPAIRS: usize = 3;
/// Repairs rest after each other, so that a fight with another program stays bounded.
const REPAIR_REST: Duration = Duration::from_secs(2);
const REPAIR_PATIENCE: Duration = Duration::from_secs(120);

/// What was seen at one size.
pub(super) struct Seen {
    pub(super) services: u32,
    pub(super) start: Duration,
    /// The agent's own measurement.
    pub(super) first_sync: Duration,
    pub(super) memory: Memory,
    pub(super) after_changes: Memory,
    pub(super) idle: Idle,
    pub(super) restart: Restart,
    pub(super) repairs: Vec<Duration>,
}

/// What it did while nothing happened.
pub(super) struct Idle {
    pub(super) time: Duration,
    /// Processor time. Not in clock ticks: a tick is also counted when what was used before makes it full.
    pub(super) busy: Duration,
    pub(super) switches: u64,
    /// System calls by name, if `strace` is there.
    pub(super) calls: Option<BTreeMap<String, usize>>,
}

/// A second start over its own rules.
pub(super) struct Restart {
    /// The agent's own measurement.
    pub(super) sync: Duration,
    pub(super) start: Duration,
    pub(super) ops: f64,
    pub(super) is_untouched: bool,
}

/// Starts an agent and looks at it.
pub(super) fn watch(program: &Path, services: u32, idle: Duration, progress: &mut Progress) -> Result<Seen> {
    let mut step = |what: &str| progress.step(&format!("nftables, agent with {services} Services: {what}"));
    step("first sync");
    let mut manifests = Manifests::write(services)?;
    let lab = Lab::new().context("cannot make the lab; run as root")?;
    let node = lab.node(Node::N1);
    let mut agent = Running::start(program, node, &manifests, &FLAGS)?;
    let start = agent.wait_until_synced()?;
    let first_sync = full_sync(&agent.settle()?)?;
    let memory = agent.memory()?;
    step("changed endpoints, then nothing");
    for change in 1..=CHANGES {
        agent.change_one(&mut manifests, services / (CHANGES + 1) * change)?;
    }
    thread::sleep(SETTLE);
    let after_changes = agent.memory()?;
    let idle = rest(&agent, node, idle)?;
    step("restart with nothing changed");
    let mut nft = node.run(Nft::open)??;
    let before = nft.generation()?;
    agent.stop()?;
    let mut agent = Running::start(program, node, &manifests, &FLAGS)?;
    let again = agent.wait_until_synced()?;
    let is_untouched = nft.generation()? == before;
    let page = agent.settle()?;
    let restart = Restart { sync: full_sync(&page)?, start: again, ops: page.sample(OPS)?, is_untouched };
    step("table deleted and repaired");
    let repairs = (0..REPAIRS).map(|_| repair(node, &mut nft)).collect::<Result<_>>()?;
    Ok(Seen { services, start, first_sync, memory, after_changes, idle, restart, repairs })
}

fn full_sync(page: &Page) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(page.sample(FULL_SYNC)?)?)
}

/// Deletes the table and waits until it is there again: it comes in one transaction, so it is complete then.
fn repair(node: &Host, nft: &mut Nft) -> Result<Duration> {
    thread::sleep(REPAIR_REST);
    let id = copy::table();
    node.run(|| delete_table(id.family, &id.name))??;
    let begin = Instant::now();
    while !nft.tables(id.family)?.iter().any(|table| table.id == id) {
        if begin.elapsed() > REPAIR_PATIENCE {
            bail!("a deleted table was not repaired in time");
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(begin.elapsed())
}

/// Lets nothing happen for a while; then again under the eyes of `strace`.
fn rest(agent: &Running, node: &Host, time: Duration) -> Result<Idle> {
    let before = Spent::of(agent)?;
    thread::sleep(time);
    let after = Spent::of(agent)?;
    Ok(Idle {
        time,
        busy: after.busy.saturating_sub(before.busy),
        switches: after.switches.saturating_sub(before.switches),
        calls: system_calls(agent, node, time)?,
    })
}

/// What a process has used so far.
struct Spent {
    busy: Duration,
    switches: u64,
}

impl Spent {
    fn of(agent: &Running) -> Result<Self> {
        let (mut busy, mut switches) = (0, 0);
        for task in fs::read_dir(format!("/proc/{}/task", agent.id()))? {
            let task = task?.path();
            busy += number(fs::read_to_string(task.join("schedstat"))?.split_whitespace().next())?;
            let status = fs::read_to_string(task.join("status"))?;
            let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
            switches += counts.map(|line| number(line.split_whitespace().last())).sum::<Result<u64>>()?;
        }
        Ok(Self { busy: Duration::from_nanos(busy), switches })
    }
}

fn number(text: Option<&str>) -> Result<u64> {
    text.context("a number is missing in /proc")?.parse().context("not a number in /proc")
}

/// How often each system call was made, if `strace` is installed.
fn system_calls(agent: &Running, node: &Host, time: Duration) -> Result<Option<BTreeMap<String, usize>>> {
    if Command::new("strace").arg("-V").output().is_err() {
        return Ok(None);
    }
    let logs = tempfile::tempdir()?;
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-p", &agent.id().to_string()]);
    let mut strace = node.start(&mut command, &logs.path().join("strace.log"))?;
    thread::sleep(time);
    strace.terminate()?;
    strace.wait(Duration::from_secs(10))?;
    Ok(Some(count_calls(&strace.log()?)))
}

/// Counts calls by name. The first of each thread was under way before and is none.
fn count_calls(log: &str) -> BTreeMap<String, usize> {
    let (mut calls, mut threads) = (BTreeMap::new(), BTreeSet::new());
    for line in log.lines() {
        let (thread, call) = line.split_once("] ").unwrap_or(("", line));
        let name = call.split_once('(').map(|(name, _)| name).unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_name && !threads.insert(thread) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_counted_after_the_first_of_each_thread() {
        let log = "[pid 7] epoll_wait(3,  <unfinished ...>\n[pid 8] futex(0x1, FUTEX_WAIT, 0, NULL\n\
                   [pid 7] <... epoll_wait resumed>[], 1024, 5) = 0\n[pid 7] openat(1, \"a(b\") = 4\n\
                   [pid 7] openat(1, \"c\") = 4\nstrace: Process 9 detached";
        assert_eq!(count_calls(log), BTreeMap::from([("openat".to_owned(), 2)]));
    }
}
