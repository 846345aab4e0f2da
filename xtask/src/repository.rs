//! Reads the working tree for the checks, which are pure functions over what is read here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::finding::Finding;
use crate::{graph, tidy};

/// The working tree: tracked files only, so that nobody's scratch files are judged.
pub(crate) struct Repository {
    root: PathBuf,
    tracked: BTreeSet<String>,
}

impl Repository {
    /// The repository that this program was built from.
    pub(crate) fn here() -> Result<Self> {
        let root = root()?;
        // The tree may belong to another user than the one who tests, as in a container; it is only read.
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(&root);
        let tracked = output(git)?
            .split('\0')
            .filter(|path| !path.is_empty() && root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        Ok(Self { root, tracked })
    }

    /// Everything there is to complain about.
    pub(crate) fn findings(&self) -> Result<Vec<Finding>> {
        let parts = [
            self.graph_findings()?,
            self.rust_findings()?,
            self.manifest_findings()?,
            self.document_findings()?,
            self.translation_findings()?,
        ];
        Ok(parts.concat())
    }

    /// Dependencies that the design forbids.
    pub(crate) fn graph_findings(&self) -> Result<Vec<Finding>> {
        let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        // The lock file says what lies behind a dependency, so nothing is fetched here.
        cargo.args(["metadata", "--format-version=1", "--no-deps", "--offline"]).current_dir(&self.root);
        let packages = graph::packages(&output(cargo)?)?;
        let lock = graph::Lock::parse(&self.read("Cargo.lock")?);
        Ok(graph::findings(&packages, &lock))
    }

    /// Rust files that are not tidy.
    pub(crate) fn rust_findings(&self) -> Result<Vec<Finding>> {
        self.each(".rs", tidy::rust_file)
    }

    /// Manifests without the lints of the workspace.
    pub(crate) fn manifest_findings(&self) -> Result<Vec<Finding>> {
        self.each("/Cargo.toml", tidy::manifest)
    }

    /// Links in documents that lead nowhere.
    pub(crate) fn document_findings(&self) -> Result<Vec<Finding>> {
        let read = |path: &Path| -> Option<String> {
            let found = self.root.join(path);
            if found.is_dir() {
                return Some(String::new());
            }
            // Links lead to pictures as well, which are no UTF-8.
            fs::read(found).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        self.each(".md", |path, text| tidy::document(path, text, &read))
    }

    /// Translations that say less than their originals: `README.zh.md` is one of `README.md`.
    pub(crate) fn translation_findings(&self) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for path in &self.tracked {
            let Some(original) = path.strip_suffix(".zh.md").map(|name| format!("{name}.md")) else {
                continue;
            };
            findings.extend(tidy::translation(path, &self.read(path)?, &self.read(&original)?));
        }
        Ok(findings)
    }

    fn each(&self, suffix: &str, check: impl Fn(&str, &str) -> Vec<Finding>) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for path in self.tracked.iter().filter(|path| path.ends_with(suffix)) {
            findings.extend(check(path, &self.read(path)?));
        }
        Ok(findings)
    }

    fn read(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).with_context(|| format!("cannot read {path}"))
    }
}

/// The root of the working tree that this program was built from.
pub(crate) fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask is not in a workspace")?.to_path_buf())
}

fn output(mut command: Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("{command:?} printed something that is not UTF-8"))
}
