//! For the tests of this crate: a private namespace, or a loud skip.

use std::io::{Write, stderr};

use crate::netns::Namespace;

/// A fresh namespace. Without root it prints why it skips; `LAB=require` turns the skip into a failure.
pub(crate) fn namespace_or_skip() -> Option<Namespace> {
    match Namespace::new() {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            let reason = format!(
                "{error}: {}",
                std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
            );
            assert!(std::env::var("LAB").as_deref() != Ok("require"), "LAB=require, but: {reason}");
            // Not `eprintln!`: the harness hides what a passing test prints with it.
            writeln!(stderr(), "SKIPPED: {reason} (network namespaces need root)").unwrap();
            None
        }
    }
}

/// Runs a program in the namespace of the calling thread and insists on success.
pub(crate) fn exec(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
