//! Test surroundings: a network namespace per test, and fake programs.

use std::fs;
use std::io::{Write, stderr};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use switchyard_model::Family;

use super::{Iptables, Table, Variant};

/// Runs the test on a thread with a network namespace of its own. Skips loudly without root.
pub(super) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let outcome = thread::spawn(|| {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            let required = std::env::var("LAB").is_ok_and(|value| value == "require");
            assert!(!required, "LAB=require, but a network namespace cannot be made: {error}");
            // Not `eprintln!`: the harness hides what a passing test prints with it.
            writeln!(stderr(), "SKIPPED: a network namespace cannot be made: {error}; run as root").unwrap();
            return;
        }
        test();
    })
    .join();
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

/// Runs the test for both variants and both families, each in a namespace of its own.
pub(super) fn everywhere(test: fn(&Iptables)) {
    for variant in [Variant::Nft, Variant::Legacy] {
        for family in Family::ALL {
            in_namespace(move || test(&Iptables::probe(family, variant).unwrap()));
        }
    }
}

pub(super) const VARIANTS: [Variant; 2] = [Variant::Nft, Variant::Legacy];

/// A directory of fake programs, searched before the real ones.
pub(super) struct Fakes(tempfile::TempDir);

impl Fakes {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A script in place of a program.
    pub(super) fn script(self, name: &str, body: &str) -> Self {
        self.program(name, &format!("#!/bin/sh\n{body}\n"))
    }

    /// A program with this text. `install` writes it, because a child of another test that is between fork and exec
    /// would hold our own descriptor, and the kernel does not run a file that is open for writing.
    pub(super) fn program(self, name: &str, text: &str) -> Self {
        let source = self.path("source");
        fs::write(&source, text).unwrap();
        let done = Command::new("install").args(["-m", "755"]).arg(&source).arg(self.path(name)).status();
        assert!(done.unwrap().success());
        self
    }

    pub(super) fn dirs(&self) -> Vec<PathBuf> {
        vec![self.0.path().to_owned(), "/usr/sbin".into()]
    }

    pub(super) fn only(&self) -> Vec<PathBuf> {
        vec![self.0.path().to_owned()]
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A table's text without comments, which hold the time, and without counters.
pub(super) fn saved(iptables: &Iptables, table: Table) -> String {
    let text = iptables.save(table).unwrap();
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(" [").next().unwrap().to_owned() + "\n")
        .collect()
}
