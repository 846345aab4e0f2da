//! Command lines and files that kube-proxy 1.36.4 was given, and what it made of them.
//!
//! `kube-proxy-recorded.json` holds some 300 of them: arguments, possibly a file, and, where kube-proxy accepted them,
//! the lines of its `--write-config-to` that are not in the one without flags, and those that are missing.
//! `kube-proxy-flags.txt` holds the flags of its `--help` with their defaults.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::super::table::FLAGS;
use super::*;

const RECORDED: &str = include_str!("../../../tests/data/kube-proxy-recorded.json");
const HELP: &str = include_str!("../../../tests/data/kube-proxy-flags.txt");

/// What we write for these arguments; nothing if we refuse.
fn written(args: &[String]) -> Option<String> {
    let args: Vec<&str> =
        ["--write-config-to=/x"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let mut configuration = read(&args).ok()?.check().ok()?.configuration;
    configuration.keep_only_the_mode();
    Some(configuration.to_yaml())
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}

/// Lines of one page that another lacks, sorted, as often as they are there.
fn lacking(page: &str, other: &str) -> Vec<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for line in other.lines() {
        *counts.entry(line).or_default() += 1;
    }
    let mut found = Vec::new();
    for line in page.lines() {
        match counts.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => found.push(line.to_owned()),
        }
    }
    found.sort();
    found
}

#[test]
fn kube_proxy_and_we_make_the_same_of_the_same_input() {
    let records: Vec<Value> = serde_json::from_str(RECORDED).expect("the recording is JSON");
    assert!(records.len() > 250);
    let default = written(&[]).expect("no flags are fine");
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config.conf");
    for record in &records {
        let mut args = texts(&record["args"]);
        if let Some(text) = record["file"].as_str() {
            fs::write(&path, text).expect("a file");
            args.insert(0, format!("--config={}", path.display()));
        }
        let ours = written(&args).map(|page| (lacking(&page, &default), lacking(&default, &page)));
        let theirs = record.get("added").map(|added| (texts(added), texts(&record["gone"])));
        assert_eq!(ours, theirs, "{record}");
    }
}

#[test]
fn every_flag_of_kube_proxy_is_here_with_its_default() {
    let values = config(&[]).flags;
    for line in HELP.lines() {
        let (name, default) = line.split_once(' ').unwrap_or((line, ""));
        if name == "help" {
            continue;
        }
        assert!(FLAGS.iter().any(|flag| flag.name == name), "--{name} is not known");
        // Zeros are not shown as defaults; and once all is settled, these two say what empty means.
        let zeros = ["", "false", "0", "0s", "[]", "iptables", "ClusterCIDR"];
        let ours = values.get(name).map(String::as_str).unwrap_or_default();
        assert!(
            ours == default || (default.is_empty() && zeros.contains(&ours)),
            "--{name}={ours}, not {default}"
        );
    }
    let theirs = |name: &str| HELP.lines().any(|line| line.split(' ').next() == Some(name));
    let others: Vec<&str> = FLAGS.iter().map(|flag| flag.name).filter(|name| !theirs(name)).collect();
    // Ours, then those that kube-proxy hides as deprecated or that the recorded build had without JSON logging.
    let known = [
        "manifests",
        "service-cluster-ip-range",
        "iptables-backend",
        "admin-socket",
        "enable-ui",
        "healthz-port",
        "log-json-info-buffer-size",
        "log-json-split-stream",
        "metrics-port",
    ];
    assert_eq!(others, known);
}
