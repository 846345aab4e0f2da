//! The `process_*` metrics, read from `/proc` when a page is made.
//!
//! In: `/proc/self`. Out: samples; what cannot be read is left out. Pages of the kernel's files are parsed without
//! trust: a field that is missing or no number is no sample.

use std::fs;
use std::time::Duration;

use super::text::{Exposition, Labels};

/// Clock ticks per second in `/proc`: 100 for user space on every architecture that we build for.
const TICKS: f64 = 100.0;

/// Adds the samples of this process.
pub(super) fn write(page: &mut Exposition) {
    let [stat, status, limits, network] =
        ["/proc/self/stat", "/proc/self/status", "/proc/self/limits", "/proc/self/net/netstat"]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
    let open_fds = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let open_fds = open_fds.and_then(|n| u32::try_from(n).ok()).map(f64::from);
    let counters = [
        ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu_seconds(&stat)),
        (
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network.",
            octets(&network, "InOctets"),
        ),
        (
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network.",
            octets(&network, "OutOctets"),
        ),
    ];
    let gauges = [
        (
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            start_seconds(),
        ),
        ("process_resident_memory_bytes", "Resident memory size in bytes.", kib_field(&status, "VmRSS:")),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes.", kib_field(&status, "VmSize:")),
        (
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            limit(&limits, "Max address space"),
        ),
        ("process_max_fds", "Maximum number of open file descriptors.", limit(&limits, "Max open files")),
        ("process_open_fds", "Number of open file descriptors.", open_fds),
    ];
    for (samples, kind) in [(&counters[..], "counter"), (&gauges[..], "gauge")] {
        for (name, help, value) in samples {
            sample(page, name, kind, help, *value);
        }
    }
}

/// Adds when this process started, as `/metrics/slis` says it.
pub(super) fn write_start_time(page: &mut Exposition) {
    let help = "[ALPHA] Start time of the process since unix epoch in seconds.";
    sample(page, "process_start_time_seconds", "gauge", help, start_seconds());
}

/// When this process started, in whole seconds since 1970.
pub(crate) fn start_time() -> Option<u64> {
    Duration::try_from_secs_f64(start_seconds()?).ok().map(|time| time.as_secs())
}

fn start_seconds() -> Option<f64> {
    let [stat, system] =
        ["/proc/self/stat", "/proc/stat"].map(|path| fs::read_to_string(path).unwrap_or_default());
    start_of(&stat, &system)
}

fn sample(page: &mut Exposition, name: &'static str, kind: &str, help: &str, value: Option<f64>) {
    page.block(name, kind, help, |samples| {
        if let Some(value) = value {
            samples.number("", &Labels::default(), value);
        }
    });
}

/// The n-th field of `/proc/self/stat`, counted as in proc(5). The program's name may hold spaces and brackets, so
/// counting starts behind the last one.
fn stat_field(stat: &str, n: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(n.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS)
}

fn start_of(stat: &str, system: &str) -> Option<f64> {
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + stat_field(stat, 22)? / TICKS)
}

fn kib_field(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// A soft limit. One that is not limited is the largest number, as kube-proxy shows it.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(2.0_f64.powi(64)),
        number => number.parse().ok(),
    }
}

/// A counter of the network namespace: `netstat` has a line of names before each line of values.
fn octets(netstat: &str, name: &str) -> Option<f64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|other| other == name)?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "7 (a) b (x) S 1 7 7 0 -1 4194560 2 0 0 0 150 50 0 0 20 0 3 0 4200 8192 25 18446744073709551615";

    #[test]
    fn fields_are_counted_behind_the_name() {
        assert_eq!(cpu_seconds(STAT), Some(2.0));
        assert_eq!(start_of(STAT, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_042.0));
    }

    #[test]
    fn sizes_and_limits() {
        assert_eq!(kib_field("VmSize:\t    9 kB\nVmRSS:\t     4 kB\n", "VmRSS:"), Some(4096.0));
        let limits = "Max address space         unlimited            unlimited            bytes\n\
                      Max open files            1024                 524288               files\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(18_446_744_073_709_551_616.0));
    }

    #[test]
    fn bytes_of_the_network() {
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 70 80\n";
        assert_eq!(octets(netstat, "InOctets"), Some(70.0));
        assert_eq!(octets(netstat, "OutOctets"), Some(80.0));
        assert_eq!(octets("IpExt: InOctets\nIpExt:\n", "InOctets"), None);
    }

    #[test]
    fn rubbish_gives_no_sample() {
        for text in ["", ")", "7 (a) S", "VmRSS: many kB", "Max open files many"] {
            assert_eq!(cpu_seconds(text), None);
            assert_eq!(kib_field(text, "VmRSS:"), None);
            assert_eq!(limit(text, "Max open files"), None);
        }
    }
}
