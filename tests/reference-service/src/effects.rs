//! From a reply to the bytes on the wire, unchanged or altered by a fault.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::api::{Call, Content, PROBLEM, Reply};
use crate::app::App;
use crate::faults::{Action, Answer};
use crate::problem::Problem;
use crate::sse::{self, Piece};
use crate::stream_script::StreamScript;

pub(crate) const REQUEST_ID: &str = "x-request-id";
const HUGE_PIECE: usize = 64 * 1024;

/// The end of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answer(Response<Body>),
    /// The connection is closed with no byte of an answer.
    Cut,
}

/// Answers as it should.
pub(crate) fn plain(app: &Arc<App>, call: &Call) -> Outcome {
    let reply = call.execute(app);
    Outcome::Answer(respond(app, call, reply, None))
}

/// Answers according to the fault.
pub(crate) async fn spoilt(app: &Arc<App>, call: &Call, action: Action) -> Outcome {
    let response = match action {
        Action::DoThenLose => {
            call.execute(app);
            return Outcome::Cut;
        }
        Action::LoseBefore => return Outcome::Cut,
        Action::Hang { execute, for_ms } => {
            if execute {
                call.execute(app);
            }
            wait(for_ms).await;
            return Outcome::Cut;
        }
        Action::Delay { for_ms, execute } => {
            let early = execute.then(|| call.execute(app));
            wait(for_ms).await;
            let reply = early.unwrap_or_else(|| call.execute(app));
            respond(app, call, reply, None)
        }
        Action::Answer(other) => {
            if other.execute {
                call.execute(app);
            }
            respond(app, call, answer(other, &call.request_id), None)
        }
        Action::Redirect { status, location } => redirect(call, status, &location),
        Action::Stream(script) => respond(app, call, call.execute(app), Some(script)),
        Action::HugeBody { bytes } => with_body(app, call, move |_, pieces| huge(pieces, bytes)),
        Action::TruncatedBody => truncated(app, call),
        Action::WrongContentType { content_type } => {
            let mut response = respond(app, call, call.execute(app), None);
            set(response.headers_mut(), CONTENT_TYPE.as_str(), &content_type);
            response
        }
        Action::InvalidJson => changed(app, call, |bytes| bytes.slice(..bytes.len() / 2)),
        Action::MergeBody { merge } => changed(app, call, |bytes| merged(bytes, &merge)),
    };
    Outcome::Answer(response)
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

fn respond(
    app: &Arc<App>,
    call: &Call,
    reply: Reply,
    script: Option<StreamScript>,
) -> Response<Body> {
    let (kind, body) = match reply.content {
        Content::Bytes(kind, bytes) => (kind, Body::from(bytes)),
        Content::Events { run_id, position } => {
            let (sender, pieces) = mpsc::channel(1);
            tokio::spawn(sse::serve(app.clone(), run_id, position, script, sender));
            ("text/event-stream", Body::from_stream(sse::body_of(pieces)))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    set(headers, CONTENT_TYPE.as_str(), kind);
    set(headers, REQUEST_ID, &call.request_id);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.extend(reply.headers);
    response
}

/// Sets a header; a fault's own value that no header can carry is left out.
fn set(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// The reply of an `answer` fault.
fn answer(answer: Answer, request_id: &str) -> Reply {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let code = answer
        .code
        .unwrap_or_else(|| format!("injected_{}", status.as_u16()));
    let title = answer
        .title
        .unwrap_or_else(|| format!("Injected: {status}"));
    let mut problem = Problem::new(status, &code, title);
    let again = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    problem.retryable = answer.retryable.unwrap_or(again);
    problem.params = answer.params;
    let mut reply = Reply::problem(&problem, request_id);
    let mut kind = PROBLEM;
    if let Some(body) = answer.body {
        kind = "text/html";
        reply.content = Content::Bytes(PROBLEM, Bytes::from(body));
    }
    let kind = answer.content_type.as_deref().unwrap_or(kind);
    set(&mut reply.headers, CONTENT_TYPE.as_str(), kind);
    for (name, value) in &answer.headers {
        set(&mut reply.headers, name, value);
    }
    reply
}

fn redirect(call: &Call, status: u16, location: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::TEMPORARY_REDIRECT);
    set(response.headers_mut(), LOCATION.as_str(), location);
    set(response.headers_mut(), REQUEST_ID, &call.request_id);
    response
}

/// The right answer with another body; an event stream stays as it is.
fn changed(app: &Arc<App>, call: &Call, change: impl FnOnce(Bytes) -> Bytes) -> Response<Body> {
    let mut reply = call.execute(app);
    if let Content::Bytes(kind, bytes) = reply.content {
        reply.content = Content::Bytes(kind, change(bytes));
    }
    respond(app, call, reply, None)
}

fn merged(bytes: Bytes, patch: &Value) -> Bytes {
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(mut value) => {
            json_patch::merge(&mut value, patch);
            Bytes::from(value.to_string())
        }
        Err(_) => bytes,
    }
}

/// The right answer's head with a body that a task writes.
fn with_body<F: Future<Output = ()> + Send + 'static>(
    app: &Arc<App>,
    call: &Call,
    write: impl FnOnce(Bytes, mpsc::Sender<Piece>) -> F,
) -> Response<Body> {
    let reply = call.execute(app);
    let Content::Bytes(_, bytes) = &reply.content else {
        return respond(app, call, reply, None);
    };
    let (sender, pieces) = mpsc::channel(1);
    tokio::spawn(write(bytes.clone(), sender));
    let mut response = respond(app, call, reply, None);
    *response.body_mut() = Body::from_stream(sse::body_of(pieces));
    response
}

fn truncated(app: &Arc<App>, call: &Call) -> Response<Body> {
    let mut length = 0;
    let mut response = with_body(app, call, |bytes, pieces| {
        length = bytes.len();
        async move {
            let half = bytes.slice(..bytes.len() / 2);
            // A client that has disconnected needs no more.
            if pieces.send(Ok(half)).await.is_ok() {
                let _ = pieces.send(Err(sse::cut())).await;
            }
        }
    });
    if length > 0 {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    response
}

/// A JSON string of about this many bytes.
async fn huge(pieces: mpsc::Sender<Piece>, bytes: usize) {
    let padding = Bytes::from(vec![b'x'; HUGE_PIECE]);
    let (begin, end) = (
        Bytes::from_static(b"{\"padding\":\""),
        Bytes::from_static(b"\"}"),
    );
    let padding = iter::repeat_n(padding, bytes / HUGE_PIECE + 1);
    for piece in iter::once(begin).chain(padding).chain([end]) {
        // Fails when the client has disconnected.
        if pieces.send(Ok(piece)).await.is_err() {
            return;
        }
    }
}
