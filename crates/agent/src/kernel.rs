//! What the kernel is told before the first rule: connection tracking, and how dear this process is.
//!
//! In: the checked configuration. Out: sysctls, written only where they differ, so that a run without the privilege
//! works once `--init-only` has been there.
//!
//! kube-proxy's way, but for one thing: a limit of connections that cannot be written, as in a network namespace of
//! its own, is no failure while it is at least what was asked for.

use std::thread;

use anyhow::Context;
use switchyard_apply::sysctl::{Sysctl, SysctlError, Written};
use switchyard_netlink::Family;
use switchyard_netlink::conntrack::{Conntrack as Tracking, Filter};

use crate::flags::{Config, Conntrack};
use crate::sync::with_causes;

/// More connections than this are never asked for by the number of CPUs alone.
const MOST_BY_CPUS: u64 = 1_048_576;

const MAX: &str = "net/netfilter/nf_conntrack_max";
const HASH_SIZE: &str = "nf_conntrack/parameters/hashsize";

/// Where the settings are; other places in tests.
struct Places {
    sysctl: Sysctl,
    modules: Sysctl,
    devices: Sysctl,
}

/// Tells the kernel everything. Fails where kube-proxy would.
pub fn prepare(config: &Config) -> anyhow::Result<()> {
    score(config.oom_score_adj, &Sysctl::in_dir("/proc/self"));
    let places = Places {
        sysctl: Sysctl::default(),
        modules: Sysctl::in_dir("/sys/module"),
        devices: Sysctl::in_dir("/sys/devices/system"),
    };
    if let Err(SysctlError::Missing { .. }) = places.sysctl.read(MAX) {
        load_tracking();
    }
    track(&config.conntrack, &places).context(
        "could not set conntrack parameters; zeros leave them alone, such as --conntrack-max-per-core=0",
    )
}

/// Whoever asks for connections makes the kernel load what tracks them.
fn load_tracking() {
    let all = Filter::family(Family::V4);
    let asked = Tracking::open().and_then(|mut tracking| tracking.dump(&all, &mut |_| {}));
    if let Err(error) = asked {
        tracing::debug!(cause = %with_causes(&error), "connection tracking cannot be loaded");
    }
}

/// How readily the kernel ends this process when memory is short. Without the privilege it stays as it is.
fn score(score: i32, own: &Sysctl) {
    if let Err(error) = own.set_if_different("oom_score_adj", &score.to_string()) {
        tracing::debug!(cause = %with_causes(&error), score, "the OOM score stays as it is");
    }
}

fn track(wanted: &Conntrack, places: &Places) -> Result<(), SysctlError> {
    if let Some(limit) = limit(wanted, cpus(&places.devices)) {
        set_limit(limit, places)?;
    }
    let liberal = wanted.is_liberal.then_some(1);
    for (name, value) in [
        ("nf_conntrack_tcp_timeout_established", wanted.tcp_established_seconds),
        ("nf_conntrack_tcp_timeout_close_wait", wanted.tcp_close_wait_seconds),
        ("nf_conntrack_tcp_be_liberal", liberal),
        ("nf_conntrack_udp_timeout", wanted.udp_seconds),
        ("nf_conntrack_udp_timeout_stream", wanted.udp_stream_seconds),
    ] {
        if let Some(value) = value {
            set(&places.sysctl, &format!("net/netfilter/{name}"), value)?;
        }
    }
    Ok(())
}

/// How many connections are to be tracked; nothing if that is left alone.
fn limit(wanted: &Conntrack, cpus: u64) -> Option<u64> {
    if wanted.max_per_core == 0 {
        return None;
    }
    let by_cpus = u64::from(wanted.max_per_core).saturating_mul(cpus);
    if by_cpus > MOST_BY_CPUS { Some(MOST_BY_CPUS) } else { Some(by_cpus.max(wanted.min.into())) }
}

fn set_limit(limit: u64, places: &Places) -> Result<(), SysctlError> {
    if let Err(error) = set(&places.sysctl, MAX, limit) {
        let current = number(&places.sysctl, MAX);
        if !matches!(error, SysctlError::Permission { .. }) || current.is_none_or(|current| current < limit) {
            return Err(error);
        }
        tracing::info!(
            ?current,
            wanted = limit,
            "the limit of connections cannot be set, but is large enough"
        );
        return Ok(());
    }
    // Chains of four connections are as long as they should get.
    let size = places.modules.read(HASH_SIZE)?.parse().unwrap_or(0_u64);
    if size < limit / 4 { set(&places.modules, HASH_SIZE, limit / 4) } else { Ok(()) }
}

fn set(settings: &Sysctl, name: &str, value: u64) -> Result<(), SysctlError> {
    if settings.set_if_different(name, &value.to_string())? == Written::Changed {
        tracing::info!(name, value, "set a kernel setting");
    }
    Ok(())
}

fn number(settings: &Sysctl, name: &str) -> Option<u64> {
    settings.read(name).ok()?.parse().ok()
}

/// CPUs that are online: those of the machine, not those that a container may use.
fn cpus(devices: &Sysctl) -> u64 {
    let listed = devices.read("cpu/online").ok().and_then(|list| listed(&list));
    let own = || thread::available_parallelism().ok().and_then(|count| u64::try_from(count.get()).ok());
    listed.or_else(own).unwrap_or(1)
}

/// How many numbers a list such as `0-3,6` has.
fn listed(list: &str) -> Option<u64> {
    let mut count = 0_u64;
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(u64::from(last.checked_sub(first)?) + 1)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests;
