//! Tests on kernels that this machine does not run: `vm` boots Debian's kernels in qemu, without KVM, and runs test programs there.
//!
//! In: which kernels, which tests, arguments for their harness. Out: what the tests print, as they print it, and the count of
//! `scripts/count-tests`; an error unless every test ran and passed. There is no disk and no network: the guest's root is an archive
//! that is made of the working tree, the test programs, the programs that they run, and the kernel's modules.
//!
//! Invariant: nothing but a complete account of the guest counts as success, see [`outcome`].

mod archive;
mod boot;
mod built;
mod guest;
mod kernel;
mod modules;
mod options;
mod outcome;
mod packages;
mod root;
mod run;
pub(crate) mod tool;

use std::env;

use anyhow::{Result, bail};

pub(crate) use built::MEASURE;
use kernel::{Files, Kernel};
use options::{Options, Selection};
use outcome::{Counts, Verdict};

/// How `vm` is called, after its name.
pub(crate) const USAGE: &str = "vm [--kernel bullseye|bookworm|backports]... [--only ipvs | --bench ipvs | --test NAME...] [--workspace] [--cpus N] \
     [--deadline MINUTES] [-- ARGUMENTS OF THE TEST HARNESS]";

/// Runs the tests on every kernel. With `VM=require` in the environment, it is an error if there can be no VM.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let kernels = match run::kernels(&options) {
        Err(error) if env::var("VM").as_deref() != Ok("require") => {
            println!("SKIPPED: no VM: {error:#}");
            println!("0 passed, 0 failed, 1 skipped");
            return Ok(());
        }
        other => other?,
    };
    let mut total = Counts::default();
    let mut failed = Vec::new();
    let mut figures = Vec::new();
    for (kernel, mut verdict) in run::run(&kernels, &options)? {
        total.add(verdict.counts);
        figures.push((kernel, std::mem::take(&mut verdict.figures)));
        report(kernel, &verdict);
        if !verdict.complaints.is_empty() {
            failed.push(kernel.name());
        }
    }
    if options.selection != Selection::Benchmark {
        println!("{} passed, {} failed, 0 skipped", total.passed, total.failed);
    }
    if !failed.is_empty() {
        bail!("not all went well on: {}", failed.join(", "));
    }
    match options.selection {
        Selection::Benchmark => benchmark(&kernels, &figures),
        Selection::Everything | Selection::Ipvs => Ok(()),
    }
}

/// Writes down what was measured; with several kernels, on the last of them.
fn benchmark(kernels: &[(Kernel, Files)], figures: &[(Kernel, Vec<String>)]) -> Result<()> {
    let directory = crate::repository::root()?.join("docs/benchmarks");
    for (kernel, lines) in figures {
        let files = kernels.iter().find(|(known, _)| known == kernel).map(|(_, files)| files);
        let release = files.map_or("unknown", |files| files.release.as_str());
        crate::bench::ipvs::report(lines, release, &directory)?;
    }
    Ok(())
}

fn report(kernel: Kernel, verdict: &Verdict) {
    let Counts { passed, failed } = verdict.counts;
    println!("vm {kernel}: {passed} passed, {failed} failed, {} complaints", verdict.complaints.len());
    for complaint in &verdict.complaints {
        println!("  {complaint}");
    }
}
