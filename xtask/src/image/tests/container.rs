//! What a container engine does with an image for a pod of `deploy/`, with the programs of this machine.
//!
//! In: an image, and what the pod is allowed. Out: its process on a node of the lab. The root, `/sys` and `/proc/sys` are read-only unless the
//! container is privileged; `/run/switchyard` and the lock of iptables are the node's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use switchyard_lab::{Host, Process};
use tempfile::TempDir;

use super::root_of;
use crate::image::Image;
use crate::vm::tool;

/// What a container may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// `privileged: true`.
    Everything,
    /// These capabilities alone, as `setpriv` wants them, and no way to more.
    Only(&'static str),
}

/// Mounts belong to the process and vanish with it. `$1` is the root, `$2` says whether it is confined.
const ENGINE: &str = r#"
set -e
root=$1 kind=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
if [ "$kind" = confined ]; then
  mount --bind "$root/proc/sys" "$root/proc/sys"
  mount --bind "$root/run/switchyard" "$root/run/switchyard"
  mount --bind "$root/run/xtables.lock" "$root/run/xtables.lock"
  mount -o remount,bind,ro "$root/proc/sys"
  mount -o remount,bind,ro "$root/sys"
  mount -o remount,bind,ro "$root"
fi
exec chroot "$root" "$@"
"#;

/// See the module.
pub(super) struct Container {
    root: TempDir,
    setpriv: Vec<String>,
}

impl Container {
    /// Nothing runs yet.
    pub(super) fn of(image: &Image) -> Self {
        let root = root_of(image);
        for directory in ["run/switchyard", "etc/switchyard"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("run/xtables.lock"), "").unwrap();
        let null = root.path().join("dev/null");
        tool::output(tool::command("mknod").args(["-m", "666"]).arg(null).args(["c", "1", "3"])).unwrap();
        let setpriv = bring_setpriv(root.path());
        Self { root, setpriv }
    }

    /// A path inside, seen from outside.
    pub(super) fn path(&self, inside: &str) -> PathBuf {
        self.root.path().join(inside.trim_start_matches('/'))
    }

    /// A file that the pod mounts.
    pub(super) fn put(&self, inside: &str, content: &str) {
        fs::write(self.path(inside), content).unwrap();
    }

    /// Starts a command of the image on a node.
    pub(super) fn start(&self, node: &Host, allowed: Allowed, command: &[&str]) -> Process {
        let mut engine = Command::new(tool::find("unshare").unwrap());
        engine.args(["--mount", "--", "sh", "-c", ENGINE, "engine"]).arg(self.root.path());
        match allowed {
            Allowed::Everything => engine.arg("privileged"),
            Allowed::Only(capabilities) => engine
                .arg("confined")
                .args(&self.setpriv)
                .arg(format!("--bounding-set=-all{capabilities}"))
                .arg("--no-new-privs"),
        };
        engine.args(command);
        engine.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        node.start(&mut engine, &self.path("log")).unwrap()
    }
}

/// `setpriv` with its libraries, beside the image's own files: whoever entered the root can still take capabilities away.
fn bring_setpriv(root: &Path) -> Vec<String> {
    let aside = root.join("aside");
    fs::create_dir(&aside).unwrap();
    let setpriv = tool::find("setpriv").unwrap();
    let mut loader = String::new();
    for file in tool::libraries(&setpriv).unwrap().into_iter().chain([setpriv]) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        fs::copy(&file, aside.join(&name)).unwrap();
        if name.starts_with("ld-") {
            loader = format!("/aside/{name}");
        }
    }
    [&loader, "--library-path", "/aside", "/aside/setpriv"].map(str::to_owned).to_vec()
}
