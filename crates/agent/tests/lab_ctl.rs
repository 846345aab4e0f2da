//! The subcommands of an operator as processes, beside an agent on a node of the lab: what they print, and their exit codes.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

#[path = "lab_ctl/asked.rs"]
mod asked;
#[path = "lab_ctl/diff.rs"]
mod diff;
#[path = "lab_ctl/hostile.rs"]
mod hostile;
#[path = "lab_ctl/named.rs"]
mod named;
#[path = "lab_ctl/node.rs"]
mod node;
#[path = "lab_ctl/quarantine.rs"]
mod quarantine;

use std::path::PathBuf;
use std::process::Output;

use common::variant::Variant;
use common::world::World;
use serde_json::Value;

/// A world whose agent answers on a socket, with these objects.
fn answering(variant: Variant, statements: &str) -> Option<World> {
    let world = World::new_or_skip(variant)?;
    world.write(statements);
    world.start(&["--admin-socket", socket(&world).to_str().unwrap()]);
    world.settle();
    Some(world)
}

fn socket(world: &World) -> PathBuf {
    world.path("admin.sock")
}

/// Runs a subcommand on n1 that asks the agent.
fn ask(world: &World, arguments: &[&str]) -> Output {
    let socket = socket(world);
    let all = [arguments, &["--admin-socket", socket.to_str().unwrap()]].concat();
    world.n1().exec(env!("CARGO_BIN_EXE_switchyard"), &all).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}
