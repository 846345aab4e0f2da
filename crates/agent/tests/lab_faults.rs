//! Bad input and bad surroundings, with the proxy running in a lab: a clear word to the operator, nothing lost for the others, no panic.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first surprise")]

#[path = "common/world.rs"]
mod world;

#[path = "lab_faults/crowded.rs"]
mod crowded;
#[path = "lab_faults/objects.rs"]
mod objects;
#[path = "lab_faults/surroundings.rs"]
mod surroundings;
