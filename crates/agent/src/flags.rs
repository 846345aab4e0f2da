//! The command line: kube-proxy's flags, and ours.
//!
//! In: the process arguments. Out: [`Flags`], the texts as given, and from them [`Config`], typed and checked.
//!
//! Invariants
//! - A text is looked at in one place, [`Flags::check`], which finds all problems at once.
//! - Every flag of kube-proxy 1.36 on Linux is known. It works, is accepted without effect and named in
//!   [`Flags::ignored`], or, where ignoring it would change what the process does, is refused.

mod boolean;
mod check;
mod compat;
mod config;
mod demo;
mod value;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Parser, Subcommand};

use boolean::Boolean;
pub use config::{Config, IptablesBackend, LocalMode, Mode, NodePortRanges, OnBindFailure, Source, Task};
pub use demo::DemoFlags;

/// What `--help` says at its end.
const EXAMPLES: &str = "\
Examples:
  switchyard demo
      Show it at work on this machine, in network namespaces of its own; no cluster needed.
  switchyard --manifests ./examples --hostname-override node-1 -v 4
      Serve the Services in a directory of YAML files. No API server; edits take effect at once.
  switchyard --kubeconfig /var/lib/kube-proxy/kubeconfig.conf --cluster-cidr 10.244.0.0/16
      Serve a cluster from outside of a pod.
  switchyard --hostname-override \"$(NODE_NAME)\" --cluster-cidr 10.244.0.0/16
      In a DaemonSet, with the pod's service account: kube-proxy's own arguments, another image.
  switchyard --cleanup
      Remove every rule that it ever wrote, and exit.

Booleans take a value as in kube-proxy: --masquerade-all and --masquerade-all=true are the same. Names may be \
written with _ for -.";

