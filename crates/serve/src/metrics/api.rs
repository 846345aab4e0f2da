//! Requests to the API server, as every client of Kubernetes counts them.
//!
//! In: answers, one by one. Out: samples by method, host and status. A server can answer with any status, so the number
//! of series is bounded; what comes after that is not counted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::family::{Histogram, Metric};
use super::text::{Exposition, Labels};

/// Most series of one name.
const MAX_SERIES: usize = 64;

/// Bounds of the time to an answer, in seconds.
const BOUNDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// How a request to the API server ended.
#[derive(Clone, Copy, Debug)]
pub struct ApiAnswer<'a> {
    /// Host and port of the server.
    pub host: &'a str,
    /// The HTTP method.
    pub method: &'a str,
    /// The status; nothing if there was no answer.
    pub status: Option<u16>,
    /// Time to the answer; nothing for a watch, which ends when it likes.
    pub took: Option<Duration>,
}

/// See the module.
#[derive(Default)]
pub(super) struct ApiMetrics(Mutex<State>);

#[derive(Default)]
struct State {
    /// By status, host and method.
    requests: BTreeMap<(String, String, String), u64>,
    /// By host and method.
    durations: BTreeMap<(String, String), Histogram>,
}

impl ApiMetrics {
    pub(super) fn answered(&self, answer: &ApiAnswer<'_>) {
        let mut state = self.state();
        let (host, method) = (answer.host.to_owned(), answer.method.to_owned());
        let code = answer.status.map_or_else(|| "<error>".to_owned(), |status| status.to_string());
        let key = (code, host.clone(), method.clone());
        if state.requests.len() < MAX_SERIES || state.requests.contains_key(&key) {
            *state.requests.entry(key).or_default() += 1;
        }
        let key = (host, method);
        if let Some(took) = answer.took
            && (state.durations.len() < MAX_SERIES || state.durations.contains_key(&key))
        {
            let histogram = state.durations.entry(key).or_insert_with(|| Histogram::new(BOUNDS.to_vec()));
            histogram.observe(took);
        }
    }

    pub(super) fn write(&self, page: &mut Exposition) {
        let state = self.state();
        let help = "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.";
        page.block("rest_client_requests_total", "counter", help, |samples| {
            for ((code, host, method), requests) in &state.requests {
                let labels = Labels::new("code", code).with("host", host).with("method", method);
                samples.integer("", &labels, *requests);
            }
        });
        let help = "[ALPHA] Request latency in seconds. Broken down by verb, and host.";
        page.block("rest_client_request_duration_seconds", "histogram", help, |samples| {
            for ((host, method), histogram) in &state.durations {
                histogram.write(&Labels::new("host", host).with("verb", method), samples);
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_cannot_make_many_series() {
        let metrics = ApiMetrics::default();
        for status in 0..1000 {
            let answer = ApiAnswer { host: "h:1\"\n", method: "GET", status: Some(status), took: None };
            metrics.answered(&answer);
            metrics.answered(&answer);
        }
        let mut page = Exposition::default();
        metrics.write(&mut page);
        let page = page.finish();
        assert_eq!(page.lines().count(), MAX_SERIES + 2, "{page}");
        assert!(
            page.contains("rest_client_requests_total{code=\"10\",host=\"h:1\\\"\\n\",method=\"GET\"} 2\n")
        );
    }
}
