//! Counts the requests to the API server, in a layer below all retries.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use tower::{Layer, Service};

use crate::controller::metrics::Metrics;

/// Layer that counts each request by method and status.
#[derive(Clone)]
pub struct CountRequests(pub Arc<Metrics>);

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        let metrics = Arc::clone(&self.0);
        Counted { inner, metrics }
    }
}

/// The counted service.
pub struct Counted<S> {
    inner: S,
    metrics: Arc<Metrics>,
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
            metrics: Arc::clone(&self.metrics),
            method: request.method().clone(),
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
    metrics: Arc<Metrics>,
    method: Method,
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
        let status = self.status.map(|status| status.as_u16());
        self.metrics.api_request(self.method.as_str(), status);
    }
}
