//! Faults at the start that need neither root nor a lab: exit status 1 and a clear word.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;
use std::process::{Command, Output};

use nix::unistd::geteuid;

/// Runs to the end; everything that was said.
fn fails(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The proxy with programs of ours in front of the real ones.
fn with_programs(dir: &Path, version: &str) -> Command {
    for program in ["iptables-nft", "ip6tables-nft"] {
        script(&dir.join(program), &format!("echo '{version}'"));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_switchyard"));
    let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    command
        .env("PATH", path)
        .args(["--hostname-override=n1", "--iptables-backend=nft", "--manifests"])
        .arg(dir);
    command
}

#[test]
fn iptables_that_is_too_old_is_named_with_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let said = fails(&mut with_programs(dir.path(), "iptables v1.4.0 (nf_tables)"));
    for word in ["iptables-nft is version 1.4.0", "is needed", "upgrade the iptables package"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_program_that_is_not_iptables_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let said = fails(&mut with_programs(dir.path(), "hello"));
    assert!(said.contains("printed \"hello\"") || said.contains("names no version"), "{said}");
}

#[test]
fn without_the_capability_it_says_which() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let mut command = if geteuid().is_root() {
        // Nobody must be able to reach the program.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let program = dir.path().join("switchyard");
        std::fs::copy(env!("CARGO_BIN_EXE_switchyard"), &program).unwrap();
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        setpriv
    } else {
        Command::new(env!("CARGO_BIN_EXE_switchyard"))
    };
    command.args(["--hostname-override=n1", "--manifests"]).arg(dir.path());
    let said = fails(&mut command);
    if said.contains("not found in") && std::env::var("LAB").as_deref() != Ok("require") {
        eprintln!("SKIPPED: there is no iptables here: {said}");
        return;
    }
    assert!(said.contains("no permission") && said.contains("CAP_NET_ADMIN"), "{said}");
}
