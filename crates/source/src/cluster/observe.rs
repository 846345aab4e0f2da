//! Tells somebody about every request to the API server and how it ended.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
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
pub struct Observer(Option<Arc<Hear>>);

impl Observer {
    /// Calls this for every request.
    pub fn new(hear: impl Fn(&Answered<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer" } else { "nobody" })
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
            if let Some(hear) = &observer.0 {
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
