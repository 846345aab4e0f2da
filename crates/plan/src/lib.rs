//! Placeholder until the first slice of this crate lands.
