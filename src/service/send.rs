//! The parts of one attempt: the request, the answer's head, a problem, the failure, the time limit, the report.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE,
    RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use reqwest::Response;
use serde_json::value::RawValue;
use tokio::time::Instant;
use url::Url;

use crate::api::limits::MAX_CODE;
use crate::clock;
use crate::decide::failure::{Failure, FailureKind};

use super::BaseUrl;
use super::identity::{Credentials, IdempotencyKey, RunId, RunIdError, Token};
use super::text::{MESSAGE_BYTES, Redactor, lossy, one_line, request_id, with_causes};

/// The service's six operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `GET /version`.
    Version,
    /// `GET /workspaces/current`.
    CurrentWorkspace,
    /// `POST /runs`.
    CreateRun,
    /// `GET /runs/{runId}`.
    GetRun,
    /// `POST /runs/{runId}:cancel`.
    CancelRun,
    /// `GET /runs/{runId}/events`.
    RunEvents,
}

impl Operation {
    /// Every operation.
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

/// Outcome of one call.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The HTTP status, if there was an answer.
    pub http_status: Option<u16>,
    /// The error; `None` for a success.
    pub error: Option<&'a CallError>,
    /// From the call to its end. For an event stream, to its opening.
    pub elapsed: Duration,
}

/// Called once for every call, when it is over. Must not block.
pub trait Observer: Send + Sync {
    /// A call is over.
    fn on_answer(&self, operation: Operation, outcome: &Outcome<'_>);
}

/// Counts nothing.
impl Observer for () {
    fn on_answer(&self, _: Operation, _: &Outcome<'_>) {}
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Errors are problems (rule 8), so they are accepted as well.
const ACCEPT_JSON: HeaderValue =
    HeaderValue::from_static("application/json, application/problem+json");
const ACCEPT_EVENTS: HeaderValue =
    HeaderValue::from_static("text/event-stream, application/problem+json");
const NONE: HeaderValue = HeaderValue::from_static("0");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

const IDEMPOTENCY_KEY: &str = "idempotency-key";
const WORKSPACE_ID: &str = "x-service-workspace-id";
const LAST_EVENT_ID: &str = "last-event-id";

/// A request that is ready to be sent.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
    /// Kept so that it can be removed from the answer (rule 7).
    pub(super) token: Option<Token>,
}

impl Request {
    /// The only request without credentials (rule 3).
    pub(super) fn version(base: &BaseUrl) -> Result<Self, CallError> {
        Self::new(base, Method::GET, "/version")
    }

    pub(super) fn current_workspace(
        base: &BaseUrl,
        credentials: &Credentials,
    ) -> Result<Self, CallError> {
        Self::new(base, Method::GET, "/workspaces/current")?.authorized(credentials)
    }

    /// Without the token that it needs, so that it must be refused (rule 3).
    pub(super) fn workspace_without_token(base: &BaseUrl) -> Result<Self, CallError> {
        Self::new(base, Method::GET, "/workspaces/current")
    }

    pub(super) fn create_run(
        base: &BaseUrl,
        credentials: &Credentials,
        key: &IdempotencyKey,
        body: Bytes,
    ) -> Result<Self, CallError> {
        let mut request = Self::new(base, Method::POST, "/runs")?.authorized(credentials)?;
        request
            .headers
            .insert(IDEMPOTENCY_KEY, key.header().map_err(unsendable)?);
        request.headers.insert(CONTENT_TYPE, JSON);
        request.body = Some(body);
        Ok(request)
    }

    pub(super) fn get_run(
        base: &BaseUrl,
        credentials: &Credentials,
        run_id: &RunId,
    ) -> Result<Self, CallError> {
        Self::new(base, Method::GET, &format!("/runs/{}", run_id.segment()))?
            .authorized(credentials)
    }

    pub(super) fn cancel_run(
        base: &BaseUrl,
        credentials: &Credentials,
        run_id: &RunId,
    ) -> Result<Self, CallError> {
        let path = format!("/runs/{}:cancel", run_id.segment());
        let mut request = Self::new(base, Method::POST, &path)?.authorized(credentials)?;
        // Sent explicitly: a POST without a length is refused (411) by some proxies.
        request.headers.insert(CONTENT_LENGTH, NONE);
        Ok(request)
    }

