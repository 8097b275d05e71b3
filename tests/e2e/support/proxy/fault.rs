//! What the proxy does with a request, or with an event of a stream, in place of passing it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// The treatment of a request. An event of a stream knows those that say so; it passes any other.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Answered with this status, and with this `Retry-After`, in place of the other side.
    Answer(u16, Option<&'static str>),
    /// Accepted, and never answered. Nothing is done.
    Hang,
    /// Not passed on, and the connection is cut after the hook. An event: the stream breaks before it.
    LoseRequest(Hook),
    /// Done, and the connection is cut after the hook, without the answer. An event: the stream breaks behind it.
    LoseAnswer(Hook),
    /// Done twice, one after the other; the second answer counts. An event comes twice.
    Double,
    /// Done, answered, and done once more after the hook.
    DoubleLate(Hook),
    /// Done, and done once more so long after it came, answered or not.
    Again(Duration),
    /// Done after the hook, so that others overtake it. An event is held so long.
    Delay(Hook),
    /// Half of the answer's body, and the connection is cut. An event: the stream breaks in the middle of it.
    Cut,
    /// Half of the answer's body, and silence.
    Half,
    /// Half of the answer's body, as if it were the whole.
    Truncate,
    /// A watch whose first event is a 410.
    Gone,
}

/// What a test does meanwhile, such as killing the program that waits for the answer.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl Hook {
    /// Does this.
    pub(crate) fn new<F>(does: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move || does().boxed()))
    }

    /// Does nothing.
    pub(crate) fn none() -> Self {
        Self::new(|| std::future::ready(()))
    }

    /// Waits until the returned function has been called.
    pub(crate) fn held() -> (impl Fn(), Self) {
        let token = CancellationToken::new();
        let held = token.clone();
        let hook = Self::new(move || held.clone().cancelled_owned());
        (move || token.cancel(), hook)
    }

    pub(super) async fn run(&self) {
        (self.0)().await;
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A connection that is cut.
pub(super) fn cut() -> io::Error {
    io::Error::other("cut by the test")
}

/// What follows half of an answer's body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Cut,
    Silence,
    /// A proper end.
    Nothing,
}

/// Half of the answer's body, then the rest. A stream has no half: it breaks at once.
pub(super) async fn half(whole: Response<Body>, rest: Rest) -> Response<Body> {
    let (mut parts, body) = whole.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let endless = is_event_stream(&parts.headers);
    let body = if endless { Body::empty() } else { body };
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let first = body.slice(..body.len() / 2);
    if rest == Rest::Nothing {
        return Response::from_parts(parts, Body::from(first));
    }
    let rest = async move {
        if rest == Rest::Silence {
            std::future::pending::<()>().await;
        }
        // What came before is sent first.
        tokio::task::yield_now().await;
        Err(cut())
    };
    let body = Body::from_stream(stream::iter([Ok(first)]).chain(stream::once(rest)));
    Response::from_parts(parts, body)
}

pub(super) fn is_event_stream(headers: &header::HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// As the API server words it.
pub(super) fn refusal(status: u16, retry_after: Option<&str>) -> Response<Body> {
    let reason = match status {
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the test", "reason": reason, "code": status,
    });
    let mut response = Response::builder()
        .status(StatusCode::from_u16(status).unwrap())
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(after) = retry_after {
        response = response.header(header::RETRY_AFTER, after);
    }
    response.body(Body::from(body.to_string())).unwrap()
}
