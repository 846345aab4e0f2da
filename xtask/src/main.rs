//! Tasks for people who work on Switchyard: `cargo run -p xtask -- tidy|bench|image|vm`.
//!
//! `bench` measures counts, ratios and memory against stated goals; see [`bench`]. `image` makes a container image; see
//! [`image`]. `vm` runs tests on other kernels; see [`vm`]. `tidy` checks the rules of CONTRIBUTING.md that the compiler and
//! clippy do not know. The same checks run as tests, so that `cargo test --workspace` is enough to find a breach.

mod bench;
mod finding;
mod graph;
mod image;
mod repository;
mod tidy;
mod vm;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::repository::Repository;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match task(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn task(arguments: &[String]) -> Result<()> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => report(&Repository::here()?),
        ["bench", rest @ ..] => bench::run(rest),
        ["image", rest @ ..] => image::run(rest),
        ["vm", rest @ ..] => vm::run(rest),
        [vm::MEASURE] => bench::ipvs::measure(),
        _ => bail!(
            "usage: cargo run --release -p xtask -- tidy | {} | {} | {}",
            bench::USAGE,
            image::USAGE,
            vm::USAGE
        ),
    }
}

/// Prints every breach of a rule; any breach is an error.
fn report(repository: &Repository) -> Result<()> {
    let findings = repository.findings()?;
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} breaches of the rules in CONTRIBUTING.md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;

    fn none(findings: &[Finding]) {
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{} breaches:\n{}", findings.len(), lines.join("\n"));
    }

    #[test]
    fn crate_graph_is_the_one_that_was_designed() {
        none(&Repository::here().unwrap().graph_findings().unwrap());
    }

    #[test]
    fn rust_files_are_tidy() {
        none(&Repository::here().unwrap().rust_findings().unwrap());
    }

    #[test]
    fn manifests_are_tidy() {
        none(&Repository::here().unwrap().manifest_findings().unwrap());
    }

    #[test]
    fn links_in_documents_lead_somewhere() {
        none(&Repository::here().unwrap().document_findings().unwrap());
    }

    #[test]
    fn translations_say_what_their_originals_say() {
        none(&Repository::here().unwrap().translation_findings().unwrap());
    }
}
