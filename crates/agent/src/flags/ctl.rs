//! The flags of the subcommands that ask a running agent.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{IptablesBackend, Mode};

/// Where an agent answers unless it was told otherwise.
pub const ADMIN_SOCKET: &str = "/run/switchyard/admin.sock";

/// Where an agent of an ordinary user answers unless it was told otherwise: such a user cannot make the other one.
pub fn own_admin_socket() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    runtime.map(|path| path.join("switchyard/admin.sock"))
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For both.
    Yaml,
}

/// How to print a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListOutput {
    /// For people.
    #[default]
    Table,
    /// With more columns, and with texts in full that the table cuts.
    Wide,
    /// For programs.
    Json,
    /// For both.
    Yaml,
    /// Only names, one per line: NAMESPACE/NAME, of changes their numbers.
    Name,
}

/// Whom to ask, and how to print the answer.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
pub struct Asking {
    /// The admin socket of the agent
    #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
    pub admin_socket: PathBuf,

    /// How to print
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: Output,
}

/// Flags of `switchyard check`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct CheckFlags {
    /// The mode whose absence is a failure
    #[arg(long, value_name = "MODE", default_value = "iptables", value_parser = ["iptables", "nftables", "ipvs", "userspace"])]
    proxy_mode: String,

    /// The scheduler that ipvs mode would use
    #[arg(long, value_name = "NAME", default_value = "rr")]
    pub ipvs_scheduler: String,

    /// How to print
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: Output,
}

impl CheckFlags {
    /// The mode whose absence is a failure.
    pub fn mode(&self) -> Mode {
        let all = [Mode::Nftables, Mode::Ipvs, Mode::Userspace];
        all.into_iter().find(|mode| mode.as_str() == self.proxy_mode).unwrap_or(Mode::Iptables)
    }
}

/// Flags of `switchyard cleanup`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct CleanupFlags {
    /// Only list what would go
    #[arg(long)]
    pub dry_run: bool,

    /// Which iptables to look at; auto is every one that this node has
    #[arg(long, value_enum, default_value = "auto", value_name = "VARIANT")]
    pub iptables_backend: IptablesBackend,

    /// How to print the list
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: Output,
}

/// Flags of `switchyard diff`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct DiffFlags {
    /// Whom to ask, and how to print.
    #[command(flatten)]
    pub asking: Asking,
}

/// Flags of `switchyard explain`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct ExplainFlags {
    /// Who sends: an IP address, or a pod that is an endpoint of a Service: web-0, shop/web-0. Without it, this node
    #[arg(long, value_name = "IP|[NAMESPACE/]POD")]
    pub from: Option<String>,

    /// What is dialled, for example 10.96.0.10:80, 10.96.0.10:53/udp, [fd00::10]:80, or a Service: web, shop/web, shop/web:http
    #[arg(long, value_name = "IP:PORT|[NAMESPACE/]SERVICE[:PORT][/PROTOCOL]")]
    pub to: String,

    /// The interface that the packet comes in on, where pods are told by interfaces
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,

    /// Also send a packet from this node, and compare who got it. Exit code 1 if that is somebody else, 2 if it cannot be said
    #[arg(long)]
    pub probe: bool,

    /// Whom to ask, and how to print.
    #[command(flatten)]
    pub asking: Asking,
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Resource {
    /// Service ports.
    #[value(alias = "service", alias = "svc")]
    Services,
    /// Their endpoints.
    #[value(alias = "endpoint", alias = "ep")]
    Endpoints,
    /// What happens to packets for each address that clients dial.
    #[value(alias = "route")]
    Routes,
    /// What was set aside, and why.
    Quarantine,
    /// What the last syncs did.
    #[value(alias = "change")]
    Changes,
}

/// Flags of `switchyard get`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct GetFlags {
    /// What to list
    #[arg(value_enum)]
    pub resource: Resource,

    /// Only what is of Services with these names: NAME or NAMESPACE/NAME. Exit code 1 if one of them is not served here
    #[arg(value_name = "NAME", conflicts_with = "selector")]
    pub names: Vec<String>,

    /// Only what is of this namespace
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,

    /// All namespaces, as without --namespace
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub all_namespaces: bool,

    /// Only Services with these labels, as for kubectl: app=web, tier!=back, tier in (front,back), tier notin (back), app, !app; commas mean and
    #[arg(long, short = 'l', value_name = "LABELS")]
    pub selector: Option<String>,

    /// Leave the line with the names of the columns out
    #[arg(long)]
    pub no_headers: bool,

    /// The admin socket of the agent
    #[arg(long, value_name = "PATH", default_value = ADMIN_SOCKET)]
    pub admin_socket: PathBuf,

    /// How to print
    #[arg(long, short, value_enum, default_value = "table")]
    pub output: ListOutput,
}
