//! The flags of `switchyard completion`.

use clap::{Args, ValueEnum};

/// Whose completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// Flags of `switchyard completion`.
#[derive(Clone, Debug, Args, PartialEq, Eq)]
#[command(disable_version_flag = true)]
pub struct CompletionFlags {
    /// For which shell
    #[arg(value_enum)]
    pub shell: Shell,
}
