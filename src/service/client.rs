//! The six operations, one attempt each, and what is kept of their answers.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use reqwest::Response;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::api::contract::Contract;
use crate::api::limits::{MAX_RECORD, MAX_SERVICE_VERSION, MAX_STATE};
use crate::decide::failure::{Failure, RunView};
use crate::decide::request::{body::sha256, canonical};

use super::connect::{ClientConfig, ConfigError, HttpClients, HttpPool};
use super::identity::{Credentials, IdempotencyKey, RunId, Token};
use super::send::{
    BodyError, CallError, Deadline, Head, Observer, Operation, Outcome, PROBLEM_BYTES, Problem,
    Request, UnreadableReason, can_be_sent, refused,
};
use super::text::{Redactor, lossy, one_line};
use super::{BaseUrl, EventStream};

/// The service at one base URL. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) http: Arc<HttpClients>,
    base_url: BaseUrl,
    /// The hash of the CA bundle, if one was given.
    ca: Option<String>,
    pub(super) contract: Arc<Contract>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) redactor: Arc<Redactor>,
}

impl Client {
    /// A client with connections of its own. Reads the CA certificates and sets up TLS; makes no connection.
    pub fn new(config: ClientConfig) -> Result<Self, ConfigError> {
        let http = Arc::new(HttpClients::build(&config)?);
        Ok(Self::with(config, http))
    }

    /// A client that shares its connections with every other one of the same origin and CA. Its list of tokens is not
    /// shared: see [`Client::hide`].
    pub fn shared(config: ClientConfig, pool: &HttpPool) -> Result<Self, ConfigError> {
        let http = pool.clients(&config)?;
        Ok(Self::with(config, http))
    }

    fn with(config: ClientConfig, http: Arc<HttpClients>) -> Self {
        let ca = config.ca_pem.as_deref().map(sha256);
        Self {
            inner: Arc::new(Inner {
                http,
                base_url: config.base_url,
                ca,
                redactor: Arc::new(Redactor::new(Arc::clone(&config.contract))),
                contract: config.contract,
                observer: config.observer,
            }),
        }
    }

    /// The SHA-256 of the CA bundle in hexadecimal, if one was given.
    pub fn ca(&self) -> Option<&str> {
        self.inner.ca.as_deref()
    }

    /// An answer to `GET /version` that another client received, without the tokens of this one (rule 7).
    pub fn hidden_in_version(&self, reply: &VersionReply) -> VersionReply {
        VersionReply {
            version: reply.version.as_deref().map(|v| self.hidden(v)),
            request_id: reply.request_id.as_deref().map(|id| self.hidden(id)),
        }
    }

    /// A failure of another client's call, without the tokens of this one (rule 7).
    pub fn hidden_in_failure(&self, failure: &Failure) -> Failure {
        Failure {
            code: failure.code.as_deref().map(|code| self.hidden(code)),
            request_id: failure.request_id.as_deref().map(|id| self.hidden(id)),
            message: self.hidden(&failure.message),
            ..failure.clone()
        }
    }

    fn hidden(&self, text: &str) -> String {
        self.inner.redactor.text(text)
    }

    /// Address of the service.
    pub fn base_url(&self) -> &BaseUrl {
        &self.inner.base_url
    }

    /// Removes this token from all later answers of the service (rule 7). Every call with a token does so
    /// automatically; this is for the check of the version, which comes first and has none.
    pub fn hide(&self, token: &Token) {
        self.inner.redactor.remember(token);
    }

    /// `GET /version`, without a token (rule 3): called first, to verify the API version (rule 13).
    pub async fn version(&self) -> Result<VersionReply, CallError> {
        self.check(Operation::Version, Request::version, Answer::version)
            .await
    }

    /// `GET /workspaces/current`: the workspace that the token acts for.
    pub async fn current_workspace(
        &self,
        credentials: &Credentials,
    ) -> Result<WorkspaceReply, CallError> {
        let request = |base: &BaseUrl| Request::current_workspace(base, credentials);
        self.check(Operation::CurrentWorkspace, request, Answer::workspace)
            .await
    }

