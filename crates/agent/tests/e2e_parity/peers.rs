//! kube-proxy and switchyard with the same flags, each on node n1 of a lab of its own.
//!
//! In: a control plane with objects. Out: how the rules of the two differ. kube-proxy never runs outside of its lab's namespace, and finds
//! only the iptables programs of one variant.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use switchyard_lab::{Host, Lab, Node, Process};
use tempfile::TempDir;

use crate::common::looking::within;
use crate::common::ruleset::has_mark;
use crate::common::variant::Variant;
use crate::e2e::control_plane::ControlPlane;
use crate::e2e::gateway::Gateway;
use crate::rules::Rules;

/// How long both may take until they agree. Each may still be at work on an earlier change.
const AGREE: Duration = Duration::from_secs(20);

/// What both are started with. No pause between syncs, and no kernel setting is touched that all namespaces share.
const FLAGS: [&str; 5] = [
    "--hostname-override=n1",
    "--proxy-mode=iptables",
    "--iptables-min-sync-period=0s",
    "--conntrack-max-per-core=0",
    "--healthz-bind-address=0.0.0.0:10256",
];

/// One proxy. The order of the fields is that of their ends.
struct Proxy {
    process: Process,
    node: Host,
    _gateway: Gateway,
    _lab: Lab,
    _dir: TempDir,
}

/// See the module.
pub(crate) struct Peers {
    upstream: Proxy,
    ours: Proxy,
    variant: Variant,
}

impl Peers {
    pub(crate) fn start(
        kube_proxy: &Path,
        control_plane: &ControlPlane,
        variant: Variant,
        flags: &[String],
    ) -> Self {
        let upstream = Proxy::start(Command::new(kube_proxy), control_plane, variant, flags);
        let mut ours = Command::new(env!("CARGO_BIN_EXE_switchyard"));
        ours.arg(variant.flag());
        Self { upstream, ours: Proxy::start(ours, control_plane, variant, flags), variant }
    }

    /// Waits until both have rules for a marker and agree. The number of rules, or the last difference.
    pub(crate) fn compare(&mut self, port: u16) -> Result<usize, String> {
        let (mut difference, mut count) = (String::new(), 0);
        let agreed = within(AGREE, || {
            let late = [&self.upstream, &self.ours].map(|proxy| !has_mark(&proxy.node, self.variant, port));
            difference = match late {
                [true, _] => "  kube-proxy is not in time\n".to_owned(),
                [_, true] => "  switchyard is not in time\n".to_owned(),
                _ => self.difference(&mut count),
            };
            difference.is_empty()
        });
        if agreed { Ok(count) } else { Err(difference + &self.ends()) }
    }

    fn difference(&self, count: &mut usize) -> String {
        *count = 0;
        let mut text = String::new();
        for tool in ["iptables", "ip6tables"] {
            let tool = format!("{tool}-{}-save", self.variant.backend().unwrap());
            let [theirs, ours] = [&self.upstream, &self.ours]
                .map(|proxy| Rules::parse(&proxy.node.exec_ok::<&str>(&tool, &[]).unwrap()));
            *count += theirs.count();
            text.push_str(&Rules::difference(&theirs, &ours));
        }
        text
    }

    /// Why one of them may have ended.
    fn ends(&mut self) -> String {
        let mut text = String::new();
        for proxy in [&mut self.upstream, &mut self.ours] {
            if let Some(status) = proxy.process.exit_status().unwrap() {
                text.push_str(&format!("  ended with {status}:\n{}\n", proxy.process.log().unwrap()));
            }
        }
        text
    }
}

impl Proxy {
    fn start(mut command: Command, control_plane: &ControlPlane, variant: Variant, flags: &[String]) -> Self {
        let (lab, dir) = (Lab::new().unwrap(), tempfile::tempdir().unwrap());
        let gateway = Gateway::open(&lab, control_plane);
        let node = lab.node(Node::N1).clone();
        command.arg("--kubeconfig").arg(control_plane.kubeconfig()).args(FLAGS).args(flags);
        command.env("PATH", programs(dir.path(), variant));
        command.env("XTABLES_LOCKFILE", dir.path().join("xtables.lock"));
        let process = node.start(&mut command, &dir.path().join("log")).unwrap();
        Self { process, node, _gateway: gateway, _lab: lab, _dir: dir }
    }
}

/// A search path whose iptables is that of a variant.
fn programs(dir: &Path, variant: Variant) -> std::ffi::OsString {
    let bin = dir.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let multi = PathBuf::from(format!("/usr/sbin/xtables-{}-multi", variant.backend().unwrap()));
    for family in ["iptables", "ip6tables"] {
        for tool in ["", "-save", "-restore"] {
            symlink(&multi, bin.join(format!("{family}{tool}"))).unwrap();
        }
    }
    let mut path = bin.into_os_string();
    path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
    path
}
