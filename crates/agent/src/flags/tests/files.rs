//! `--config`: what the file says, which flags still count, and files that are no configuration.

use std::fs;
use std::path::Path;

use super::*;

const HEAD: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
const KUBEADM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kubeadm-config.conf");

/// A directory with a configuration file, and the flag that names it.
fn file(body: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config.conf");
    fs::write(&path, format!("{HEAD}{body}")).expect("a file");
    let flag = format!("--config={}", path.display());
    (dir, flag)
}

#[test]
fn kubeadms_file_is_the_defaults_with_two_values() {
    let got = config(&[&format!("--config={KUBEADM}")]);
    let want = config(&["--cluster-cidr=10.244.0.0/16", "--kubeconfig=/var/lib/kube-proxy/kubeconfig.conf"]);
    assert_eq!(got.config_file.as_deref(), Some(Path::new(KUBEADM)));
    assert_eq!(Config { config_file: None, flags: want.flags.clone(), ..got }, want);
    assert_eq!(want.notes, [""; 0]);
}

#[test]
fn with_a_file_only_logging_the_host_name_and_tasks_count() {
    let (_dir, flag) = file(
        "mode: nftables\nhostnameOverride: a\nlogging:\n  verbosity: 1\n  vmodule: [{filePattern: x, verbosity: 1}]\n",
    );
    let ignored = [
        "--proxy-mode=foo",
        "--cluster-cidr=garbage",
        "--masquerade-all",
        "--iptables-sync-period=1ns",
        "--healthz-port=0",
        "--oom-score-adj=5",
        "--kubeconfig=/k",
    ];
    let got = config(&[&[flag.as_str()][..], &ignored].concat());
    let without = config(&[&flag]);
    assert_eq!(got, Config { flags: got.flags.clone(), notes: got.notes.clone(), ..without });
    assert_eq!((got.mode, got.hostname_override.as_deref()), (Mode::Nftables, Some("a")));
    assert_eq!(got.logging.verbosity, 1);
    let got = config(&[
        &flag,
        "-v=3",
        "--vmodule=y=2",
        "--logging-format=text",
        "--hostname-override=B",
        "--master=http://m",
        "--cleanup",
        "--iptables-backend=nft",
    ]);
    assert_eq!((got.logging.verbosity, got.hostname_override.as_deref()), (3, Some("b")));
    let patterns: Vec<_> =
        got.configuration.logging.vmodule.iter().map(|m| m.file_pattern.as_str()).collect();
    assert_eq!(patterns, ["y", "x"], "those of the command line come first");
    assert_eq!(got.source, Source::Cluster { kubeconfig: None, master: Some("http://m".to_owned()) });
    assert_eq!((got.task, got.iptables_backend), (Task::Cleanup, IptablesBackend::Nft));
}

#[test]
fn flags_that_a_file_overrules_are_still_read() {
    let (_dir, flag) = file("");
    assert_eq!(problems(&[&flag, "--oom-score-adj=x"]).len(), 1);
    assert_eq!(config(&[&flag, "--oom-score-adj=5000"]).oom_score_adj, -999);
}

#[test]
fn problems_of_a_file_name_file_and_field_and_come_at_once() {
    let (dir, flag) = file("mode: ipv\niptables: {masqueradeBit: 32}\nbindAddress: x\n");
    let name = dir.path().join("config.conf").display().to_string();
    let found = problems(&[&flag, "-v=x"]);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].starts_with("--v: "));
    assert_eq!(
        found[1],
        format!("{name}: iptables.masqueradeBit: invalid value 32: must be within the range [0, 31]")
    );
    let mode = format!("{name}: mode: invalid value \"ipv\": must be");
    assert!(found.iter().any(|line| line.starts_with(&mode)), "{found:?}");
    let (_dir, flag) = file("mode: [\n");
    assert!(problems(&[&flag])[0].contains("is neither YAML nor JSON"));
}

#[test]
fn strictness_and_what_has_no_effect_are_noted() {
    let (_dir, flag) = file(
        "foo: 1\nmode: iptables\nmode: nftables\nconfigSyncPeriod: 1m\nfeatureGates: {AtomicFIFO: true}\n",
    );
    let got = config(&[&flag]);
    assert_eq!((got.mode, got.notes.len()), (Mode::Nftables, 4));
    let notes = got.notes.join("\n");
    for word in [
        "duplicate",
        "unknown field \"foo\"",
        "without effect: configSyncPeriod",
        "gates without effect here: AtomicFIFO",
    ] {
        assert!(notes.contains(word), "{word} in {notes}");
    }
}

#[test]
fn files_that_are_huge_missing_or_binary_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("huge");
    // Sparse: it takes no room, but it would take memory.
    fs::File::create(&path).and_then(|file| file.set_len(100 << 20)).expect("a file");
    let flag = format!("--config={}", path.display());
    assert!(problems(&[&flag])[0].contains("it is larger than 4194304 bytes"));
    fs::write(&path, b"\xff\xfe\0").expect("a file");
    assert!(problems(&[&flag])[0].contains("it is not UTF-8 text"));
    let missing = format!("--config={}", dir.path().join("missing").display());
    assert!(problems(&[&missing])[0].contains("No such file"));
    let directory = format!("--config={}", dir.path().display());
    assert!(problems(&[&directory])[0].contains("cannot read the configuration"));
}

#[test]
fn ipvs_mode_has_periods_of_its_own() {
    let (_dir, flag) = file("mode: ipvs\n");
    assert_eq!(config(&[&flag, "--cleanup"]).task, Task::Cleanup);
    assert_eq!(config(&[&flag, "--write-config-to=/x"]).task, Task::WriteConfig("/x".into()));
    let got = config(&["--proxy-mode=ipvs", "--ipvs-sync-period=7s", "--ipvs-min-sync-period=2s"]);
    assert_eq!((got.mode, got.sync_period.as_secs(), got.min_sync_period.as_secs()), (Mode::Ipvs, 7, 2));
    assert_eq!(got.masquerade_mark, 1 << 14);
}

#[test]
fn nftables_mode_waits_only_if_somebody_says_so() {
    let second = Duration::from_secs(1);
    let by_flags = |flags: &[&str]| config(flags).min_sync_period;
    assert_eq!(by_flags(&[]), second);
    assert_eq!(by_flags(&["--proxy-mode=nftables"]), Duration::ZERO);
    assert_eq!(by_flags(&["--proxy-mode=nftables", "--iptables-min-sync-period=1s"]), second);
    for (body, want) in [
        ("mode: iptables\n", second),
        ("mode: nftables\n", Duration::ZERO),
        ("mode: nftables\nnftables: {minSyncPeriod: 0s}\n", Duration::ZERO),
        ("mode: nftables\nnftables: {minSyncPeriod: 1s}\n", second),
        ("mode: nftables\niptables: {minSyncPeriod: 2s}\n", Duration::ZERO),
    ] {
        let (_dir, flag) = file(body);
        let got = config(&[&flag, "--iptables-min-sync-period=5s"]);
        assert_eq!(got.min_sync_period, want, "{body}");
        // What is written and shown stays kube-proxy's.
        assert_ne!(got.configuration.of_mode().min_sync_period.to_std(), Some(Duration::ZERO), "{body}");
    }
}