    /// `POST /runs`. Every attempt of one logical create passes the same key and the same bytes (rule 1). A success
    /// without a runId is [`CallError::Unreadable`].
    pub async fn create_run(
        &self,
        credentials: &Credentials,
        key: &IdempotencyKey,
        body: Bytes,
    ) -> Result<RunView, CallError> {
        let request = |base: &BaseUrl| Request::create_run(base, credentials, key, body);
        self.call(Operation::CreateRun, request, Answer::created)
            .await
    }

    /// `GET /runs/{runId}`: the truth about a run. An answer about another run is [`CallError::Unreadable`]; one that
    /// names no run, or no state, leaves these fields empty.
    pub async fn get_run(
        &self,
        credentials: &Credentials,
        run_id: &RunId,
    ) -> Result<RunView, CallError> {
        let request = |base: &BaseUrl| Request::get_run(base, credentials, run_id);
        self.call(Operation::GetRun, request, |answer| answer.run(run_id))
            .await
    }

    /// `POST /runs/{runId}:cancel`. A success means that the cancellation was accepted, not that the run ended; its
    /// body may be empty.
    pub async fn cancel_run(
        &self,
        credentials: &Credentials,
        run_id: &RunId,
    ) -> Result<RunView, CallError> {
        let request = |base: &BaseUrl| Request::cancel_run(base, credentials, run_id);
        self.call(Operation::CancelRun, request, |answer| {
            answer.cancelled(run_id)
        })
        .await
    }

    /// `GET /runs/{runId}/events`, from the event after `last_event_id` on (rule 2). Starts at the beginning if there
    /// is none, or one that no header can carry, which the service never issued. Returns once the service has accepted;
    /// from then on only silence ends the stream, not its length.
    pub async fn run_events(
        &self,
        credentials: &Credentials,
        run_id: &RunId,
        last_event_id: Option<&str>,
    ) -> Result<EventStream, CallError> {
        let started = Instant::now();
        let result = async {
            let resumed = last_event_id.filter(|id| can_be_sent(id));
            let request = Request::run_events(self.base_url(), credentials, run_id, resumed)?;
            let place = self.inner.http.streams.place();
            let (head, response) = self.accepted(&place.http, request, self.limit()).await?;
            if !head.is_media_type("text/event-stream") {
                return Err(CallError::unreadable(
                    &head,
                    UnreadableReason::NotEventStream,
                ));
            }
            let contract = &self.inner.contract;
            let redactor = Arc::clone(&self.inner.redactor);
            let status = head.status;
            let stream = EventStream::new(head, (response, place), contract, redactor, resumed);
            Ok((status, stream))
        }
        .await;
        self.observe(Operation::RunEvents, started, result)
    }
}

/// Maximum for a call of a Workspace's check, whatever the contract file's `requestSeconds`: two that hang must be over
/// within 30 s.
const CHECK_SECONDS: u64 = 10;

/// A success with its HTTP status.
pub(super) type Answered<T> = Result<(StatusCode, T), CallError>;

impl Client {
    /// Makes a call for a Run and reads a success to its end.
    pub(super) async fn call<T>(
        &self,
        operation: Operation,
        request: impl FnOnce(&BaseUrl) -> Result<Request, CallError>,
        read: impl FnOnce(Answer) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let http = &self.inner.http.calls;
        self.attempt(operation, (http, self.limit()), request, read)
            .await
    }

    /// Makes a call of a Workspace's check and reads a success to its end: on a connection separate from the calls of
    /// all Runs, and within 10 s.
    pub(super) async fn check<T>(
        &self,
        operation: Operation,
        request: impl FnOnce(&BaseUrl) -> Result<Request, CallError>,
        read: impl FnOnce(Answer) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let http = &self.inner.http.checks;
        let seconds = self.inner.contract.timeouts().request_seconds;
        let limit = Deadline::after(seconds.min(CHECK_SECONDS));
        self.attempt(operation, (http, limit), request, read).await
    }

