//! The six operations, one attempt each.

use std::sync::Arc;

use bytes::Bytes;
use http::{StatusCode, Version};
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use crate::api::contract::Contract;
use crate::decide::request::body::sha256;
use crate::decide::response::answer::{Failure, RunView};

use super::deadline::Deadline;
use super::error::{BareAnswer, BodyError};
use super::http_client::HttpClients;
use super::http_pool::HttpPool;
use super::problem::{PROBLEM_BYTES, Problem};
use super::redact::Redactor;
use super::request::{Request, can_be_sent};
use super::{
    BaseUrl, CallError, ClientConfig, ConfigError, Credentials, EventStream, IdempotencyKey,
    Observer, Operation, Outcome, RunId, Token, UnreadableReason,
};
use super::{
    answer::{Answer, Unread, VersionReply, WorkspaceReply, body},
    head::Head,
};

/// Maximum for a call of a Workspace's check, whatever the contract file's `requestSeconds`: two that hang must be over
/// within 30 s.
const CHECK_SECONDS: u64 = 10;

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
    observer: Arc<dyn Observer>,
    redactor: Arc<Redactor>,
}

/// A success with its HTTP status.
pub(super) type Answered<T> = Result<(StatusCode, T), CallError>;

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
            let mut place = self.inner.http.streams.place(started);
            let answer = self.accepted(place.http(), request, self.limit()).await;
            if let Err(CallError::AwaitAnswer { .. }) = answer {
                place.unanswered(Instant::now());
            }
            let (head, response) = answer?;
            place.opened(response.version() == Version::HTTP_2);
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

    /// Makes a call for a Run and reads a success to its end.
    async fn call<T>(
        &self,
        operation: Operation,
        request: impl FnOnce(&BaseUrl) -> Result<Request, CallError>,
        read: impl FnOnce(Answer) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let started = Instant::now();
        let result = async {
            let http = &self.inner.http.calls;
            let answer = self
                .answer(http, request(self.base_url())?, self.limit())
                .await?;
            Ok((answer.head.status, read(answer)?))
        }
        .await;
        self.observe(operation, started, result)
    }

    /// Makes a call of a Workspace's check and reads a success to its end: on a connection separate from the calls of
    /// all Runs, and within 10 s.
    async fn check<T>(
        &self,
        operation: Operation,
        request: impl FnOnce(&BaseUrl) -> Result<Request, CallError>,
        read: impl FnOnce(Answer) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let started = Instant::now();
        let result = async {
            let http = &self.inner.http.checks;
            let seconds = self.inner.contract.timeouts().request_seconds;
            let limit = Deadline::after(seconds.min(CHECK_SECONDS));
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
    async fn accepted(
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
        #[cfg(not(feature = "proofs"))]
        let sent = builder.send();
        #[cfg(feature = "proofs")]
        let sent = crate::points::calls::send(builder);
        let response = timeout_at(limit.at, sent)
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
