//! One attempt: a request is sent, and its answer is read in time, judged by its status, and reported.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use super::answer::{Answer, Unread, body};
use super::client::Client;
use super::deadline::Deadline;
use super::error::{BareAnswer, BodyError};
use super::head::Head;
use super::problem::{PROBLEM_BYTES, Problem};
use super::redact::Redactor;
use super::request::Request;
use super::{BaseUrl, CallError, Operation, Outcome, UnreadableReason};

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
