//! The crate graph: which crate may know what.
//!
//! In: `cargo metadata` and the lock file. Out: findings. Dependencies for tests are free, with one exception: nobody
//! depends on the agent. A crate boundary exists where a dependency must be impossible; see ARCHITECTURE.md.

mod lock;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::finding::Finding;
pub(crate) use lock::Lock;

const AGENT: &str = "switchyard";

/// What a crate may depend on among our own.
enum Ours {
    Only(&'static [&'static str]),
    Any,
}

/// One row of the table in ARCHITECTURE.md.
struct Row {
    name: &'static str,
    ours: Ours,
    /// Crates from elsewhere that it must not name in its manifest.
    never: &'static [&'static str],
    /// Crates from elsewhere that must not be behind any of its dependencies either.
    never_reach: &'static [&'static str],
}

/// An async runtime, or something that cannot be without one.
const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "mio", "hyper", "axum", "kube", "reqwest"];
/// The same, and logging: a pure function says what it thinks in its result.
const RUNTIMES_AND_LOGGING: &[&str] =
    &["tokio", "async-std", "smol", "mio", "hyper", "axum", "kube", "reqwest", "tracing", "log"];
/// IO, clocks and randomness by the front door.
const OUTSIDE_WORLD: &[&str] = &[
    "anyhow",
    "chrono",
    "jiff",
    "libc",
    "netlink-sys",
    "nix",
    "notify",
    "rand",
    "rustix",
    "serde_json",
    "socket2",
    "tempfile",
    "time",
];
const ANYHOW: &[&str] = &["anyhow"];

const TABLE: [Row; 12] = [
    Row {
        name: "switchyard-model",
        ours: Ours::Only(&[]),
        never: OUTSIDE_WORLD,
        never_reach: RUNTIMES_AND_LOGGING,
    },
    Row {
        name: "switchyard-plan",
        ours: Ours::Only(&["switchyard-model"]),
        never: OUTSIDE_WORLD,
        never_reach: RUNTIMES_AND_LOGGING,
    },
    Row {
        name: "switchyard-source",
        ours: Ours::Only(&["switchyard-model"]),
        never: ANYHOW,
        never_reach: &[],
    },
    Row { name: "switchyard-netlink", ours: Ours::Only(&[]), never: ANYHOW, never_reach: RUNTIMES },
    Row { name: "switchyard-relay", ours: Ours::Only(&[]), never: ANYHOW, never_reach: &["kube", "hyper"] },
    Row {
        name: "switchyard-apply",
        ours: Ours::Only(&["switchyard-model", "switchyard-plan", "switchyard-netlink", "switchyard-relay"]),
        never: ANYHOW,
        never_reach: RUNTIMES,
    },
    Row {
        name: "switchyard-serve",
        ours: Ours::Only(&["switchyard-model"]),
        never: ANYHOW,
        never_reach: &["kube"],
    },
    Row { name: "switchyard-heap", ours: Ours::Only(&[]), never: ANYHOW, never_reach: RUNTIMES_AND_LOGGING },
    Row {
        name: "switchyard-config",
        ours: Ours::Only(&[]),
        never: ANYHOW,
        never_reach: RUNTIMES_AND_LOGGING,
    },
    Row {
        name: "switchyard-lab",
        ours: Ours::Only(&["switchyard-model", "switchyard-netlink"]),
        never: ANYHOW,
        never_reach: RUNTIMES,
    },
    Row { name: AGENT, ours: Ours::Any, never: &[], never_reach: &[] },
    Row { name: "xtask", ours: Ours::Any, never: &[], never_reach: &[] },
];

/// One crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

/// One line of its manifest.
#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or nothing.
    kind: Option<String>,
    /// Where it comes from; nothing for a path.
    source: Option<String>,
}

impl Dependency {
    fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }

    fn is_ours(&self) -> bool {
        self.source.is_none()
    }
}

/// Reads the output of `cargo metadata --no-deps`.
pub(crate) fn packages(metadata: &str) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let metadata: Metadata =
        serde_json::from_str(metadata).context("cargo metadata is not what it used to be")?;
    Ok(metadata.packages)
}

/// Every dependency that the table forbids, and every crate that is not in it.
pub(crate) fn findings(packages: &[Package], lock: &Lock) -> Vec<Finding> {
    packages.iter().flat_map(|package| of_package(package, lock)).collect()
}

fn of_package(package: &Package, lock: &Lock) -> Vec<Finding> {
    let Some(row) = TABLE.iter().find(|row| row.name == package.name) else {
        return vec![Finding::of(&package.name, "a new crate: add it to the table in xtask/src/graph.rs")];
    };
    package.dependencies.iter().flat_map(|dependency| of_dependency(row, dependency, lock)).collect()
}

fn of_dependency(row: &Row, dependency: &Dependency, lock: &Lock) -> Vec<Finding> {
    let name = dependency.name.as_str();
    if dependency.is_ours() && name == AGENT {
        return vec![Finding::of(row.name, "must not depend on the agent; nobody does")];
    }
    if dependency.is_for_tests() {
        return Vec::new();
    }
    if dependency.is_ours() {
        let allowed = match row.ours {
            Ours::Any => true,
            Ours::Only(list) => list.contains(&name),
        };
        return if allowed {
            Vec::new()
        } else {
            vec![Finding::of(row.name, format!("must not depend on {name}"))]
        };
    }
    if row.never.contains(&name) {
        return vec![Finding::of(row.name, format!("must not depend on {name}"))];
    }
    row.never_reach
        .iter()
        .filter_map(|banned| lock.way(name, banned))
        .map(|way| Finding::of(row.name, format!("must not reach {way}")))
        .collect()
}
