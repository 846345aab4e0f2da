//! Both variants and both families against the kernel, in network namespaces, and fake programs.

mod cleanup;
mod faults;
mod kernel;
mod variant;
