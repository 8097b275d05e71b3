//! One attempt: a request is built and sent, its answer is read in time and judged by its status.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use reqwest::Response;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::api::contract::Contract;
use crate::api::limits::MAX_CODE;
use crate::clock;
use crate::decide::failure::{Failure, FailureKind};

use super::BaseUrl;
use super::excerpt::Excerpt;
use super::identity::{Credentials, IdempotencyKey, RunId, Token};
use super::retry_after::retry_after;
use super::text::{Cause, MESSAGE_BYTES, Redactor, lossy, message, one_line, request_id};

const REQUEST_ID: &str = "x-request-id";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const WORKSPACE_ID: HeaderName = HeaderName::from_static("x-service-workspace-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Errors are problems (rule 8), so they are accepted as well.
const ACCEPT_JSON: HeaderValue =
    HeaderValue::from_static("application/json, application/problem+json");
const ACCEPT_EVENTS: HeaderValue =
    HeaderValue::from_static("text/event-stream, application/problem+json");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The media type of a problem (rule 8). Only it decides: an `application/json` body with a `code` in it is a proxy's own.
pub(super) const PROBLEM: &str = "application/problem+json";
/// The fields of a problem that are used.
const PROBLEM_POINTERS: [&str; 4] = ["/code", "/title", "/retryable", "/requestId"];
/// Bytes that are kept of a problem body; one with more is not the service's.
pub(super) const PROBLEM_BYTES: usize = 64 * 1024;
/// Bytes by which an answer may be larger than what is kept of it. It may repeat the workload, which has 1.5 MiB at most,
/// with escapes and indented: 16 times that.
pub(super) const REPEATED: usize = 24 * 1024 * 1024;

/// The longest time limit, 30 days: a contract file may name any number of seconds.
const FAR: Duration = Duration::from_hours(720);
/// `ENFILE` and `EMFILE`, on every Unix.
const NO_FILE: [i32; 2] = [23, 24];

/// Defect of a compressed answer. Nothing is decompressed: a few bytes may expand to any number.
const COMPRESSED: &str = "it is compressed, which the request does not allow (Accept-Encoding: identity); have what stands before the service leave its answers as they are";
pub(super) const REST_LOST: &str = "failed to receive the rest";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Version,
    CurrentWorkspace,
    CreateRun,
    GetRun,
    CancelRun,
    RunEvents,
}

impl Operation {
    pub const ALL: [Self; 6] = [
        Self::Version,
        Self::CurrentWorkspace,
        Self::CreateRun,
        Self::GetRun,
        Self::CancelRun,
        Self::RunEvents,
    ];

    /// Its name, the same as the `operationId` in the `OpenAPI` document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "getVersion",
            Self::CurrentWorkspace => "getCurrentWorkspace",
            Self::CreateRun => "createRun",
            Self::GetRun => "getRun",
            Self::CancelRun => "cancelRun",
            Self::RunEvents => "streamRunEvents",
        }
    }
}

/// Called once for every call, when it is over. Must not block.
pub trait Observer: Send + Sync {
    /// A call is over, with this HTTP status if there was an answer. It took so long; an event stream, to its opening.
    fn ended(&self, operation: Operation, http_status: Option<u16>, took: Duration);
}

impl Observer for () {
    fn ended(&self, _: Operation, _: Option<u16>, _: Duration) {}
}

pub(super) struct Request {
    pub(super) http: reqwest::Request,
    /// Kept so that it can be removed from the answer (rule 7).
    token: Option<Token>,
}

impl Request {
    /// A request without credentials: `/version` needs none, and any other must then be refused (rule 3).
    pub(super) fn public(base: &BaseUrl, path: &str) -> Result<Self, Failure> {
        Self::new(base, Method::GET, path)
    }

    pub(super) fn current_workspace(base: &BaseUrl, who: &Credentials) -> Result<Self, Failure> {
        Self::new(base, Method::GET, "/workspaces/current")?.authorized(who)
    }

