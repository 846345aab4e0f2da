//! The Go programs that `scripts/build-e2e` makes out of `e2e/`, which iptables they find, and Prometheus' `promtool`.
//!
//! Out: a path, or a loud skip; `E2E=require` in the environment turns that into a failure.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::variant::say;

/// etcd and kube-apiserver.
pub(crate) const CONTROL_PLANE: &str = "controlplane";

/// Upstream's kube-proxy.
pub(crate) const KUBE_PROXY: &str = "kube-proxy";

/// Renders a Helm chart.
pub(crate) const CHART: &str = "chart";

/// Where a program is; prints why there is none.
pub(crate) fn find_or_skip(name: &str) -> Option<PathBuf> {
    // The agent is in target/debug, these are in target/e2e.
    let target = Path::new(env!("CARGO_BIN_EXE_switchyard")).ancestors().nth(2).unwrap();
    let path = target.join("e2e").join(name);
    if path.exists() {
        return Some(path);
    }
    skip(&format!("{} is not there; scripts/build-e2e builds it and needs Go", path.display()))
}

/// Where `promtool` is; prints why there is none.
pub(crate) fn promtool_or_skip() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("promtool")).find(|path| path.is_file());
    found.or_else(|| skip("promtool is not there; it is in Debian's package prometheus"))
}

fn skip(reason: &str) -> Option<PathBuf> {
    assert!(std::env::var("E2E").as_deref() != Ok("require"), "E2E=require, but {reason}");
    say(&format!("SKIPPED: {reason}"));
    None
}

/// A search path whose iptables is that of a variant. It is made of links below `dir`, once.
pub(crate) fn search_path(dir: &Path, backend: Option<&str>) -> OsString {
    let bin = dir.join("programs");
    let is_new = std::fs::create_dir(&bin).is_ok();
    if let Some(backend) = backend.filter(|_| is_new) {
        let multi = PathBuf::from(format!("/usr/sbin/xtables-{backend}-multi"));
        for family in ["iptables", "ip6tables"] {
            for tool in ["", "-save", "-restore"] {
                symlink(&multi, bin.join(format!("{family}{tool}"))).unwrap();
            }
        }
    }
    let mut path = bin.into_os_string();
    path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
    path
}
