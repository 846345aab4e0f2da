//! A directory as the kernel, settings in, files out.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const NAMES: [&str; 6] = [
    "nf_conntrack_max",
    "nf_conntrack_tcp_timeout_established",
    "nf_conntrack_tcp_timeout_close_wait",
    "nf_conntrack_tcp_be_liberal",
    "nf_conntrack_udp_timeout",
    "nf_conntrack_udp_timeout_stream",
];

struct Kernel(tempfile::TempDir);

impl Kernel {
    /// A kernel with this limit of connections, this many buckets, two CPUs, and 7 everywhere else.
    fn new(limit: &str, buckets: &str) -> Self {
        let kernel = Self(tempfile::tempdir().unwrap());
        for directory in ["net/netfilter", "nf_conntrack/parameters", "cpu"] {
            fs::create_dir_all(kernel.0.path().join(directory)).unwrap();
        }
        for name in NAMES {
            kernel.write(&format!("net/netfilter/{name}"), "7\n");
        }
        kernel.write(MAX, limit);
        kernel.write(HASH_SIZE, buckets);
        kernel.write("cpu/online", "0-1\n");
        kernel
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap().trim().to_owned()
    }

    fn places(&self) -> Places {
        let here = || Sysctl::in_dir(self.0.path());
        Places { sysctl: here(), modules: here(), devices: here() }
    }

    fn all(&self) -> Vec<String> {
        let names = NAMES.map(|name| self.read(&format!("net/netfilter/{name}")));
        names.into_iter().chain([self.read(HASH_SIZE)]).collect()
    }
}

const DEFAULTS: Conntrack = Conntrack {
    max_per_core: 32768,
    min: 131_072,
    tcp_established_seconds: Some(86_400),
    tcp_close_wait_seconds: Some(3600),
    udp_seconds: None,
    udp_stream_seconds: None,
    is_liberal: false,
};

#[test]
fn defaults_are_kube_proxys() {
    let kernel = Kernel::new("262144\n", "4096\n");
    track(&DEFAULTS, &kernel.places()).unwrap();
    assert_eq!(kernel.all(), ["131072", "86400", "3600", "7", "7", "7", "32768"]);
}

#[test]
fn zeros_leave_everything_alone() {
    let kernel = Kernel::new("5", "6");
    track(&Conntrack { min: 9, ..Conntrack::default() }, &kernel.places()).unwrap();
    assert_eq!(kernel.all(), ["5", "7", "7", "7", "7", "7", "6"]);
}

#[test]
fn everything_can_be_set_and_enough_buckets_stay() {
    let kernel = Kernel::new("5", "65536");
    let wanted =
        Conntrack { udp_seconds: Some(1), udp_stream_seconds: Some(2), is_liberal: true, ..DEFAULTS };
    track(&wanted, &kernel.places()).unwrap();
    assert_eq!(kernel.all(), ["131072", "86400", "3600", "1", "1", "2", "65536"]);
}

#[test]
fn the_limit_follows_the_cpus_between_floor_and_ceiling() {
    let limit =
        |max_per_core, min, cpus| limit(&Conntrack { max_per_core, min, ..Conntrack::default() }, cpus);
    assert_eq!(limit(32768, 131_072, 2), Some(131_072), "the floor");
    assert_eq!(limit(32768, 131_072, 8), Some(262_144));
    assert_eq!(limit(32768, 131_072, 128), Some(1_048_576), "the ceiling");
    assert_eq!(limit(1, 2_000_000, 4), Some(2_000_000), "a floor above the ceiling");
    assert_eq!(limit(0, 131_072, 8), None);
    assert_eq!(limit(u32::MAX, u32::MAX, u64::MAX), Some(1_048_576));
}

#[test]
fn cpus_are_counted_from_their_list() {
    for (list, want) in
        [("0", Some(1)), ("0-3", Some(4)), ("0-3,6,8-9", Some(7)), ("", None), ("3-0", None), ("x", None)]
    {
        assert_eq!(listed(list), want, "{list:?}");
    }
    assert!(cpus(&Sysctl::in_dir("/no/such")) >= 1);
}

#[test]
fn a_limit_that_is_read_only_matters_only_if_it_is_too_low() {
    if nix::unistd::geteuid().is_root() {
        eprintln!("nothing is read-only to root; the test of a real namespace covers it");
        return;
    }
    for (limit, is_fine) in [("131072", true), ("262144", true), ("65536", false)] {
        let kernel = Kernel::new(limit, "65536");
        let path = kernel.0.path().join(MAX);
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(track(&DEFAULTS, &kernel.places()).is_ok(), is_fine, "{limit}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let kernel = Kernel::new("5", "6");
    fs::remove_file(kernel.0.path().join("net/netfilter/nf_conntrack_tcp_timeout_established")).unwrap();
    let error = track(&DEFAULTS, &kernel.places()).unwrap_err().to_string();
    assert!(error.contains("nf_conntrack_tcp_timeout_established"), "{error}");
}

#[test]
fn the_score_is_written_and_its_lack_is_no_failure() {
    let kernel = Kernel::new("5", "6");
    kernel.write("oom_score_adj", "0");
    score(-999, &Sysctl::in_dir(kernel.0.path()));
    assert_eq!(kernel.read("oom_score_adj"), "-999");
    score(-999, &Sysctl::in_dir("/no/such"));
}
