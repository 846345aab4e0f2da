//! The flags after they were checked: every field has a type of its own, and any value of it can be used.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use ipnet::IpNet;
use switchyard_config::Configuration;
use switchyard_plan::settings::{LoopbackNodePorts, MasqueradeClusterIp};

use crate::logging::Logging;

/// What the process is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Run the proxy.
    Proxy,
    /// Do what needs full privileges, and exit.
    Init,
    /// Write the configuration to a file, and exit.
    WriteConfig(PathBuf),
    /// Remove what the proxy wrote, and exit.
    Cleanup,
}

/// Where the objects come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An API server. With neither field, the one of the cluster that this pod runs in.
    Cluster {
        /// Address and credentials.
        kubeconfig: Option<PathBuf>,
        /// URL that wins over the one in the file.
        master: Option<String>,
    },
    /// Files.
    Manifests {
        /// A file or a directory.
        path: PathBuf,
    },
}

/// How Services are put into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// With iptables rules.
    Iptables,
    /// With one nftables table per family, written over netlink.
    Nftables,
    /// With virtual servers of IPVS.
    #[value(skip)]
    Ipvs,
    /// With listeners of this process.
    #[value(skip)]
    Userspace,
}

impl Mode {
    /// kube-proxy's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Nftables => "nftables",
            Self::Ipvs => "ipvs",
            Self::Userspace => "userspace",
        }
    }
}

/// Which variant of the iptables programs to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IptablesBackend {
    /// The one that the node already uses.
    Auto,
    /// The one that writes nf_tables.
    Nft,
    /// The older one.
    Legacy,
}

/// How traffic of local pods is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalMode {
    /// By the ranges of all pods; at most one per family, possibly none.
    ClusterCidr(Vec<IpNet>),
    /// By the ranges in the Node object.
    NodeCidr,
    /// By the bridge they are attached to.
    Bridge(String),
    /// By the beginning of the names of their interfaces.
    InterfacePrefix(String),
}

/// Which local addresses answer on node ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortRanges {
    /// All.
    All,
    /// The node's own address of each family.
    Primary,
    /// Those in these ranges; for a family without a range, all. Never empty.
    Cidrs(Vec<IpNet>),
}

/// What happens if a server cannot listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBindFailure {
    /// It is tried again.
    Retry,
    /// The process ends.
    Exit,
}

/// Whether there is a dashboard beside the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dashboard {
    /// There is none.
    Off,
    /// It is served to whoever can reach the metrics.
    On,
}

/// What the kernel's connection tracking is told. Nothing and zero leave a setting alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conntrack {
    /// Connections per CPU; with zero, the limit is left alone.
    pub max_per_core: u32,
    /// Connections at least.
    pub min: u32,
    /// How long an idle connection is kept.
    pub tcp_established_seconds: Option<u64>,
    /// How long a half-closed one is kept.
    pub tcp_close_wait_seconds: Option<u64>,
    /// How long UDP without an answer is kept.
    pub udp_seconds: Option<u64>,
    /// How long UDP with answers is kept.
    pub udp_stream_seconds: Option<u64>,
    /// Whether packets outside of the window are let through.
    pub is_liberal: bool,
}

/// The checked flags, or the checked file with some flags over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What to do.
    pub task: Task,
    /// Where objects come from.
    pub source: Source,
    /// Where Services of manifests get cluster IPs from: one or two ranges, of different families.
    pub service_ranges: Vec<IpNet>,
    /// The node's name, trimmed and in lower case, if the host name is not to be used.
    pub hostname_override: Option<String>,
    /// The node's address, if given.
    pub bind_address: Option<IpAddr>,
    /// Where node ports answer.
    pub node_ports: NodePortRanges,
    /// How local pods are told.
    pub local_mode: LocalMode,
    /// How Services are put into the kernel.
    pub mode: Mode,
    /// Which cluster-IP traffic is masqueraded.
    pub masquerade: MasqueradeClusterIp,
    /// Time until a failed write is tried again. Above zero.
    pub sync_period: Duration,
    /// Least time between two writes. Not above `sync_period`. In nftables mode none, unless somebody set it.
    pub min_sync_period: Duration,
    /// The iptables variant.
    pub iptables_backend: IptablesBackend,
    /// The packet mark that asks for masquerading: one bit.
    pub masquerade_mark: u32,
    /// Whether node ports shall answer on loopback, where they can.
    pub loopback_node_ports: LoopbackNodePorts,
    /// Where health is served, if at all.
    pub healthz: Option<SocketAddr>,
    /// Where metrics are served.
    pub metrics: SocketAddr,
    /// Where the operator's questions are answered, if at all.
    pub admin_socket: Option<PathBuf>,
    /// Whether metrics have a dashboard beside them.
    pub dashboard: Dashboard,
    /// What happens if one of these cannot listen.
    pub on_bind_failure: OnBindFailure,
    /// How to log.
    pub logging: Logging,
    /// What connection tracking is told.
    pub conntrack: Conntrack,
    /// How readily the kernel ends this process when memory is short.
    pub oom_score_adj: i32,
    /// The file that all this came from, to be watched.
    pub config_file: Option<PathBuf>,
    /// All of it as kube-proxy's configuration.
    pub configuration: Configuration,
    /// Every flag with its value, as text.
    pub flags: BTreeMap<String, String>,
    /// What the operator should know: fields that were read leniently, flags without effect. One line each.
    pub notes: Vec<String>,
}

impl Config {
    /// The node's name: the override, or else the host name, trimmed and in lower case. None if nothing is left.
    pub fn node_name(&self, host_name: &str) -> Option<String> {
        let name = self.hostname_override.as_deref().unwrap_or(host_name).trim().to_lowercase();
        (!name.is_empty()).then_some(name)
    }
}
