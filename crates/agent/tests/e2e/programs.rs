//! The Go programs that `scripts/build-e2e` makes out of `e2e/`.
//!
//! Out: a path, or a loud skip; `E2E=require` in the environment turns that into a failure.

use std::path::{Path, PathBuf};

use crate::common::variant::say;

/// etcd and kube-apiserver.
pub(crate) const CONTROL_PLANE: &str = "controlplane";

/// Upstream's kube-proxy.
pub(crate) const KUBE_PROXY: &str = "kube-proxy";

/// Where a program is; prints why there is none.
pub(crate) fn find_or_skip(name: &str) -> Option<PathBuf> {
    // The agent is in target/debug, these are in target/e2e.
    let target = Path::new(env!("CARGO_BIN_EXE_switchyard")).ancestors().nth(2).unwrap();
    let path = target.join("e2e").join(name);
    if path.exists() {
        return Some(path);
    }
    let reason = format!("{} is not there; scripts/build-e2e builds it and needs Go", path.display());
    assert!(std::env::var("E2E").as_deref() != Ok("require"), "E2E=require, but {reason}");
    say(&format!("SKIPPED: {reason}"));
    None
}
