//! The command line: kube-proxy's flags, and ours.
//!
//! In: the process arguments, and the file that `--config` names. Out: [`Flags`], the texts as given, and from them
//! [`Config`], typed and checked.
//!
//! Invariants
//! - Flags are read as kube-proxy reads them, and all problems of flags and file come at once.
//! - With `--config`, exactly the flags count that kube-proxy heeds too: logging, `--hostname-override`, `--master`,
//!   what to do (`--cleanup` and the like), and our own.
//! - Every flag of kube-proxy 1.36 on Linux is known. What has no effect here is said in [`Config::notes`].

mod check;
mod completion;
mod config;
mod ctl;
mod demo;
mod file;
mod given;
mod own;
mod table;
mod typed;
mod value;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Parser, Subcommand};

pub use completion::{CompletionFlags, Shell};
pub use config::{
    Config, Conntrack, Dashboard, IptablesBackend, LocalMode, Mode, NodePortRanges, OnBindFailure, Source,
    Task,
};
pub use ctl::{
    ADMIN_SOCKET, Asking, CheckFlags, CleanupFlags, DiffFlags, ExplainFlags, GetFlags, ListOutput, Output,
    Resource, own_admin_socket,
};
pub use demo::DemoFlags;
pub use own::default_service_ranges;

/// What `--help` says at its end.
const EXAMPLES: &str = "\
Examples:
  switchyard demo
      Show it at work on this machine, in network namespaces of its own; no cluster needed.
  switchyard --manifests ./examples --hostname-override node-1 -v 4
      Serve the Services in a directory of YAML files. No API server; edits take effect at once.
  switchyard --config /var/lib/kube-proxy/config.conf --hostname-override \"$(NODE_NAME)\"
      In kubeadm's DaemonSet: kube-proxy's own arguments and ConfigMap, another image.
  switchyard --kubeconfig /var/lib/kube-proxy/kubeconfig.conf --cluster-cidr 10.244.0.0/16
      Serve a cluster from outside of a pod.
  switchyard explain --from 10.1.0.9 --to 10.96.0.10:80
      Ask the agent that runs on this node where that packet goes, and why.
  switchyard get services -o wide
      List what it serves.
  switchyard diff
      Does the kernel hold what it should? Exit code 1 if not.
  switchyard check
      What does this node offer for each mode?
  switchyard cleanup --dry-run
      List every rule that it ever wrote; without --dry-run, remove them.

Booleans take a value as in kube-proxy: --masquerade-all and --masquerade-all=true are the same. Names may be \
written with _ for -. Further flags of kube-proxy are accepted; with --config, those for which the file has a field \
are ignored, but for logging and --hostname-override.";

/// Sends the traffic of Kubernetes Services to their endpoints, on this node. Takes kube-proxy's flags.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "switchyard",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    disable_version_flag = true,
    disable_help_subcommand = true,
    max_term_width = 110,
    next_line_help = true,
    subcommand_help_heading = "Subcommands"
)]
pub struct Flags {
    /// What to do instead of running the proxy.
    #[command(subcommand)]
    pub command: Option<Command>,

    #[command(flatten)]
    given: given::Given,
}

/// What to do instead of running the proxy.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show Services at work in network namespaces of their own, with traffic, failures and repairs
    Demo(DemoFlags),
    /// Ask the agent of this node where a packet goes, and why
    Explain(ExplainFlags),
    /// List what the agent of this node serves
    Get(GetFlags),
    /// Compare what the kernel of this node holds with what it should hold. Nothing printed, and exit code 0, if nothing differs; 1 if
    /// something does; 2 if it cannot be said
    Diff(DiffFlags),
    /// Say what this node's kernel and programs offer for each mode. Exit code 1 if the mode cannot work
    Check(CheckFlags),
    /// Remove every rule that any mode, kube-proxy's or ours, ever wrote on this node: the same as --cleanup
    Cleanup(CleanupFlags),
    /// Print a script that completes the command line of this program
    Completion(CompletionFlags),
    /// Print the manual page, as `switchyard man | man -l -` shows it
    Man,
}

impl Flags {
    /// Reads the arguments of the process, program name first. An error is text for people, or the help that was
    /// asked for: print it, and exit with 1 if it `use_stderr()`, as kube-proxy does, else with 0.
    pub fn read(args: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::try_parse_from(normalise(args))
    }

    /// What to print if the version is asked for; nothing else happens then.
    pub fn version_text(&self) -> Option<String> {
        // kube-proxy has a longer form called raw; ours has nothing to add.
        let asked = self.given.last("version")?;
        let is_asked = asked == "raw" || switchyard_config::number::boolean(asked) == Some(true);
        is_asked.then(|| concat!("Switchyard v", env!("CARGO_PKG_VERSION")).to_owned())
    }
}

/// Writes `-` for `_` in the names of flags, not in their values, up to a bare `--`.
pub fn normalise(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut are_flags_over = false;
    args.map(|arg| {
        are_flags_over |= arg == "--";
        if are_flags_over || !arg.as_bytes().starts_with(b"--") {
            return arg;
        }
        let mut bytes = arg.into_vec();
        for byte in bytes.iter_mut().take_while(|byte| **byte != b'=').filter(|byte| **byte == b'_') {
            *byte = b'-';
        }
        OsString::from_vec(bytes)
    })
    .collect()
}