    /// An empty `last_event_id` is not sent: an empty `id:` line resets it to that.
    pub(super) fn run_events(
        base: &BaseUrl,
        credentials: &Credentials,
        run_id: &RunId,
        last_event_id: Option<&str>,
    ) -> Result<Self, CallError> {
        let path = format!("/runs/{}/events", run_id.segment());
        let mut request = Self::new(base, Method::GET, &path)?.authorized(credentials)?;
        request.headers.insert(ACCEPT, ACCEPT_EVENTS);
        if let Some(id) = last_event_id.filter(|id| !id.is_empty()) {
            // Not `from_str`, which promises no more than ASCII: an id may hold UTF-8.
            let id = HeaderValue::from_bytes(id.as_bytes()).map_err(unsendable)?;
            request.headers.insert(LAST_EVENT_ID, id);
        }
        Ok(request)
    }

    fn new(base: &BaseUrl, method: Method, path: &str) -> Result<Self, CallError> {
        let url = Url::parse(&format!("{base}{path}")).map_err(unsendable)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, ACCEPT_JSON);
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        Ok(Self {
            method,
            url,
            headers,
            body: None,
            token: None,
        })
    }

    fn authorized(mut self, credentials: &Credentials) -> Result<Self, CallError> {
        let token = credentials.token.header().map_err(unsendable)?;
        self.headers.insert(AUTHORIZATION, token);
        if let Some(id) = &credentials.workspace_id {
            let id = HeaderValue::from_str(id.as_str()).map_err(unsendable)?;
            self.headers.insert(WORKSPACE_ID, id);
        }
        self.token = Some(credentials.token.clone());
        Ok(self)
    }
}

/// Whether a header can carry an event's id. UTF-8 is allowed in one, control characters are not.
pub(super) fn can_be_sent(id: &str) -> bool {
    HeaderValue::from_bytes(id.as_bytes()).is_ok()
}

fn unsendable(error: impl Into<BoxError>) -> CallError {
    CallError::BuildRequest(error.into())
}

/// The header with the request's id (rule 11).
const REQUEST_ID: &str = "x-request-id";

/// The used parts of an answer's status line and headers.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) media_type: Option<String>,
    /// The body is compressed, whatever was requested.
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

    /// Whether the body is of this media type, whatever its parameters.
    pub(super) fn is_media_type(&self, name: &str) -> bool {
        self.media_type.as_deref() == Some(name)
    }
}

/// Bytes of a problem body; a larger one is not the service's.
pub(super) const PROBLEM_BYTES: usize = 64 * 1024;
const MEDIA_TYPE: &str = "application/problem+json";

/// An error as the service describes it (rule 8). No field holds the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service answered HTTP {status} with the code {code:?}")]
pub struct Problem {
    /// The answer's status, 400 to 599.
    pub status: u16,
    /// Stable and machine-readable: policy branches on it. One line of at most 128 bytes.
    pub code: String,
    /// For a person; never branched on. One line of at most 512 bytes.
    pub title: Option<String>,
    /// The same request may succeed later, by the service's answer (rule 10).
    pub retryable: Option<bool>,
    /// `X-Request-ID`, else the body's `requestId` (rule 11).
    pub request_id: Option<String>,
    /// The answer's `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// Whether an answer declares its body a problem. Only the media type decides (rule 8): an `application/json` body
    /// with a `code` in it is a proxy's own.
    pub(super) fn is_named_by(head: &Head) -> bool {
        head.is_media_type(MEDIA_TYPE)
    }

    /// Reads a body. `None` if it is no JSON object with a `code`: then it is not the service's, despite its media
    /// type. All other fields may be absent or of the wrong type.
    pub(super) fn read(head: &Head, body: &[u8], redactor: &Redactor) -> Option<Self> {
        let body = lossy(body);
        // Fields that are not read, such as `params`, may be of any depth.
        let fields: HashMap<String, &RawValue> = serde_json::from_str(&body).ok()?;
        let string = |field: &str| serde_json::from_str::<String>(fields.get(field)?.get()).ok();
        let text = |field: &str, max: usize| {
            let text = one_line(&redactor.text(&string(field)?), max);
            (!text.is_empty()).then_some(text)
        };
        Some(Self {
            status: head.status.as_u16(),
            code: text("code", MAX_CODE)?,
            title: text("title", MESSAGE_BYTES),
            retryable: fields
                .get("retryable")
                .and_then(|value| serde_json::from_str(value.get()).ok()),
            request_id: head.request_id.clone().or_else(|| {
                let id = string("requestId")?;
                request_id(id.as_bytes()).filter(|id| !redactor.is_in(id))
            }),
            retry_after: head.retry_after,
        })
    }
}

