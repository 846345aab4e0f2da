//! kube-proxy's configuration: the fields of KubeProxyConfiguration v1alpha1, and kube-proxy's way with flags.
//!
//! | module | does |
//! |---|---|
//! | [`configuration`] | the fields |
//! | [`slot`] | the table of fields by YAML path |
//! | [`document`], [`decode`] | from a file's text to fields |
//! | [`flag`] | from a flag's text to a field |
//! | [`defaults`] | what is not given; what belongs to which mode |
//! | [`validate`] | what is wrong, all of it at once |
//! | [`print`](mod@print) | from fields to YAML, as kube-proxy would write it |
//! | [`gates`] | feature gates |
//! | [`duration`], [`quantity`], [`number`], [`address`] | Go's notations |
//!
//! Invariants
//! - No text can panic it or make it grow without bound.
//! - Whatever it prints, it reads back to the same configuration.
//! - No IO: text and values in, text and values out.

pub mod address;
pub mod configuration;
pub mod decode;
pub mod defaults;
pub mod document;
pub mod duration;
pub mod flag;
pub mod gates;
pub mod number;
pub mod print;
pub mod problem;
pub mod quantity;
pub mod slot;
pub mod validate;

#[cfg(test)]
mod tests;

pub use configuration::Configuration;
pub use duration::GoDuration;
pub use problem::Problem;

/// The `apiVersion` of a configuration file.
pub const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// The `kind` of a configuration file.
pub const KIND: &str = "KubeProxyConfiguration";
/// The minor release of Kubernetes 1 whose kube-proxy this one stands in for.
pub const MINOR: u32 = 36;
