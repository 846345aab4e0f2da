//! What every component of Kubernetes exports: its version, its feature gates, its health checks.
//!
//! In: this program's version and the agent's gates. Out: samples with the names, labels and help texts of Kubernetes.

use super::text::{Exposition, Labels};

/// The Kubernetes release whose kube-proxy this program stands for.
pub(crate) const KUBERNETES: (&str, &str, &str) = ("1", "36", "v1.36.4");

/// How far a feature has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default.
    Alpha,
    /// Usually on.
    Beta,
    /// For good.
    Stable,
    /// About to go.
    Deprecated,
}

impl Stage {
    /// The word in the label `stage`; stable features have none.
    fn label(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// A feature gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// How far it has come.
    pub stage: Stage,
    /// Whether it is on.
    pub is_enabled: bool,
}

/// Adds version and gates.
pub(super) fn write(page: &mut Exposition, version: &str, features: &[Feature]) {
    let help = "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree \
                state, build date, Go version, and compiler from which Kubernetes was built, and platform on which \
                it is running.";
    page.block("kubernetes_build_info", "gauge", help, |samples| samples.integer("", &build(version), 1));
    let help = "[BETA] This metric records the data about the stage and enablement of a k8s feature.";
    page.block("kubernetes_feature_enabled", "gauge", help, |samples| {
        for feature in features {
            let labels = Labels::new("name", &feature.name).with("stage", feature.stage.label());
            samples.integer("", &labels, feature.is_enabled.into());
        }
    });
}

/// Alerts compare the release of all components, so the release that we stand for comes first; our own version
/// follows where a build's own mark may stand.
fn build(version: &str) -> Labels {
    let (major, minor, release) = KUBERNETES;
    let platform = match std::env::consts::ARCH {
        "x86_64" => "linux/amd64",
        "aarch64" => "linux/arm64",
        _ => "linux",
    };
    Labels::new("build_date", "")
        .with("compiler", "rustc")
        .with("git_commit", "")
        .with("git_tree_state", "")
        .with("git_version", &format!("{release}+switchyard.{version}"))
        .with("go_version", "")
        .with("major", major)
        .with("minor", minor)
        .with("platform", platform)
}

/// Adds the check of the metrics server, if it was evaluated at all. It cannot fail: who does not answer sends no page.
pub(super) fn write_health_checks(page: &mut Exposition, checks: u64) {
    if checks == 0 {
        return;
    }
    let check = Labels::new("name", "ping");
    let help = "[STABLE] This metric records the result of a single healthcheck.";
    page.block("kubernetes_healthcheck", "gauge", help, |samples| {
        samples.integer("", &check.with("type", "healthz"), 1);
    });
    let help = "[STABLE] This metric records the results of all healthcheck.";
    page.block("kubernetes_healthchecks_total", "counter", help, |samples| {
        samples.integer("", &check.with("status", "success").with("type", "healthz"), checks);
    });
}