/// Error of an error status, by the body of the answer if that is a problem.
pub(super) fn refused(head: Head, problem: Option<&[u8]>, redactor: &Redactor) -> CallError {
    match problem.and_then(|body| Problem::read(&head, body, redactor)) {
        Some(problem) => CallError::Problem(Box::new(problem)),
        None => CallError::Bare(Box::new(BareAnswer {
            status: head.status.as_u16(),
            request_id: head.request_id,
            retry_after: head.retry_after,
        })),
    }
}

/// `ENFILE` and `EMFILE`, on every Unix.
const NO_FILE: [i32; 2] = [23, 24];

/// A cause whose type is private.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Error of one attempt of a call. Holds no token, no body and no URL.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The request can't be written: nothing was sent.
    #[error("failed to build the request")]
    BuildRequest(#[source] BoxError),
    /// No connection: name not found, refused, TLS not agreed on, timeout.
    #[error("failed to connect to the service")]
    Connect(#[source] reqwest::Error),
    /// Connected, but no answer: the request's outcome is unknown.
    #[error("failed to get an answer from the service")]
    Exchange(#[source] reqwest::Error),
    /// No answer in time: the request's outcome is unknown.
    #[error("failed to get an answer from the service within {seconds} s")]
    AwaitAnswer {
        /// The contract file's `requestSeconds`.
        seconds: u64,
    },
    /// The answer began but did not end.
    #[error("failed to read the service's answer to its end")]
    ReadBody {
        /// The answer's status.
        status: u16,
        /// Its request id (rule 11).
        request_id: Option<String>,
        /// The cause.
        source: BodyError,
    },
    /// An answer with a problem body (rule 8).
    #[error(transparent)]
    Problem(Box<Problem>),
    /// An error status without a problem body, a proxy's own page for example.
    #[error(transparent)]
    Bare(Box<BareAnswer>),
    /// An answer that is no error, but doesn't follow the contract.
    #[error("failed to read the service's answer (HTTP {status})")]
    Unreadable {
        /// The answer's status.
        status: u16,
        /// Its request id (rule 11).
        request_id: Option<String>,
        /// The cause.
        #[source]
        reason: UnreadableReason,
    },
}

/// An error status without a problem body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service answered HTTP {status} without a problem body")]
pub struct BareAnswer {
    /// The answer's status, 400 to 599.
    pub status: u16,
    /// Its request id (rule 11).
    pub request_id: Option<String>,
    /// Its `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
}

/// Reason why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection was cut.
    #[error("failed to receive the rest")]
    Cut(#[source] reqwest::Error),
    /// The call's time was over.
    #[error("it did not end within {seconds} s")]
    TimedOut {
        /// The contract file's `requestSeconds`.
        seconds: u64,
    },
    /// An event stream without a byte, not even a comment.
    #[error("nothing was received for {seconds} s")]
    Idle {
        /// The contract file's `streamIdleSeconds`.
        seconds: u64,
    },
}

/// Defect of an answer that is no error.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableReason {
    /// 3xx.
    #[error("it is a redirect, and redirects are not followed; correct the base URL")]
    Redirect,
    /// Neither success, redirect nor error.
    #[error("its status has no meaning here")]
    UnknownStatus,
    /// More bytes than the contract file allows.
    #[error("it is larger than {limit} bytes")]
    TooLarge {
        /// The contract file's `bodyBytes`.
        limit: usize,
    },
    /// Compressed, though the request asked for an uncompressed answer. Nothing is decompressed: a few bytes may expand
    /// to any number.
    #[error(
        "it is compressed, which the request does not allow (Accept-Encoding: identity); have what stands \
         before the service leave its answers as they are"
    )]
    Compressed,
    /// Not JSON.
    #[error("it is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// No runId at the contract file's pointers.
    #[error("it names no runId")]
    NoRunId,
    /// A runId that can't be used.
    #[error("its runId can't be used")]
    IllegalRunId(#[source] RunIdError),
    /// The runId repeats the token, and would bring it into URLs (rule 7).
    #[error("its runId repeats the token")]
    TokenInRunId,
    /// The workspace's identity repeats the token. With the token removed it would be the same for every workspace and
    /// no longer detect a mistake (rules 4 and 7).
    #[error(
        "its identity of the workspace repeats the token; correct the contract file's pointers to it"
    )]
    TokenInIdentity,
    /// Another run than the requested one.
    #[error("it names another runId than the one asked for")]
    OtherRunId,
    /// Not `text/event-stream`.
    #[error("it is no event stream")]
    NotEventStream,
}

