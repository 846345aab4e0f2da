//! The agent: flags, the loop, wiring and subcommands. It knows who talks to whom, and no details of any mode.
//!
//! | module | does |
//! |---|---|
//! | [`flags`] | reads and checks the command line and the configuration file |
//! | [`settings`] | from flags and the Node object to the planner's settings |
//! | [`external_ips`] | leaves external IPs out if their gate is off |
//! | [`kernel`] | what the kernel is told before the first rule |
//! | [`config_file`] | watches the configuration file |
//! | [`run`] | wires a proxy and runs it |
//! | [`probe`] | which families a mode can serve here |
//! | [`addresses`] | follows the addresses of this node |
//! | [`board`] | holds the latest changes between source and loop |
//! | [`pace`] | decides when to sync; a pure function of time |
//! | [`sync`] | the loop, and what follows a sync |
//! | [`ledger`] | what the last syncs did |
//! | [`notices`] | what becomes a Kubernetes Event |
//! | [`guard`] | notices when another program harms our rules |
//! | [`admin`] | what the admin socket answers |
//! | [`ctl`] | subcommands that ask it |
//! | [`ui`] | what the dashboard shows |
//! | [`check`] | `switchyard check` |
//! | [`cleanup`] | `--cleanup` and `switchyard cleanup` |
//! | [`demo`] | `switchyard demo` |
//! | [`offer`] | shell completions and the manual page |
//! | [`logging`] | log lines |
//! | `set_aside` | everything that was set aside, for lists of it |
//! | `escaped` | text from outside for programs that read it back |

pub mod addresses;
pub mod admin;
pub mod board;
pub mod check;
pub mod cleanup;
pub mod config_file;
pub mod ctl;
pub mod demo;
mod escaped;
pub mod external_ips;
pub mod flags;
pub mod guard;
pub mod kernel;
pub mod ledger;
pub mod logging;
pub mod notices;
pub mod offer;
pub mod pace;
pub mod pages;
pub mod probe;
pub mod run;
mod set_aside;
pub mod settings;
#[cfg(test)]
mod shelf;
pub mod sync;
pub mod ui;