    pub(super) fn create_run(
        base: &BaseUrl,
        who: &Credentials,
        key: &IdempotencyKey,
        body: Bytes,
    ) -> Result<Self, Failure> {
        let request = Self::new(base, Method::POST, "/runs")?.authorized(who)?;
        let key = key.header().map_err(unsendable)?;
        let mut request = request.with(IDEMPOTENCY_KEY, key).with(CONTENT_TYPE, JSON);
        *request.http.body_mut() = Some(body.into());
        Ok(request)
    }

    pub(super) fn get_run(base: &BaseUrl, who: &Credentials, id: &RunId) -> Result<Self, Failure> {
        Self::new(base, Method::GET, &format!("/runs/{}", id.segment()))?.authorized(who)
    }

    pub(super) fn cancel_run(
        base: &BaseUrl,
        who: &Credentials,
        id: &RunId,
    ) -> Result<Self, Failure> {
        let path = format!("/runs/{}:cancel", id.segment());
        let request = Self::new(base, Method::POST, &path)?.authorized(who)?;
        // Sent explicitly: a POST without a length is refused (411) by some proxies.
        Ok(request.with(CONTENT_LENGTH, HeaderValue::from_static("0")))
    }

    /// An empty `last_event_id` is not sent: an empty `id:` line resets it to that.
    pub(super) fn run_events(
        base: &BaseUrl,
        who: &Credentials,
        run_id: &RunId,
        last_event_id: Option<&str>,
    ) -> Result<Self, Failure> {
        let path = format!("/runs/{}/events", run_id.segment());
        let request = Self::new(base, Method::GET, &path)?.authorized(who)?;
        let request = request.with(ACCEPT, ACCEPT_EVENTS);
        let Some(id) = last_event_id.filter(|id| !id.is_empty()) else {
            return Ok(request);
        };
        // Not `from_str`, which promises no more than ASCII: an id may hold UTF-8.
        let id = HeaderValue::from_bytes(id.as_bytes()).map_err(unsendable)?;
        Ok(request.with(LAST_EVENT_ID, id))
    }

    fn new(base: &BaseUrl, method: Method, path: &str) -> Result<Self, Failure> {
        let url = Url::parse(&format!("{base}{path}")).map_err(unsendable)?;
        let request = Self {
            http: reqwest::Request::new(method, url),
            token: None,
        };
        Ok(request
            .with(ACCEPT, ACCEPT_JSON)
            .with(ACCEPT_ENCODING, IDENTITY))
    }

    fn authorized(self, who: &Credentials) -> Result<Self, Failure> {
        let token = who.token.header().map_err(unsendable)?;
        let mut request = self.with(AUTHORIZATION, token);
        if let Some(id) = &who.workspace_id {
            let id = HeaderValue::from_str(id.as_str()).map_err(unsendable)?;
            request = request.with(WORKSPACE_ID, id);
        }
        request.token = Some(who.token.clone());
        Ok(request)
    }

    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.http.headers_mut().insert(name, value);
        self
    }
}

/// Whether a header can carry an event's id. UTF-8 is allowed in one, control characters are not.
pub(super) fn can_be_sent(id: &str) -> bool {
    HeaderValue::from_bytes(id.as_bytes()).is_ok()
}

fn unsendable(error: impl Error + 'static) -> Failure {
    let text = message("failed to build the request", Some(&error));
    Failure::new(FailureKind::NotSent, text)
}

#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) seconds: u64,
}

impl Deadline {
    pub(super) fn after(seconds: u64) -> Self {
        Self {
            at: Instant::now() + Duration::from_secs(seconds).min(FAR),
            seconds,
        }
    }
}

#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) media_type: Option<String>,
    pub(super) compressed: bool,
}

impl Head {
    pub(super) fn read(response: &Response, redactor: &Redactor) -> Self {
        let headers = response.headers();
        let media_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .map(|name| name.trim().to_ascii_lowercase());
        Self {
            status: response.status(),
            request_id: headers
                .get(REQUEST_ID)
                .and_then(|value| request_id(value.as_bytes()))
                .filter(|id| !redactor.is_in(id)),
            retry_after: retry_after(headers, clock::wall()),
            media_type,
            compressed: headers
                .get_all(CONTENT_ENCODING)
                .iter()
                .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")),
        }
    }

