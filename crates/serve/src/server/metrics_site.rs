//! The pages of the metrics server.
//!
//! In: [`Pages`], what the agent knows about itself. Out: kube-proxy's pages under kube-proxy's paths. Paths are
//! exact, but everything below `/debug/pprof/`, `/debug/flags/` and `/ui/` belongs to those.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use hyper::header::HeaderName;
use hyper::{Method, StatusCode, header};

use super::ask::Ask;
use super::connections::Site;
use super::profiling::{self, Profiling};
use super::reply::{JSON, NOSNIFF, PLAIN, Reply};
use super::zpages::{Flagz, Statusz};
use crate::Moment;
use crate::metrics::{Metrics, Since, process};
use crate::ui::{self, Ui};

/// Under this name `/configz` shows the configuration.
const CONFIG_GROUP: &str = "kubeproxy.config.k8s.io";

const START_TIME: HeaderName = HeaderName::from_static("process-start-time-unix");

/// What the metrics server shows besides metrics.
pub struct Pages {
    /// `/proxyMode`: the mode, as kube-proxy names it.
    pub mode: String,
    /// `/configz`: the effective configuration, one JSON object in the form that a configuration file has.
    pub config: String,
    /// `/flagz`: every flag with its value; no page without them (feature gate `ComponentFlagz`).
    pub flags: Option<Flagz>,
    /// `/statusz`; no page without it (feature gate `ComponentStatusz`).
    pub status: Option<Statusz>,
    /// `/debug/pprof` and `/debug/flags`; no pages without it (`--profiling`).
    pub profiling: Option<Profiling>,
    /// `/ui/`: the dashboard; no pages without it (`--enable-ui`).
    pub ui: Option<Ui>,
}

/// See the module.
pub(crate) struct MetricsSite {
    metrics: Arc<Metrics>,
    pages: Pages,
    started: Instant,
    /// How often the health check of this server was evaluated since its metrics were reset.
    checks: AtomicU64,
    was_reset: AtomicBool,
}

impl MetricsSite {
    pub(crate) fn new(metrics: Arc<Metrics>, pages: Pages) -> Self {
        Self {
            metrics,
            pages,
            started: Instant::now(),
            checks: AtomicU64::new(0),
            was_reset: AtomicBool::new(false),
        }
    }

    fn metrics(&self, ask: &Ask) -> Reply {
        exposition(ask, self.metrics.render())
    }

    /// The check of this server, not of the proxy: it is well as long as it answers.
    fn healthz(&self, ask: &Ask) -> Reply {
        let mut excluded: BTreeSet<String> = ask.parameters("exclude").collect();
        let is_excluded = excluded.remove("ping");
        if !is_excluded {
            self.checks.fetch_add(1, Ordering::Relaxed);
        }
        if ask.parameters("verbose").next().is_none() {
            return Reply::ok([PLAIN, NOSNIFF], "ok");
        }
        let line = if is_excluded { "[+]ping excluded: ok\n" } else { "[+]ping ok\n" };
        let unknown: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        let warning = match unknown.join(",") {
            names if names.is_empty() => names,
            names => format!("warn: some health checks cannot be excluded: no matches for {names}\n"),
        };
        Reply::ok([PLAIN, NOSNIFF], format!("{line}{warning}healthz check passed\n"))
    }

    fn slis(&self, ask: &Ask) -> Reply {
        if ask.method == Method::DELETE {
            self.checks.store(0, Ordering::Relaxed);
            self.was_reset.store(true, Ordering::Relaxed);
            return Reply::bare_text("metrics reset\n");
        }
        let since = if self.was_reset.load(Ordering::Relaxed) { Since::Reset } else { Since::Start };
        exposition(ask, Metrics::render_slis(self.checks.load(Ordering::Relaxed), since))
    }

    fn configz(&self) -> Reply {
        let config = if self.pages.config.is_empty() { "{}" } else { &self.pages.config };
        Reply::ok([JSON, NOSNIFF], format!("{{\"{CONFIG_GROUP}\":{config}}}"))
    }

    fn listed_paths(&self) -> Vec<&'static str> {
        let flagz = self.pages.flags.is_some().then_some("/flagz");
        ["/configz"].into_iter().chain(flagz).chain(["/healthz", "/metrics", "/proxyMode"]).collect()
    }
}

impl Site for MetricsSite {
    async fn answer(&self, ask: Ask) -> Reply {
        let Pages { flags, status, profiling, ui, .. } = &self.pages;
        let path = ask.path();
        if let Some(ui) = ui.as_ref().filter(|_| ui::is_below(&path)) {
            return ui.answer(&ask).await;
        }
        match (path.as_str(), flags, status, profiling) {
            ("/metrics", ..) => self.metrics(&ask),
            ("/metrics/slis", ..) => self.slis(&ask),
            ("/healthz", ..) => self.healthz(&ask),
            ("/healthz/ping", ..) => Reply::bare_text("ok"),
            ("/proxyMode", ..) => Reply::ok([PLAIN, NOSNIFF], self.pages.mode.clone()),
            ("/configz", ..) => self.configz(),
            ("/flagz", Some(flags), ..) => flags.page(&ask),
            ("/statusz", _, Some(status), _) => {
                status.page(&ask, self.started.elapsed(), Moment::now().wall(), &self.listed_paths())
            }
            (path, _, _, Some(profiling)) if profiling::is_below(path) => profiling.page(path, ask).await,
            _ => Reply::not_found(),
        }
    }
}

/// A page of metrics. Only the classic text format is spoken, whatever a scraper would like better; it may ask for
/// names that are not limited to ASCII, which makes no difference to ours.
fn exposition(ask: &Ask, page: String) -> Reply {
    let escaping = match ask.accept().contains("escaping=allow-utf-8") {
        true => "allow-utf-8",
        false => "underscores",
    };
    let kind = format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}");
    let started = process::start_time().map(|seconds| (START_TIME, seconds.to_string()));
    Reply::new(StatusCode::OK, [(header::CONTENT_TYPE, kind)].into_iter().chain(started), page)
}