impl CallError {
    pub(super) fn unreadable(head: &Head, reason: UnreadableReason) -> Self {
        Self::Unreadable {
            status: head.status.as_u16(),
            request_id: head.request_id.clone(),
            reason,
        }
    }

    pub(super) fn body(head: &Head, source: BodyError) -> Self {
        Self::ReadBody {
            status: head.status.as_u16(),
            request_id: head.request_id.clone(),
            source,
        }
    }

    /// Error of sending, by its cause; the URL, which reqwest keeps, is dropped.
    pub(super) fn send(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_builder() {
            Self::BuildRequest(error.into())
        } else if error.is_connect() {
            Self::Connect(error)
        } else {
            Self::Exchange(error)
        }
    }

    /// Kind of the failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::BuildRequest(_) => FailureKind::NotSent,
            Self::Connect(error) if no_file(error) => FailureKind::NoFile,
            Self::Connect(_)
            | Self::Exchange(_)
            | Self::AwaitAnswer { .. }
            | Self::ReadBody { .. } => FailureKind::NoAnswer,
            Self::Problem(_) | Self::Bare(_) => FailureKind::Answered,
            Self::Unreadable { .. } => FailureKind::Unreadable,
        }
    }

    /// The HTTP status, if there was an answer.
    pub fn http_status(&self) -> Option<u16> {
        match self {
            Self::BuildRequest(_)
            | Self::Connect(_)
            | Self::Exchange(_)
            | Self::AwaitAnswer { .. } => None,
            Self::ReadBody { status, .. } | Self::Unreadable { status, .. } => Some(*status),
            Self::Problem(problem) => Some(problem.status),
            Self::Bare(bare) => Some(bare.status),
        }
    }

    /// The request's id, if an answer named it (rule 11).
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::BuildRequest(_)
            | Self::Connect(_)
            | Self::Exchange(_)
            | Self::AwaitAnswer { .. } => None,
            Self::ReadBody { request_id, .. } | Self::Unreadable { request_id, .. } => {
                request_id.as_deref()
            }
            Self::Problem(problem) => problem.request_id.as_deref(),
            Self::Bare(bare) => bare.request_id.as_deref(),
        }
    }

    /// The problem, if there is one (rule 8).
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The answer's `Retry-After`, unclamped.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem(problem) => problem.retry_after,
            Self::Bare(bare) => bare.retry_after,
            _ => None,
        }
    }
}

/// Whether a connection failed because this process, or the machine, may open no more files.
fn no_file(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .filter_map(io::Error::raw_os_error)
        .any(|code| NO_FILE.contains(&code))
}

impl From<&CallError> for Failure {
    fn from(error: &CallError) -> Self {
        let problem = error.problem();
        let message = match problem.and_then(|p| p.title.as_deref()) {
            Some(title) => one_line(title, MESSAGE_BYTES),
            None => with_causes(error),
        };
        Self {
            kind: error.kind(),
            http_status: error.http_status(),
            code: problem.map(|p| p.code.clone()),
            request_id: error.request_id().map(str::to_owned),
            retryable: problem.and_then(|p| p.retryable),
            retry_after: error.retry_after(),
            message,
        }
    }
}

/// The longest time limit, 30 days: a contract file may name any number of seconds.
const FAR: Duration = Duration::from_hours(720);

/// End of a time limit.
#[derive(Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    /// The whole limit, for messages.
    pub(super) seconds: u64,
}

impl Deadline {
    /// The instant so many seconds from now, 30 days at most.
    pub(super) fn after(seconds: u64) -> Self {
        Self {
            at: Instant::now() + Duration::from_secs(seconds).min(FAR),
            seconds,
        }
    }
}

