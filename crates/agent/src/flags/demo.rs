//! The flags of `switchyard demo`.

use std::path::PathBuf;

use clap::Args;

use super::{IptablesBackend, Mode};

/// Flags of `switchyard demo`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct DemoFlags {
    /// Stop after one pass, instead of going on until Ctrl-C
    #[arg(long)]
    pub once: bool,

    /// How Services are put into the kernel
    #[arg(long, value_enum, default_value = "iptables")]
    pub mode: Mode,

    /// Directory of YAML files to serve, instead of the built-in examples
    #[arg(long, value_name = "PATH")]
    pub examples: Option<PathBuf>,

    /// Which iptables to use; auto is the one that the node already uses
    #[arg(long, value_enum, default_value = "auto", value_name = "VARIANT")]
    pub iptables_backend: IptablesBackend,

    /// Print without colours
    #[arg(long)]
    pub no_color: bool,
}
