//! Programs inside the lab's namespaces.

use std::process::Command;
use std::time::Duration;

use switchyard_lab::{Lab, LabError, Node};

const SOON: Duration = Duration::from_secs(2);

#[test]
fn a_program_runs_inside_its_node_with_its_environment() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut script = Command::new("sh");
    script
        .args(["-c", "echo hello $WHO; ip -4 -o addr show eth0; echo ready >&2; exec sleep 60"])
        .env("WHO", "you");
    let mut process = lab.node(Node::N2).start(&mut script, &dir.path().join("log")).unwrap();
    process.wait_for_log("ready", SOON).unwrap();
    let log = process.log().unwrap();
    assert!(log.contains("hello you") && log.contains("192.168.2.10/24"), "{log}");
    assert_eq!(process.exit_status().unwrap(), None);
    process.terminate().unwrap();
    let status = process.wait(SOON).unwrap().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    process.terminate().unwrap();
    assert!(matches!(process.wait_for_log("never said", SOON), Err(LabError::Late { .. })));
}

#[test]
fn a_dropped_program_is_killed() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let dir = tempfile::tempdir().unwrap();
    let process = lab.client().start(Command::new("sleep").arg("60"), &dir.path().join("log")).unwrap();
    let proc = format!("/proc/{}", process.id());
    assert!(std::fs::exists(&proc).unwrap());
    drop(process);
    assert!(!std::fs::exists(&proc).unwrap());
}

#[test]
fn exec_reports_output_and_failure() {
    let Some(lab) = Lab::new_or_skip() else { return };
    let n1 = lab.node(Node::N1);
    assert!(n1.exec_ok("iptables-save", &["-t", "nat"]).is_ok());
    let fed = n1.feed("cat", &[] as &[&str], "x".repeat(300_000).as_bytes()).unwrap();
    assert_eq!(fed.stdout.len(), 300_000);
    let failed = n1.exec_ok("sh", &["-c", "echo why >&2; exit 3"]).unwrap_err().to_string();
    assert!(failed.contains("why") && failed.contains("exit status: 3"), "{failed}");
    assert!(n1.exec("/no/such/program", &["-x"]).is_err());
    // What a node tracks or filters is its own: the host and other nodes see nothing of it.
    n1.exec_ok("nft", &["add", "table", "ip", "mine"]).unwrap();
    assert_eq!(lab.node(Node::N2).exec_ok("nft", &["list", "ruleset"]).unwrap(), "");
}