/// The preferred form of a date, `Sun, 06 Nov 1994 08:49:37 GMT`. A wrong weekday is no reason to retry at once.
static PREFERRED: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);
/// The obsolete forms, which a recipient must still understand (RFC 9110, 5.6.7).
const OBSOLETE: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// The delay that the service asks for, unclamped; zero for a date in the past. An unreadable value counts as absent.
///
/// A date is from the service's clock, and so it is compared with the answer's own `Date`; without one, with `wall`,
/// the local wall clock.
fn retry_after(headers: &HeaderMap, wall: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a number holds still mean "very long".
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let sent = headers.get(DATE).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|text| date(text.trim())).unwrap_or(wall);
    let wait = date(text)?.duration_since(sent);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

fn date(text: &str) -> Option<Timestamp> {
    if let Ok(at) = PREFERRED.parse_timestamp(text) {
        return Some(at);
    }
    OBSOLETE.iter().find_map(|form| {
        let at = DateTime::strptime(form, text).ok()?;
        Some(at.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use rstest::rstest;

    #[derive(Debug, thiserror::Error)]
    #[error("no connection")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_connection_that_lacks_a_file_is_known_by_its_cause() {
        let caused_by = |code| Outer(io::Error::from_raw_os_error(code));
        for code in NO_FILE {
            assert!(no_file(&caused_by(code)), "{code}");
            assert!(no_file(&io::Error::from_raw_os_error(code)), "{code}");
        }
        // Refused.
        assert!(!no_file(&caused_by(111)));
        assert!(!no_file(&Outer(io::Error::other("no code"))));
    }

    /// Each lookup of a name fails with this error of the system.
    struct NoName(i32);

    impl reqwest::dns::Resolve for NoName {
        fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
            let error = io::Error::from_raw_os_error(self.0);
            Box::pin(async move { Err(error.into()) })
        }
    }

    #[tokio::test]
    async fn a_call_that_gets_no_file_is_told_from_one_without_an_answer() {
        // Another test may have chosen it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kind = async |code| {
            let client = reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .dns_resolver(NoName(code))
                .build()
                .unwrap();
            let call = client.get("http://service.example").send();
            CallError::send(call.await.unwrap_err()).kind()
        };
        for code in NO_FILE {
            assert_eq!(kind(code).await, FailureKind::NoFile, "{code}");
        }
        assert_eq!(kind(111).await, FailureKind::NoAnswer);
    }

    #[rstest]
    #[case("0", Some(0))]
    #[case("120", Some(120))]
    #[case(" 7 ", Some(7))]
    #[case("99999999999999999999999", Some(u64::MAX))]
    #[case("Sun, 06 Nov 1994 08:50:00 GMT", Some(23))]
    #[case("Mon, 06 Nov 1994 08:50:00 GMT", Some(23))]
    #[case("Sunday, 06-Nov-94 08:50:00 GMT", Some(23))]
    #[case("Sun Nov  6 08:50:00 1994", Some(23))]
    #[case("Sun, 06 Nov 1994 08:00:00 GMT", Some(0))]
    #[case("", None)]
    #[case("-1", None)]
    #[case("1.5", None)]
    #[case("soon", None)]
    fn every_form_is_read(#[case] text: &str, #[case] seconds: Option<u64>) {
        let now: Timestamp = "1994-11-06T08:49:37Z".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs));
    }

    /// Proves: P-clock
    #[test]
    fn a_date_is_compared_with_the_date_of_its_own_answer() {
        let mut headers = HeaderMap::new();
        let header = |text| HeaderValue::from_static(text);
        headers.insert(DATE, header("Sun, 06 Nov 1994 08:49:37 GMT"));
        headers.insert(RETRY_AFTER, header("Sun, 06 Nov 1994 08:50:00 GMT"));
        let an_hour_early: Timestamp = "1994-11-06T07:49:37Z".parse().unwrap();
        assert_eq!(
            retry_after(&headers, an_hour_early),
            Some(Duration::from_secs(23))
        );
        headers.insert(DATE, header("today"));
        let near: Timestamp = "1994-11-06T08:49:59Z".parse().unwrap();
        assert_eq!(retry_after(&headers, near), Some(Duration::from_secs(1)));
    }

    #[test]
    fn no_header_is_no_wish() {
        assert_eq!(retry_after(&HeaderMap::new(), Timestamp::UNIX_EPOCH), None);
    }
}
