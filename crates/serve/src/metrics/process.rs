//! The `process_*` metrics, read from `/proc` when a page is made.
//!
//! In: `/proc/self`. Out: samples; what cannot be read is left out. Pages of the kernel's files are parsed without
//! trust: a field that is missing or no number is no sample.

use std::fs;

use super::text::{Exposition, Labels};

/// Clock ticks per second in `/proc`: 100 for user space on every architecture that we build for.
const TICKS: f64 = 100.0;

/// Adds the samples of this process.
pub(super) fn write(page: &mut Exposition) {
    let [stat, system, status, limits] =
        ["/proc/self/stat", "/proc/stat", "/proc/self/status", "/proc/self/limits"]
            .map(|path| fs::read_to_string(path).unwrap_or_default());
    let open_fds = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    let samples = [
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            cpu_seconds(&stat),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            start_time(&stat, &system),
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory size in bytes.",
            kib_field(&status, "VmRSS:"),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory size in bytes.",
            kib_field(&status, "VmSize:"),
        ),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors.", max_fds(&limits)),
        (
            "process_open_fds",
            "gauge",
            "Number of open file descriptors.",
            open_fds.and_then(|n| u32::try_from(n).ok()).map(f64::from),
        ),
    ];
    for (name, kind, help, value) in samples {
        page.block(name, kind, help, |samples| {
            if let Some(value) = value {
                samples.number("", &Labels::default(), value);
            }
        });
    }
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

fn start_time(stat: &str, system: &str) -> Option<f64> {
    let boot: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(boot + stat_field(stat, 22)? / TICKS)
}

fn kib_field(status: &str, name: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn max_fds(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "7 (a) b (x) S 1 7 7 0 -1 4194560 2 0 0 0 150 50 0 0 20 0 3 0 4200 8192 25 18446744073709551615";

    #[test]
    fn fields_are_counted_behind_the_name() {
        assert_eq!(cpu_seconds(STAT), Some(2.0));
        assert_eq!(start_time(STAT, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_042.0));
    }

    #[test]
    fn sizes_and_limits() {
        assert_eq!(kib_field("VmSize:\t    9 kB\nVmRSS:\t     4 kB\n", "VmRSS:"), Some(4096.0));
        assert_eq!(
            max_fds("Max open files            1024                 524288               files\n"),
            Some(1024.0)
        );
    }

    #[test]
    fn rubbish_gives_no_sample() {
        for text in ["", ")", "7 (a) S", "VmRSS: many kB", "Max open files unlimited"] {
            assert_eq!(cpu_seconds(text), None);
            assert_eq!(kib_field(text, "VmRSS:"), None);
            assert_eq!(max_fds(text), None);
        }
    }
}
