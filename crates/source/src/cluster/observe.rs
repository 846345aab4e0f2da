//! Tells somebody about every request to the API server and how it ended, and remembers for how long a server that is busy wants to be
//! left alone: it says so in a header, which nobody else sees.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Response, StatusCode, header};
use kube::client::Body;
use tower_layer::Layer;
use tower_service::Service;

/// How a request to the API server ended.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// Host and port of the server.
    pub host: &'a str,
    /// The HTTP method.
    pub method: &'a str,
    /// The status; nothing if there was no answer.
    pub status: Option<u16>,
    /// Time to the answer; nothing for a watch, which ends when it likes.
    pub took: Option<Duration>,
}

type Hear = dyn Fn(&Answered<'_>) + Send + Sync;

/// Is told about every request.
#[derive(Clone, Default)]
pub struct Observer {
    hear: Option<Arc<Hear>>,
    pause: Pause,
}

impl Observer {
    /// Calls this for every request.
    pub fn new(hear: impl Fn(&Answered<'_>) + Send + Sync + 'static) -> Self {
        Self { hear: Some(Arc::new(hear)), pause: Pause::default() }
    }

    /// What the server asks for, now and later.
    pub(super) fn pause(&self) -> Pause {
        self.pause.clone()
    }
}

/// Until when a server that is busy wants to be left alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Pause(Arc<Mutex<Option<Instant>>>);

impl Pause {
    /// How long that still is.
    pub(super) fn remaining(&self) -> Duration {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Reads `Retry-After`, in the only form that API servers use.
    fn hear(&self, status: StatusCode, headers: &HeaderMap) {
        if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            return;
        }
        let asked = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        // A number without sense would not even fit on the clock.
        let asked = asked.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        if asked.is_some() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.hear.is_some() { "Observer" } else { "nobody" })
    }
}

/// Puts an observer around a client.
pub(super) struct Observe {
    pub(super) observer: Observer,
    /// Host and port of the server; requests themselves do not name it.
    pub(super) host: Arc<str>,
}

impl<S> Layer<S> for Observe {
    type Service = Observed<S>;

    fn layer(&self, inner: S) -> Observed<S> {
        Observed { inner, observer: self.observer.clone(), host: self.host.clone() }
    }
}

/// A client with an observer.
pub(super) struct Observed<S> {
    inner: S,
    observer: Observer,
    host: Arc<str>,
}

impl<S, B> Service<Request<Body>> for Observed<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (began, observer, host) = (Instant::now(), self.observer.clone(), self.host.clone());
        let method = request.method().clone();
        let is_watch = request.uri().query().is_some_and(|query| query.split('&').any(|p| p == "watch=true"));
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(answer) = &answer {
                observer.pause.hear(answer.status(), answer.headers());
            }
            if let Some(hear) = &observer.hear {
                hear(&Answered {
                    host: &host,
                    method: method.as_str(),
                    status: answer.as_ref().ok().map(|answer| answer.status().as_u16()),
                    took: (!is_watch).then(|| began.elapsed()),
                });
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_server_asks_for_a_pause() {
        let headers = |value: &'static str| {
            HeaderMap::from_iter([(header::RETRY_AFTER, http::HeaderValue::from_static(value))])
        };
        let pause = Pause::default();
        pause.hear(StatusCode::OK, &headers("60"));
        for nonsense in ["", "-1", "soon", "99999999999999999999", "18446744073709551615"] {
            pause.hear(StatusCode::TOO_MANY_REQUESTS, &headers(nonsense));
        }
        pause.hear(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new());
        assert_eq!(pause.remaining(), Duration::ZERO);
        pause.hear(StatusCode::SERVICE_UNAVAILABLE, &headers("600"));
        assert!(pause.remaining() > Duration::from_secs(60));
        pause.hear(StatusCode::TOO_MANY_REQUESTS, &headers("0"));
        assert_eq!(pause.remaining(), Duration::ZERO, "the last word counts");
    }
}
