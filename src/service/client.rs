//! The six operations, one attempt each.

use std::sync::Arc;

use bytes::Bytes;
use http::Version;
use tokio::time::Instant;

use crate::api::contract::Contract;
use crate::decide::response::answer::{Failure, RunView};
use crate::util::sha256;

use super::answer::{Answer, VersionReply, WorkspaceReply};
use super::http_client::HttpClients;
use super::http_pool::HttpPool;
use super::redact::Redactor;
use super::request::{Request, can_be_sent};
use super::{
    BaseUrl, CallError, ClientConfig, ConfigError, Credentials, EventStream, IdempotencyKey,
    Observer, Operation, RunId, Token, UnreadableReason,
};

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
}
