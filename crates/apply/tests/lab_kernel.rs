//! What modes say of the kernel, beside the kernel itself.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends at the first surprise")]

#[path = "lab_kernel/difference.rs"]
mod difference;
#[path = "lab_kernel/means.rs"]
mod means;
#[path = "lab_kernel/scene.rs"]
mod scene;
