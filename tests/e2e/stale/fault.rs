//! Faults that the proxy causes in place of the API server.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use futures::{StreamExt, stream};
use serde_json::json;

/// The treatment of a request in place of the API server's.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// Answered with this status, and with this `Retry-After`.
    Answer(u16, Option<&'static str>),
    /// Accepted, and never answered. Nothing is done.
    Hang,
    /// Done, and the answer lost: the connection is cut.
    Lose,
    /// Half of the answer's body, and silence.
    Half,
    /// A watch that ends as soon as it begins.
    Ends,
    /// A watch whose first event is a 410.
    Gone,
}

/// A connection that is cut before the end of the answer.
pub(super) fn broken(status: StatusCode) -> Response<Body> {
    let cut = std::io::Error::other("cut by the test");
    let body = Body::from_stream(stream::iter([Err::<Vec<u8>, _>(cut)]));
    Response::builder().status(status).body(body).unwrap()
}

pub(super) async fn half(whole: Response<Body>) -> Response<Body> {
    let (mut parts, body) = whole.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let first = body.slice(..body.len() / 2);
    let silent = stream::iter([Ok::<_, std::io::Error>(first)]).chain(stream::pending());
    Response::from_parts(parts, Body::from_stream(silent))
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
        .status(status)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(after) = retry_after {
        response = response.header(header::RETRY_AFTER, after);
    }
    response.body(Body::from(body.to_string())).unwrap()
}
