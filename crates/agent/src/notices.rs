//! What becomes a Kubernetes Event: one method for each reason, so that reasons and actions are in one place.
//!
//! The first four are kube-proxy's own, word for word. Recording never waits; see [`events`].

use std::time::Duration;

use switchyard_model::{Complaint, Family, ObjectName, ServiceName};
use switchyard_source::events::{self, Notice, Recorder, Severity};

use crate::flags::Mode;

/// What kube-proxy calls everything that it does at the start.
const START: &str = "StartKubeProxy";
/// What kube-proxy says of ipvs mode since 1.35.
pub const IPVS_DEPRECATED: &str = "The ipvs proxier is now deprecated and may be removed in a future release. Please use 'nftables' instead.";
/// How long the end of the process waits for Events that say why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Records Events of this node.
#[derive(Clone, Debug)]
pub struct Notices {
    recorder: Recorder,
    node: ObjectName,
}

impl Notices {
    /// Events about this node and what it serves.
    pub fn new(recorder: Recorder, node_name: &str) -> Self {
        Self { recorder, node: ObjectName::new("Node", "", node_name) }
    }

    /// The process starts.
    pub fn starting(&self, mode: Mode) {
        self.record(self.node.clone(), Severity::Normal, "Starting", START, String::new());
        if mode == Mode::Ipvs {
            self.warn(self.node.clone(), "IPVSDeprecation", START, IPVS_DEPRECATED.to_owned());
        }
    }

    /// The health server has no port, and that is the end.
    pub fn no_health_server(&self, problem: String) {
        self.warn(self.node.clone(), "FailedToStartProxierHealthcheck", START, problem);
    }

    /// The metrics server has no port, and that is the end.
    pub fn no_metrics_server(&self, problem: String) {
        self.warn(self.node.clone(), "FailedToStartMetricServer", START, problem);
    }

    /// A Service's health check has no port.
    pub fn no_health_check(&self, service: &ServiceName, problem: String) {
        self.warn(service.into(), "FailedToStartServiceHealthcheck", "Listen", problem);
    }

    /// Our rules were changed, and written again.
    pub fn repaired(&self, family: Family, by: &str) {
        let note =
            format!("the {family} rules of this node's proxy were changed by {by}; they are written again");
        self.warn(self.node.clone(), "RulesRepaired", "Repair", note);
    }

    /// Our rules are changed again and again.
    pub fn contested(&self, family: Family, by: &str) {
        let note = format!(
            "the {family} rules of this node's proxy are changed again and again, the last time by {by}; repairs are \
             further and further apart, and Services may fail meanwhile: stop the other program"
        );
        self.warn(self.node.clone(), "RulesContested", "BackOff", note);
    }

    /// Rules could not be written.
    pub fn sync_failed(&self, family: Family, cause: &str) {
        let note =
            format!("the {family} rules of this node's proxy cannot be written, it is tried again: {cause}");
        self.warn(self.node.clone(), "SyncFailed", "WriteRules", note);
    }

    /// An object is wrong, as a whole or in parts.
    pub fn wrong(&self, object: &ObjectName, complaints: &[Complaint]) {
        let problems: Vec<&str> = complaints.iter().map(|complaint| complaint.problem.as_str()).collect();
        self.warn(object.clone(), "ObjectSetAside", "Read", problems.join("; "));
    }

    /// The kernel refuses a service port of a Service.
    pub fn refused(&self, service: &ServiceName, problem: String) {
        self.warn(service.into(), "ServicePortQuarantined", "WriteRules", problem);
    }

    /// A Service asks for what another one has.
    pub fn conflict(&self, service: &ServiceName, problem: String) {
        self.warn(service.into(), "FrontendConflict", "ClaimFrontend", problem);
    }

    /// A Service has more endpoints than can be served.
    pub fn left_out(&self, service: &ServiceName, problem: String) {
        self.warn(service.into(), "EndpointsLeftOut", "WriteRules", problem);
    }

    /// Something of a Service cannot be served on this node.
    pub fn set_aside(&self, service: &ServiceName, problem: String) {
        self.warn(service.into(), "FrontendSetAside", "Listen", problem);
    }

    /// Waits a moment for what is not written yet.
    pub async fn last_words(&self) {
        self.recorder.settle(LAST_WORDS).await;
    }

    fn warn(&self, regarding: ObjectName, reason: &'static str, action: &'static str, note: String) {
        self.record(regarding, Severity::Warning, reason, action, note);
    }

    fn record(
        &self,
        regarding: ObjectName,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        self.recorder.record(Notice { regarding, severity, reason, action, note });
    }
}

/// The name under which this host's Events are reported, kube-proxy's way.
pub fn recorder(host: &str) -> (Recorder, events::Poster) {
    events::recorder(&format!("kube-proxy-{host}"))
}