    async fn attempt<T>(
        &self,
        operation: Operation,
        (http, limit): (&reqwest::Client, Deadline),
        request: impl FnOnce(&BaseUrl) -> Result<Request, CallError>,
        read: impl FnOnce(Answer) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let started = Instant::now();
        let result = async {
            let answer = self.answer(http, request(self.base_url())?, limit).await?;
            Ok((answer.head.status, read(answer)?))
        }
        .await;
        self.observe(operation, started, result)
    }

    async fn answer(
        &self,
        http: &reqwest::Client,
        request: Request,
        limit: Deadline,
    ) -> Result<Answer, CallError> {
        let (head, mut response) = self.accepted(http, request, limit).await?;
        let bytes = self.inner.contract.limits().body_bytes;
        let Some(body) = self.body(&head, &mut response, bytes, limit).await? else {
            let reason = UnreadableReason::TooLarge { limit: bytes };
            return Err(CallError::unreadable(&head, reason));
        };
        Ok(Answer {
            head,
            body,
            contract: Arc::clone(&self.inner.contract),
            redactor: Arc::clone(&self.inner.redactor),
        })
    }

    /// Sends a request; any status but a 2xx is an error.
    pub(super) async fn accepted(
        &self,
        http: &reqwest::Client,
        request: Request,
        limit: Deadline,
    ) -> Result<(Head, Response), CallError> {
        let (head, response) = self.send(http, request, limit).await?;
        let status = head.status;
        if status.is_success() {
            if head.compressed {
                return Err(CallError::unreadable(&head, UnreadableReason::Compressed));
            }
            return Ok((head, response));
        }
        if status.is_client_error() || status.is_server_error() {
            return Err(self.refusal(head, response, limit).await);
        }
        let reason = if status.is_redirection() {
            UnreadableReason::Redirect
        } else {
            UnreadableReason::UnknownStatus
        };
        Err(CallError::unreadable(&head, reason))
    }

    /// Sends a request and reads the answer's head.
    pub(super) async fn send(
        &self,
        http: &reqwest::Client,
        request: Request,
        limit: Deadline,
    ) -> Result<(Head, Response), CallError> {
        if let Some(token) = &request.token {
            self.hide(token);
        }
        let mut builder = http
            .request(request.method, request.url)
            .headers(request.headers);
        if let Some(body) = request.body {
            builder = builder.body(body);
        }
        let response = timeout_at(limit.at, builder.send())
            .await
            .map_err(|_| CallError::AwaitAnswer {
                seconds: limit.seconds,
            })?
            .map_err(CallError::send)?;
        let head = Head::read(&response, &self.inner.redactor);
        Ok((head, response))
    }

    /// Reads an error status (rule 8). A body that is no problem is not read: nothing may be concluded from it.
    async fn refusal(&self, head: Head, mut response: Response, limit: Deadline) -> CallError {
        let mut named = None;
        if Problem::is_named_by(&head) {
            let body = self.body(&head, &mut response, PROBLEM_BYTES, limit);
            match body.await {
                // `None` is too large to be the service's.
                Ok(body) => named = body,
                Err(error) => return error,
            }
        }
        refused(head, named.as_deref(), &self.inner.redactor)
    }

    /// Reads a body in time; `None` if it is larger than `bytes`.
    pub(super) async fn body(
        &self,
        head: &Head,
        response: &mut Response,
        bytes: usize,
        limit: Deadline,
    ) -> Result<Option<Bytes>, CallError> {
        match timeout_at(limit.at, body(response, bytes)).await {
            Ok(Ok(body)) => Ok(Some(body)),
            Ok(Err(Unread::TooLarge)) => Ok(None),
            Ok(Err(Unread::Cut(error))) => Err(CallError::body(head, BodyError::Cut(error))),
            Err(_) => Err(CallError::body(
                head,
                BodyError::TimedOut {
                    seconds: limit.seconds,
                },
            )),
        }
    }

