//! The pages of the health server: `/healthz` and `/livez`, everything else is 404 or a redirect to a cleaner path.

use std::sync::Arc;

use hyper::StatusCode;

use super::ask::{Ask, Resolved};
use super::connections::Site;
use super::reply::{JSON, NOSNIFF, Reply};
use crate::Moment;
use crate::health::{Probe, ProxyHealth, Verdict};
use crate::metrics::Metrics;

/// See the module.
pub(crate) struct HealthSite {
    pub(crate) health: Arc<ProxyHealth>,
    pub(crate) metrics: Arc<Metrics>,
}

impl HealthSite {
    fn probe(&self, probe: Probe) -> Reply {
        let answer = self.health.answer(probe, Moment::now());
        self.metrics.probed(probe, answer.verdict);
        Reply::new(status(answer.verdict), [JSON, NOSNIFF], answer.body)
    }
}

impl Site for HealthSite {
    async fn answer(&self, ask: Ask) -> Reply {
        if ask.is_for_nothing() {
            return Reply::hang_up(StatusCode::BAD_REQUEST);
        }
        let parts = match ask.resolved() {
            Resolved::Clean(parts) => parts,
            Resolved::Elsewhere(path) => {
                return Reply::redirect(StatusCode::TEMPORARY_REDIRECT, &path, &ask.method);
            }
        };
        match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["healthz"] => self.probe(Probe::Healthz),
            ["livez"] => self.probe(Probe::Livez),
            _ => Reply::not_found(),
        }
    }
}

/// The HTTP status of a health check.
pub(crate) fn status(verdict: Verdict) -> StatusCode {
    match verdict {
        Verdict::Ok => StatusCode::OK,
        Verdict::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}
