//! Bad input and bad surroundings, with the proxy running in a lab: a clear word to the operator, nothing lost for the others, no panic.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[macro_use]
#[path = "common/all.rs"]
mod common;

#[path = "lab_faults/crowded.rs"]
mod crowded;
#[path = "lab_faults/objects.rs"]
mod objects;
#[path = "lab_faults/surroundings.rs"]
mod surroundings;
