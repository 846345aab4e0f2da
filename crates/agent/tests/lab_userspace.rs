//! Userspace mode beyond scenarios with rules, which `lab_scenarios` runs: changes under connections that are held, faults, crowds, restarts,
//! endpoints that lead back, another mode before it, and the way without any privileges.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

#[path = "lab_userspace/changes.rs"]
mod changes;
#[path = "lab_userspace/circles.rs"]
mod circles;
#[path = "lab_userspace/crowds.rs"]
mod crowds;
#[path = "lab_userspace/faults.rs"]
mod faults;
#[path = "lab_userspace/loopback.rs"]
mod loopback;
#[path = "lab_userspace/restart.rs"]
mod restart;
#[path = "lab_userspace/unprivileged.rs"]
mod unprivileged;

use std::io::ErrorKind;
use std::process::Command;

use common::world::World;
use switchyard_lab::Answer;

/// The command of this world's proxy, run by another program that sets limits or takes privileges away.
fn run_by(program: &str, arguments: &[&str], proxy: &Command) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(proxy.get_program()).args(proxy.get_args());
    for (name, value) in proxy.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

/// True if a client was turned away at once: it could not connect, or was reset.
fn is_turned_away(answer: &Answer) -> bool {
    matches!(answer, Answer::Refused | Answer::Other(ErrorKind::ConnectionReset))
}

/// A number of the relay.
fn relayed(world: &World, name: &str) -> f64 {
    world.metric(&format!("switchyard_relay_{name}"), "")
}

/// Refusals of the relay for a reason.
fn refused(world: &World, reason: &str) -> f64 {
    world.metric("switchyard_relay_refused_total", reason)
}
