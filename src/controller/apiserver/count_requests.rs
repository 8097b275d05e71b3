//! Counts the requests to the API server, in a layer below all retries.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service};

use crate::controller::metrics::{
    Metrics,
    catalogue::{METHODS, NO_RESPONSE, REST_REQUESTS},
    code,
};

/// Layer that counts the requests to the API server at one address.
#[derive(Clone)]
pub struct CountRequests {
    metrics: Arc<Metrics>,
    host: Arc<str>,
}

impl CountRequests {
    /// A layer for this address. Registers the known label values at zero.
    pub fn new(metrics: Arc<Metrics>, address: &http::Uri) -> Self {
        let host: Arc<str> = address.authority().map_or("", |a| a.as_str()).into();
        for method in METHODS {
            for code in REST_REQUESTS.labels[0].known {
                let _ = metrics.rest_requests.of(&[code, method, &host]);
            }
            let _ = metrics.rest_seconds.of(&[method, &host]);
        }
        Self { metrics, host }
    }
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            layer: self.clone(),
        }
    }
}

/// The counted service.
pub struct Counted<S> {
    inner: S,
    layer: CountRequests,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let attempt = Attempt {
            layer: self.layer.clone(),
            method: request.method().clone(),
            begun: Instant::now(),
            status: None,
        };
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await;
            attempt.ended(answer.as_ref().ok().map(Response::status));
            answer
        }
        .boxed()
    }
}

/// One attempt. It is counted when dropped, so that an attempt that timed out counts too.
struct Attempt {
    layer: CountRequests,
    method: Method,
    begun: Instant,
    status: Option<StatusCode>,
}

impl Attempt {
    /// Sets the result and counts the attempt.
    fn ended(mut self, status: Option<StatusCode>) {
        self.status = status;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let metrics = &self.layer.metrics;
        let (method, host) = (self.method.as_str(), self.layer.host.as_ref());
        let code = match self.status {
            Some(status) => code(status.as_u16()),
            None => NO_RESPONSE.to_owned(),
        };
        metrics.rest_requests.of(&[&code, method, host]).inc();
        let took = self.begun.elapsed().as_secs_f64();
        metrics.rest_seconds.of(&[method, host]).observe(took);
    }
}
