//! Crash points of requests to the API server: a layer of the client, nearest to the wire. Each attempt is one.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, stream};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body as HttpBody, Frame};
use kube::client::Body;
use serde_json::Value;
use tower::{BoxError, Layer, Service, buffer::Buffer};

use crate::api::names;

use super::Effect;

/// Requests that may wait for the connection: as many as above it.
const WAITING: usize = 1024;

type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
type Inner<F> = Buffer<Request<Body>, F>;

/// The layer whose writes are points. Reads pass.
pub struct Writes;

impl<S> Layer<S> for Writes
where
    S: Service<Request<Body>> + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send + Sync,
{
    type Service = Watched<S::Future>;

    fn layer(&self, inner: S) -> Watched<S::Future> {
        Watched(Buffer::new(inner, WAITING))
    }
}

/// The layered service.
pub struct Watched<F>(Inner<F>);

impl<F, B, E> Service<Request<Body>> for Watched<F>
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: HttpBody<Data = Bytes, Error = BoxError> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    type Response = Answer;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Answer, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each effect waits for its own slot, since it may be sent twice.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = self.0.clone();
        if request.method() == Method::GET {
            return sent(inner, request).boxed();
        }
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let name = name(&head.method, head.uri.path(), &body);
            super::pass(&name, Write { inner, head, body }).await
        }
        .boxed()
    }
}

async fn sent<F, B, E>(mut inner: Inner<F>, request: Request<Body>) -> Result<Answer, BoxError>
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: HttpBody<Data = Bytes, Error = BoxError> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    let answer = inner.call(request).await?;
    Ok(answer.map(BodyExt::boxed_unsync))
}

struct Write<F> {
    inner: Inner<F>,
    head: Parts,
    body: Bytes,
}

// Not derived: that would require a future that can be cloned.
impl<F: Send + 'static> Clone for Write<F> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            head: self.head.clone(),
            body: self.body.clone(),
        }
    }
}

impl<F, B, E> Effect for Write<F>
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: HttpBody<Data = Bytes, Error = BoxError> + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    type Answer = Answer;
    type Error = BoxError;

    async fn send(self) -> Result<Answer, BoxError> {
        let request = Request::from_parts(self.head, Body::from(self.body));
        sent(self.inner, request).await
    }

    async fn lost(self) -> Result<Answer, BoxError> {
        Err(broken().into())
    }

    async fn cut(answer: Answer) -> Result<Answer, BoxError> {
        let (head, body) = answer.into_parts();
        let whole = body.collect().await?.to_bytes();
        let half = Frame::data(whole.slice(..whole.len() / 2));
        let body = StreamBody::new(stream::iter([Ok(half), Err(broken().into())]));
        Ok(Response::from_parts(head, body.boxed_unsync()))
    }
}

/// The error of a connection that breaks.
fn broken() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}

/// Name by content: resource and subresource by the path, an intent and a release by the finalizers, the release of a
/// Lease by its holder.
fn name(method: &Method, path: &str, body: &[u8]) -> String {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    // /api/VERSION or /apis/GROUP/VERSION
    let group = usize::from(segments.next() != Some("api"));
    let mut segments = segments.skip(group + 1).peekable();
    if segments.next_if_eq(&"namespaces").is_some() {
        segments.next();
    }
    let (resource, subresource) = (segments.next().unwrap_or_default(), segments.nth(1));
    let kind = match resource {
        "runs" => "run",
        "workspaces" | "clusterworkspaces" => "workspace",
        "events" => return "kube.event".to_owned(),
        "leases" if method == Method::POST => return "kube.lease.create".to_owned(),
        "leases" if resigns(body) => return "kube.lease.release".to_owned(),
        "leases" => return "kube.lease.update".to_owned(),
        other => return format!("kube.{other}.{}", method.as_str().to_lowercase()),
    };
    let what = match subresource {
        Some(subresource) => subresource,
        None if method == Method::DELETE => "delete",
        // A PUT has no other use.
        None if method == Method::PUT || releases(body) => "release",
        None if kind == "run" => "intent",
        None => "finalizer",
    };
    format!("kube.{kind}.{what}")
}

/// Whether a JSON patch removes the operator's finalizer.
fn releases(patch: &[u8]) -> bool {
    let Ok(Value::Array(operations)) = serde_json::from_slice(patch) else {
        return false;
    };
    operations
        .iter()
        .filter(|operation| operation["path"] == "/metadata/finalizers")
        .filter_map(|operation| operation["value"].as_array())
        .any(|finalizers| !finalizers.iter().any(|f| f == names::FINALIZER))
}

/// Whether a Lease names no holder.
fn resigns(lease: &[u8]) -> bool {
    let lease: Value = serde_json::from_slice(lease).unwrap_or_default();
    lease["spec"]["holderIdentity"] == ""
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ON: &str =
        r#"[{"op":"add","path":"/metadata/finalizers","value":["run-operator.dev/cancel"]}]"#;
    const OFF: &str = r#"[{"op":"add","path":"/metadata/finalizers","value":[]}]"#;
    const OURS: &str = "/apis/run-operator.dev/v1alpha1";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/a/leases";

    #[rstest]
    #[case("PATCH", [OURS, "/namespaces/a/runs/runs"], ON, "kube.run.intent")]
    #[case("PATCH", [OURS, "/namespaces/a/runs/b"], OFF, "kube.run.release")]
    #[case("PUT", [OURS, "/namespaces/a/runs/b"], "{}", "kube.run.release")]
    #[case("PATCH", [OURS, "/namespaces/a/runs/b/status"], "", "kube.run.status")]
    #[case("DELETE", [OURS, "/namespaces/a/runs/b"], "", "kube.run.delete")]
    #[case("PATCH", [OURS, "/namespaces/a/workspaces/b"], ON, "kube.workspace.finalizer")]
    #[case("PATCH", [OURS, "/clusterworkspaces/b"], OFF, "kube.workspace.release")]
    #[case("PATCH", [OURS, "/clusterworkspaces/b/status"], "", "kube.workspace.status")]
    #[case("POST", ["/api/v1/namespaces/a/events", ""], "", "kube.event")]
    #[case("POST", [LEASES, ""], "", "kube.lease.create")]
    #[case("PUT", [LEASES, "/b"], r#"{"spec":{"holderIdentity":"b"}}"#, "kube.lease.update")]
    #[case("PUT", [LEASES, "/b"], r#"{"spec":{"holderIdentity":""}}"#, "kube.lease.release")]
    #[case("PATCH", ["/api/v1/namespaces/a/configmaps/b", ""], "", "kube.configmaps.patch")]
    fn each_write_has_a_point_of_its_own(
        #[case] method: Method,
        #[case] path: [&str; 2],
        #[case] body: &str,
        #[case] expected: &str,
    ) {
        let path = path.concat();
        assert_eq!(name(&method, &path, body.as_bytes()), expected);
    }
}
