//! Answers to probes and scrapers.

use axum::body::Body;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};

/// Content type of every answer but the metrics.
const PLAIN: &str = "text/plain; charset=utf-8";
/// `Retry-After` of a 503 about a scrape, in seconds.
const TRY_AGAIN: &str = "1";

/// The answer to a request with another method than those that are served.
pub(super) fn refused_method<B>(request: &Request<B>) -> Option<Response<Body>> {
    let served = matches!(*request.method(), Method::GET | Method::HEAD);
    (!served).then(|| text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"))
}

pub(super) fn not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "not found\n")
}

/// 503, with the time after which the scrape may be repeated.
pub(super) fn try_again(body: &'static str) -> Response<Body> {
    let mut busy = text(StatusCode::SERVICE_UNAVAILABLE, body);
    let again = HeaderValue::from_static(TRY_AGAIN);
    busy.headers_mut().insert(RETRY_AFTER, again);
    busy
}

pub(super) fn text(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    answer(status, PLAIN, body.into())
}

pub(super) fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