    pub(super) fn is_media_type(&self, name: &str) -> bool {
        self.media_type.as_deref() == Some(name)
    }

    pub(super) fn unreadable(&self, defect: &str, cause: Cause<'_>) -> Failure {
        let status = self.status.as_u16();
        let text = format!("failed to read the service's answer (HTTP {status}): {defect}");
        self.failure(FailureKind::Unreadable, &text, cause)
    }

    pub(super) fn cut(&self, how: &str, cause: Cause<'_>) -> Failure {
        let text = format!("failed to read the service's answer to its end: {how}");
        self.failure(FailureKind::NoAnswer, &text, cause)
    }

    fn failure(&self, kind: FailureKind, text: &str, cause: Cause<'_>) -> Failure {
        Failure {
            http_status: Some(self.status.as_u16()),
            request_id: self.request_id.clone(),
            ..Failure::new(kind, message(text, cause))
        }
    }
}

/// The failure that an error status stands for; `body` is that of an answer that declares it a problem (rule 8).
pub(super) fn refused(head: Head, body: Option<&[u8]>, redactor: &Redactor) -> Failure {
    let status = head.status.as_u16();
    let bare = Failure {
        http_status: Some(status),
        request_id: head.request_id,
        retry_after: head.retry_after,
        ..Failure::new(
            FailureKind::Answered,
            format!("the service answered HTTP {status} without a problem body"),
        )
    };
    let problem = body.and_then(|body| problem(&bare, status, body, redactor));
    problem.unwrap_or(bare)
}

/// `None` without a `code`: then it is not the service's. All other fields may be absent or of the wrong type.
fn problem(bare: &Failure, status: u16, body: &[u8], redactor: &Redactor) -> Option<Failure> {
    let body = lossy(body);
    // Fields that are not read, such as `params`, may be of any depth.
    let fields: HashMap<String, &RawValue> = serde_json::from_str(&body).ok()?;
    let string = |field: &str| serde_json::from_str::<String>(fields.get(field)?.get()).ok();
    let text = |field: &str, max: usize| {
        let text = one_line(&redactor.text(&string(field)?), max);
        (!text.is_empty()).then_some(text)
    };
    let code = text("code", MAX_CODE)?;
    let untitled = || format!("the service answered HTTP {status} with the code {code:?}");
    Some(Failure {
        message: text("title", MESSAGE_BYTES).unwrap_or_else(untitled),
        retryable: fields
            .get("retryable")
            .and_then(|value| serde_json::from_str(value.get()).ok()),
        request_id: bare.request_id.clone().or_else(|| {
            let id = string("requestId")?;
            request_id(id.as_bytes()).filter(|id| !redactor.is_in(id))
        }),
        code: Some(code),
        ..bare.clone()
    })
}

/// The URL, which reqwest keeps, is dropped.
fn unanswered(error: reqwest::Error) -> Failure {
    let error = error.without_url();
    if error.is_builder() {
        return unsendable(error);
    }
    let kind = if error.is_connect() && no_file(&error) {
        FailureKind::NoFile
    } else {
        FailureKind::NoAnswer
    };
    let text = if error.is_connect() {
        "failed to connect to the service"
    } else {
        "failed to get an answer from the service"
    };
    Failure::new(kind, message(text, Some(&error)))
}

fn no_file(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .filter_map(io::Error::raw_os_error)
        .any(|code| NO_FILE.contains(&code))
}

pub(super) struct Sender {
    pub(super) contract: Arc<Contract>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) observer: Arc<dyn Observer>,
}

impl Sender {
    pub(super) fn limit(&self) -> Deadline {
        Deadline::after(self.contract.timeouts().request_seconds)
    }

    pub(super) async fn reported<T>(
        &self,
        operation: Operation,
        attempt: impl Future<Output = Result<(StatusCode, T), Failure>>,
    ) -> Result<T, Failure> {
        let started = Instant::now();
        let result = attempt.await;
        let failure = result.as_ref().err();
        let http_status = match &result {
            Ok((status, _)) => Some(status.as_u16()),
            Err(failure) => failure.http_status,
        };
        tracing::debug!(
            operation = operation.as_str(),
            http.status = http_status,
            request.id = failure.and_then(|failure| failure.request_id.as_deref()),
            error = failure.map(|failure| failure.message.as_str()),
            "service call"
        );
        self.observer
            .ended(operation, http_status, started.elapsed());
        result.map(|(_, value)| value)
    }