    /// The contract file's `requestSeconds`, from now on.
    pub(super) fn limit(&self) -> Deadline {
        Deadline::after(self.inner.contract.timeouts().request_seconds)
    }

    /// Reports the result of a call to the observer and the log.
    pub(super) fn observe<T>(
        &self,
        operation: Operation,
        started: Instant,
        result: Answered<T>,
    ) -> Result<T, CallError> {
        let outcome = Outcome {
            http_status: match &result {
                Ok((status, _)) => Some(status.as_u16()),
                Err(error) => error.http_status(),
            },
            error: result.as_ref().err(),
            elapsed: started.elapsed(),
        };
        tracing::debug!(
            operation = operation.as_str(),
            http.status = outcome.http_status,
            request.id = outcome.error.and_then(CallError::request_id),
            error = outcome.error.map(tracing::field::display),
            "service call"
        );
        self.inner.observer.on_answer(operation, &outcome);
        result.map(|(_, value)| value)
    }
}

/// Answer to `GET /version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionReply {
    /// The version, if the contract file's pointers find one. At most 128 bytes.
    pub version: Option<String>,
    /// The answer's request id (rule 11).
    pub request_id: Option<String>,
}

/// Answer to `GET /workspaces/current`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceReply {
    /// The workspace that the token acts for, if the contract file's pointers find it. Compared, so never cut.
    pub identity: Option<String>,
    /// The record as the service returned it: compact JSON unless it is nested beyond 128 levels, cut at 1024 bytes.
    pub record: String,
    /// The answer's request id (rule 11).
    pub request_id: Option<String>,
}

/// A body that was not read.
pub(super) enum Unread {
    TooLarge,
    Cut(reqwest::Error),
}

/// Reads a body of at most `limit` bytes. The received bytes are counted: a `Content-Length` may be wrong or absent.
pub(super) async fn body(response: &mut Response, limit: usize) -> Result<Bytes, Unread> {
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |bytes| bytes > limit) {
        return Err(Unread::TooLarge);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| Unread::Cut(error.without_url()))?
    {
        if body.len() + chunk.len() > limit {
            return Err(Unread::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The version that an answer names, fit to be shown.
pub(super) fn version_in(value: &RawValue, contract: &Contract) -> Option<String> {
    let version = contract.version_of(value)?;
    Some(one_line(&version, MAX_SERVICE_VERSION))
}

/// A complete successful answer.
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) body: Bytes,
    pub(super) contract: Arc<Contract>,
    pub(super) redactor: Arc<Redactor>,
}

impl Answer {
    pub(super) fn version(self) -> Result<VersionReply, CallError> {
        let text = self.text();
        let value = self.json(&text)?;
        Ok(VersionReply {
            version: self
                .contract
                .version_of(value)
                .map(|version| one_line(&self.redactor.text(&version), MAX_SERVICE_VERSION)),
            request_id: self.head.request_id,
        })
    }

    pub(super) fn workspace(self) -> Result<WorkspaceReply, CallError> {
        let text = self.text();
        let value = self.json(&text)?;
        let identity = self.contract.identity_of(value);
        if identity.as_ref().is_some_and(|id| self.redactor.is_in(id)) {
            return Err(self.unreadable(UnreadableReason::TokenInIdentity));
        }
        Ok(WorkspaceReply {
            identity,
            record: one_line(
                &self.redactor.text(&canonical::of_answer(value)),
                MAX_RECORD,
            ),
            request_id: self.head.request_id,
        })
    }

    /// The created run. An answer without a runId is an error.
    pub(super) fn created(self) -> Result<RunView, CallError> {
        let text = self.text();
        let value = self.json(&text)?;
        let view = self.view(value, None)?;
        if view.run_id.is_none() {
            return Err(self.unreadable(UnreadableReason::NoRunId));
        }
        Ok(view)
    }

    /// The requested run.
    pub(super) fn run(self, asked: &RunId) -> Result<RunView, CallError> {
        let text = self.text();
        let value = self.json(&text)?;
        self.view(value, Some(asked))
    }

    /// An accepted cancellation. The form of its body is not known: an empty body counts as much as any JSON.
    pub(super) fn cancelled(self, asked: &RunId) -> Result<RunView, CallError> {
        if self.body.trim_ascii().is_empty() {
            return Ok(RunView {
                request_id: self.head.request_id,
                ..RunView::default()
            });
        }
        self.run(asked)
    }

    fn view(&self, value: &RawValue, asked: Option<&RunId>) -> Result<RunView, CallError> {
        let run_id = self.contract.run_id_of(value);
        if let Some(id) = &run_id {
            RunId::parse(id)
                .map_err(|error| self.unreadable(UnreadableReason::IllegalRunId(error)))?;
            if self.redactor.is_in(id) {
                return Err(self.unreadable(UnreadableReason::TokenInRunId));
            }
            if asked.is_some_and(|asked| asked.as_str() != id) {
                return Err(self.unreadable(UnreadableReason::OtherRunId));
            }
        }
        Ok(RunView {
            run_id,
            state: self
                .contract
                .run_state_of(value)
                .map(|state| one_line(&self.redactor.text(&state), MAX_STATE)),
            request_id: self.head.request_id.clone(),
        })
    }

    fn text(&self) -> Cow<'_, str> {
        lossy(&self.body)
    }

    /// The document, as text: an answer may echo a workload of any depth.
    fn json<'a>(&self, text: &'a str) -> Result<&'a RawValue, CallError> {
        serde_json::from_str(text)
            .map_err(|error| self.unreadable(UnreadableReason::NotJson(error)))
    }

    fn unreadable(&self, reason: UnreadableReason) -> CallError {
        CallError::unreadable(&self.head, reason)
    }
}