/// Sends the traffic of Kubernetes Services to their endpoints, on this node. Takes kube-proxy's flags.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "switchyard",
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    args_override_self = true,
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

    /// File with the address and credentials of the API server; without it and --master, the pod's service account
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true, help_heading = "Source")]
    pub kubeconfig: String,

    /// URL of the API server, instead of the one in --kubeconfig
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true, help_heading = "Source")]
    pub master: String,

    /// File or directory of YAML or JSON with Services, EndpointSlices, Endpoints and Nodes, to use and watch instead
    /// of an API server
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true, help_heading = "Source")]
    pub manifests: String,

    /// With --manifests: where Services that name no cluster IP get one from, at most one range per family
    #[arg(
        long,
        value_name = "CIDRS",
        default_value = DEFAULT_SERVICE_RANGES,
        help_heading = "Source"
    )]
    pub service_cluster_ip_range: String,

    /// Name of the Node object of this machine, if it is not the host name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, help_heading = "Node")]
    pub hostname_override: String,

    /// Address of this node, instead of the one in its Node object; also decides the primary IP family. Nothing
    /// listens on it
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", help_heading = "Node")]
    pub bind_address: String,

    /// Where node ports answer: local addresses in these CIDRs, or `primary` for the node's own. Without it, everywhere; in
    /// nftables mode, `primary`
    #[arg(long, value_name = "CIDRS", value_delimiter = ',', action = clap::ArgAction::Append, help_heading = "Node")]
    pub nodeport_addresses: Vec<String>,

    /// How pods of this node are told from other clients, whose traffic needs masquerading: ClusterCIDR, NodeCIDR,
    /// BridgeInterface or InterfaceNamePrefix. Empty means ClusterCIDR
    #[arg(
        long,
        value_name = "MODE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Local traffic"
    )]
    pub detect_local_mode: String,

    /// For ClusterCIDR: the addresses of pods, at most one range per family. Empty means that pods cannot be told
    #[arg(
        long,
        value_name = "CIDRS",
        default_value = "",
        hide_default_value = true,
        help_heading = "Local traffic"
    )]
    pub cluster_cidr: String,

    /// For BridgeInterface: the bridge that pods are attached to, such as cni0
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        help_heading = "Local traffic"
    )]
    pub pod_bridge_interface: String,

    /// For InterfaceNamePrefix: how names of pod interfaces begin, such as veth
    #[arg(
        long,
        value_name = "PREFIX",
        default_value = "",
        hide_default_value = true,
        help_heading = "Local traffic"
    )]
    pub pod_interface_name_prefix: String,

    /// How Services are put into the kernel: iptables or nftables. Empty means iptables
    #[arg(long, value_name = "MODE", default_value = "", hide_default_value = true, help_heading = "Rules")]
    pub proxy_mode: String,

    /// Give all traffic to cluster IPs this node's address as its source, also that of pods
    #[arg(long, help_heading = "Rules", default_value = "false", default_missing_value = "true",
          num_args = 0..=1, require_equals = true, hide_default_value = true, value_name = "BOOL")]
    pub masquerade_all: Boolean,

    /// Time until rules that could not be written are tried again. Changes do not wait for it
    #[arg(long, value_name = "DURATION", default_value = "30s", help_heading = "Rules")]
    pub iptables_sync_period: String,

    /// Least time between two writes of rules; changes in between are gathered. 0 writes each change at once
    #[arg(long, value_name = "DURATION", default_value = "1s", help_heading = "Rules")]
    pub iptables_min_sync_period: String,

    /// Remove the rules of all modes and exit; needs no API server
    #[arg(long, help_heading = "Rules", default_value = "false", default_missing_value = "true",
          num_args = 0..=1, require_equals = true, hide_default_value = true, value_name = "BOOL")]
    pub cleanup: Boolean,

    /// Which iptables to use: nft, legacy, or auto for the one that the node already uses
    #[arg(long, value_name = "VARIANT", default_value = "auto", help_heading = "iptables mode")]
    pub iptables_backend: String,

    /// Which bit of the packet mark asks for masquerading, 0 to 31. Change it if another program uses the bit
    #[arg(long, value_name = "BIT", default_value = "14", help_heading = "iptables mode")]
    pub iptables_masquerade_bit: String,

    /// Node ports also answer on 127.0.0.1 (IPv4 only). It sets the sysctl route_localnet
    #[arg(long, help_heading = "iptables mode", default_value = "true", default_missing_value = "true",
          num_args = 0..=1, require_equals = true, value_name = "BOOL")]
    pub iptables_localhost_nodeports: Boolean,

    /// Where /healthz and /livez are served, for load balancers and the kubelet
    #[arg(
        long,
        value_name = "IP[:PORT]",
        default_value = "0.0.0.0:10256",
        help_heading = "Health and metrics"
    )]
    pub healthz_bind_address: String,

    /// Where /metrics is served
    #[arg(
        long,
        value_name = "IP[:PORT]",
        default_value = "127.0.0.1:10249",
        help_heading = "Health and metrics"
    )]
    pub metrics_bind_address: String,

    /// Exit if a server cannot listen, instead of trying again
    #[arg(long, help_heading = "Health and metrics", default_value = "false", default_missing_value = "true",
          num_args = 0..=1, require_equals = true, hide_default_value = true, value_name = "BOOL")]
    pub bind_address_hard_fail: Boolean,

    /// Port for --healthz-bind-address if that has none; 0 turns the server off. Deprecated in kube-proxy
    #[arg(long, default_value = "10256", hide = true)]
    pub healthz_port: String,

    /// Port for --metrics-bind-address if that has none. Deprecated in kube-proxy
    #[arg(long, default_value = "10249", hide = true)]
    pub metrics_port: String,

    /// How much to log: 0 changes and failures, 4 details, 6 everything of ours, 8 also libraries
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0", help_heading = "Logging")]
    pub verbosity: String,

    /// text, or json with one object per line
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = "Logging")]
    pub logging_format: String,

    /// Print the version and exit
    #[arg(long, default_value = "false", default_missing_value = "true",
          num_args = 0..=1, require_equals = true, hide_default_value = true, value_name = "BOOL")]
    pub version: Boolean,

    #[command(flatten)]
    compat: compat::Given,
}

/// Where Services of manifests get cluster IPs from unless the operator says otherwise.
const DEFAULT_SERVICE_RANGES: &str = "10.96.0.0/12,fd00:10:96::/112";

/// The same as values.
pub fn default_service_ranges() -> Vec<ipnet::IpNet> {
    DEFAULT_SERVICE_RANGES.split(',').filter_map(|range| range.parse().ok()).collect()
}

/// What to do instead of running the proxy.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show Services at work in network namespaces of their own, with traffic, failures and repairs
    Demo(DemoFlags),
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
        let is_asked = self.version.as_text() == "raw" || self.version.read() == Some(true);
        is_asked.then(|| concat!("Switchyard v", env!("CARGO_PKG_VERSION")).to_owned())
    }

    /// Flags that were given and are accepted only so that kube-proxy's command lines work, as `--name`.
    pub fn ignored(&self) -> Vec<String> {
        self.compat.without_effect()
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