    pub(super) async fn send(
        &self,
        http: &reqwest::Client,
        request: Request,
        limit: Deadline,
    ) -> Result<Incoming, Failure> {
        if let Some(token) = &request.token {
            self.redactor.remember(token);
        }
        let Ok(sent) = timeout_at(limit.at, http.execute(request.http)).await else {
            let seconds = limit.seconds;
            let text = format!("failed to get an answer from the service within {seconds} s");
            return Err(Failure::new(FailureKind::NoAnswer, text));
        };
        let response = sent.map_err(unanswered)?;
        Ok(Incoming {
            head: Head::read(&response, &self.redactor),
            response,
            limit,
        })
    }
}

pub(super) struct Incoming {
    pub(super) head: Head,
    pub(super) response: Response,
    limit: Deadline,
}

impl Incoming {
    pub(super) async fn success(mut self, redactor: &Redactor) -> Result<Self, Failure> {
        let status = self.head.status;
        if status.is_success() && !self.head.compressed {
            return Ok(self);
        }
        if status.is_client_error() || status.is_server_error() {
            // A body that is no problem is not read: nothing may be concluded from it.
            let body = if self.head.is_media_type(PROBLEM) {
                self.excerpt(PROBLEM_POINTERS, PROBLEM_BYTES, |_| ())
                    .await?
            } else {
                None
            };
            return Err(refused(self.head, body.as_deref(), redactor));
        }
        let defect = if status.is_success() {
            COMPRESSED
        } else if status.is_redirection() {
            "it is a redirect, and redirects are not followed; correct the base URL"
        } else {
            "its status has no meaning here"
        };
        Err(self.head.unreadable(defect, None))
    }

    /// Reads the body in time; `None` if it has more than `most` bytes, whatever its `Content-Length`.
    pub(super) async fn body(&mut self, most: usize) -> Result<Option<Bytes>, Failure> {
        let mut body = BytesMut::new();
        let take = |chunk: &[u8]| {
            body.extend_from_slice(chunk);
            true
        };
        let whole = self.read(most, take).await?;
        Ok(whole.then(|| body.freeze()))
    }

    /// What these pointers lead to in the body, which may repeat what was sent; `None` if that has more than `most` bytes.
    /// `also` reads the whole body.
    pub(super) async fn excerpt<'a>(
        &mut self,
        pointers: impl IntoIterator<Item = &'a str>,
        most: usize,
        mut also: impl FnMut(&[u8]),
    ) -> Result<Option<Bytes>, Failure> {
        let mut excerpt = Excerpt::new(pointers);
        let take = |chunk: &[u8]| {
            also(chunk);
            excerpt.read(chunk);
            excerpt.len() <= most
        };
        let whole = self.read(most.saturating_add(REPEATED), take).await?;
        Ok(whole.then(|| excerpt.into_bytes().into()))
    }

    /// Reads the body in time. False if it has more than `most` bytes, or `take` has enough.
    async fn read(
        &mut self,
        most: usize,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, Failure> {
        let announced = self.response.content_length().unwrap_or(0);
        if usize::try_from(announced).map_or(true, |bytes| bytes > most) {
            return Ok(false);
        }
        let mut left = most;
        loop {
            match timeout_at(self.limit.at, self.response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    let rest = left.checked_sub(chunk.len());
                    let Some(rest) = rest.filter(|_| take(&chunk)) else {
                        return Ok(false);
                    };
                    left = rest;
                }
                Ok(Ok(None)) => return Ok(true),
                Ok(Err(error)) => return Err(self.head.cut(REST_LOST, Some(&error.without_url()))),
                Err(_) => {
                    let how = format!("it did not end within {} s", self.limit.seconds);
                    return Err(self.head.cut(&how, None));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