/// An answer to a request that carried no token, whatever its status. Bounded by the contract file's `bodyBytes`; its
/// texts are not made fit to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    /// Its status.
    pub status: u16,
    /// The `Content-Type` without its parameters, in lower case.
    pub media_type: Option<String>,
    /// Its `X-Request-ID`, if it can be shown (rule 11).
    pub request_id: Option<String>,
    /// Its body; `None` if it is larger than the contract file's `bodyBytes`.
    pub body: Option<Bytes>,
}

impl RawAnswer {
    /// Whether it is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON, read like every other answer; `None` if it is none, or too large.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_str(&lossy(self.body.as_ref()?)).ok()
    }

    /// The version that a `/version` document names, as [`Client::version`](Client::version) would return it.
    pub fn version(document: &Value, contract: &Contract) -> Option<String> {
        let document = serde_json::value::to_raw_value(document).ok()?;
        version_in(&document, contract)
    }
}

impl Client {
    /// `GET /version` as sent by [`Client::version`], with the unprocessed answer.
    pub async fn raw_version(&self) -> Result<RawAnswer, CallError> {
        self.raw(Operation::Version, Request::version).await
    }

    /// `GET /workspaces/current` without a token, which the service must refuse (rule 3).
    pub async fn current_workspace_without_token(&self) -> Result<RawAnswer, CallError> {
        self.raw(
            Operation::CurrentWorkspace,
            Request::workspace_without_token,
        )
        .await
    }

    /// Sends a request and reads the answer, whatever its status.
    async fn raw(
        &self,
        operation: Operation,
        request: fn(&BaseUrl) -> Result<Request, CallError>,
    ) -> Result<RawAnswer, CallError> {
        let started = Instant::now();
        let result = async {
            let (http, limit) = (&self.inner.http.checks, self.limit());
            let request = request(self.base_url())?;
            let (head, mut response) = self.send(http, request, limit).await?;
            let bytes = self.inner.contract.limits().body_bytes;
            let body = self.body(&head, &mut response, bytes, limit).await?;
            let answer = RawAnswer {
                status: head.status.as_u16(),
                media_type: head.media_type,
                request_id: head.request_id,
                body,
            };
            Ok((head.status, answer))
        }
        .await;
        self.observe(operation, started, result)
    }
}
