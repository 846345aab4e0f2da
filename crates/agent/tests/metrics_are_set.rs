//! Every metric that `serve` declares is set by somebody: one that never changes would be a promise that nobody keeps.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

/// All sources below a directory, but for tests.
fn sources(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| match path {
        path if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") => sources(&path),
        path if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs") =>
        {
            fs::read_to_string(path).unwrap()
        }
        _ => String::new(),
    };
    entries.map(text).collect()
}

#[test]
fn every_declared_metric_is_set() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let declared = fs::read_to_string(crates.join("serve/src/metrics.rs")).unwrap();
    let methods = declared.lines().filter_map(|line| line.strip_prefix("    pub fn ")?.split_once("(&self"));
    let setters: Vec<&str> = methods.map(|(name, _)| name).filter(|name| *name != "render").collect();
    let callers = sources(&crates.join("agent/src")) + &sources(&crates.join("serve/src/server"));
    let unset: Vec<_> = setters.iter().filter(|name| !callers.contains(&format!(".{name}("))).collect();
    assert!(setters.len() > 15 && unset.is_empty(), "nobody calls {unset:?} of {setters:?}");
}
