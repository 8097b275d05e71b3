//! The six operations, one attempt each, and what is kept of their answers.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::contract::{Contract, RunDetails};
use crate::api::limits::{MAX_RECORD, MAX_SERVICE_VERSION, MAX_STATE};
use crate::decide::failure::{Failure, RunView};

use super::connect::{ClientConfig, ConfigError, HttpClients, HttpPool};
use super::excerpt::Shown;
use super::identity::{Credentials, IdempotencyKey, RunId, Token};
use super::send::{Deadline, Head, Operation, REPEATED, Request, Sender, can_be_sent};
use super::text::{Redactor, lossy, one_line};
use super::{BaseUrl, EventStream};

/// Maximum for a call of a Workspace's check, whatever `requestSeconds`: two that hang must be over within 30 s.
const CHECK_SECONDS: u64 = 10;
/// Without the token it would be the same for every workspace, and detect no mistake (rules 4 and 7).
const TOKEN_IN_IDENTITY: &str =
    "its identity of the workspace repeats the token; correct the contract file's pointers to it";

#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: Arc<HttpClients>,
    base_url: BaseUrl,
    sender: Sender,
}

impl Client {
    /// A client with connections of its own. Reads the CA certificates and sets up TLS; makes no connection.
    pub fn new(config: ClientConfig) -> Result<Self, ConfigError> {
        Self::shared(config, &HttpPool::default())
    }

    /// A client that shares its connections with every other one of the same origin and CA, but not its list of tokens.
    pub fn shared(config: ClientConfig, pool: &HttpPool) -> Result<Self, ConfigError> {
        let http = pool.clients(&config)?;
        let sender = Sender {
            redactor: Arc::new(Redactor::new(Arc::clone(&config.contract))),
            contract: config.contract,
            observer: config.observer,
        };
        let inner = Inner {
            http,
            base_url: config.base_url,
            sender,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    pub fn base_url(&self) -> &BaseUrl {
        &self.inner.base_url
    }

    /// Removes this token from all later answers (rule 7), as each call with it does: for `GET /version`, which has none.
    pub fn hide(&self, token: &Token) {
        self.inner.sender.redactor.remember(token);
    }

    /// A text that is not the service's, without the tokens and provider's keys that it may repeat.
    pub fn without_secrets(&self, text: &str) -> String {
        self.inner.sender.redactor.text(text)
    }

    /// `GET /version`, without a token (rule 3): called first, to verify the API version (rule 13).
    pub async fn version(&self) -> Result<VersionReply, Failure> {
        let request = Request::public(self.base_url(), "/version");
        self.call(Operation::Version, request, Answer::version)
            .await
    }

    /// `GET /workspaces/current`: the workspace that the token acts for.
    pub async fn current_workspace(&self, who: &Credentials) -> Result<WorkspaceReply, Failure> {
        let request = Request::current_workspace(self.base_url(), who);
        self.call(Operation::CurrentWorkspace, request, Answer::workspace)
            .await
    }

    /// `POST /runs`. Every attempt of one create passes the same key and bytes (rule 1). A success names a runId.
    pub async fn create_run(
        &self,
        who: &Credentials,
        key: &IdempotencyKey,
        body: Bytes,
    ) -> Result<RunView, Failure> {
        let request = Request::create_run(self.base_url(), who, key, body);
        self.call(Operation::CreateRun, request, Answer::created)
            .await
    }

    /// `GET /runs/{runId}`: the truth about a run. What the answer doesn't name is empty.
    pub async fn get_run(&self, who: &Credentials, id: &RunId) -> Result<RunView, Failure> {
        let request = Request::get_run(self.base_url(), who, id);
        self.call(Operation::GetRun, request, |answer| answer.run(id))
            .await
    }

    /// `POST /runs/{runId}:cancel`. A success means that the cancellation was accepted; its body may be empty.
    pub async fn cancel_run(&self, who: &Credentials, id: &RunId) -> Result<RunView, Failure> {
        let request = Request::cancel_run(self.base_url(), who, id);
        let read = |answer: Answer| answer.cancelled(id);
        self.call(Operation::CancelRun, request, read).await
    }

    /// `GET /runs/{runId}/events` after `last_event_id` (rule 2), or from the beginning if no header can carry that.
    /// Returns once the service has accepted; from then on only silence ends the stream, not its length.
    pub async fn run_events(
        &self,
        who: &Credentials,
        id: &RunId,
        last_event_id: Option<&str>,
    ) -> Result<EventStream, Failure> {
        let sender = &self.inner.sender;
        let attempt = async {
            let resumed = last_event_id.filter(|id| can_be_sent(id));
            let request = Request::run_events(self.base_url(), who, id, resumed)?;
            let place = self.inner.http.streams.place();
            let sent = sender.send(&place.http, request, sender.limit()).await?;
            let answer = sent.success(&sender.redactor).await?;
            let is_empty = answer.head.status == StatusCode::NO_CONTENT;
            if is_empty || !answer.head.is_media_type("text/event-stream") {
                return Err(answer.head.unreadable("it is no event stream", None));
            }
            let status = answer.head.status;
            let redactor = Arc::clone(&sender.redactor);
            let stream = EventStream::new(answer, place, &sender.contract, redactor, resumed);
            Ok((status, stream))
        };
        sender.reported(Operation::RunEvents, attempt).await
    }

    /// Reads the answer whatever its status, up to `most` bytes, without a token: `/version` is public,
    /// `/workspaces/current` must be refused (rule 3).
    pub async fn raw(
        &self,
        operation: Operation,
        path: &str,
        most: usize,
    ) -> Result<RawAnswer, Failure> {
        let request = Request::public(self.base_url(), path);
        self.read(operation, request, most).await
    }

    /// Reads the answer to `GET /runs/{runId}` whatever its status. The token is removed from its body (rule 7).
    pub async fn raw_run(&self, who: &Credentials, id: &RunId) -> Result<RawAnswer, Failure> {
        let sender = &self.inner.sender;
        let most = sender.contract.limits().body_bytes;
        let request = Request::get_run(self.base_url(), who, id);
        let mut answer = self.read(Operation::GetRun, request, most).await?;
        let shown = |body: Bytes| Bytes::from(sender.redactor.text(&lossy(&body)));
        answer.body = answer.body.map(shown);
        Ok(answer)
    }

    async fn read(
        &self,
        operation: Operation,
        request: Result<Request, Failure>,
        most: usize,
    ) -> Result<RawAnswer, Failure> {
        let sender = &self.inner.sender;
        let attempt = async {
            let http = &self.inner.http.checks;
            let mut sent = sender.send(http, request?, sender.limit()).await?;
            let body = sent.body(most).await?;
            let head = sent.head;
            let answer = RawAnswer {
                status: head.status.as_u16(),
                media_type: head.media_type,
                request_id: head.request_id,
                body,
            };
            Ok((head.status, answer))
        };
        sender.reported(operation, attempt).await
    }

    async fn call<T>(
        &self,
        operation: Operation,
        request: Result<Request, Failure>,
        read: impl FnOnce(Answer) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Inner { http, sender, .. } = &*self.inner;
        let (http, limit) = match operation {
            Operation::Version | Operation::CurrentWorkspace => {
                let seconds = sender.contract.timeouts().request_seconds;
                (&http.checks, Deadline::after(seconds.min(CHECK_SECONDS)))
            }
            _ => (&http.calls, sender.limit()),
        };
        let attempt = async {
            let sent = sender.send(http, request?, limit).await?;
            let mut sent = sent.success(&sender.redactor).await?;
            let (most, status) = (sender.contract.limits().body_bytes, sent.head.status);
            let mut shown = Shown::new(sender.contract.detail_pointers());
            let body = match operation {
                Operation::CreateRun | Operation::GetRun | Operation::CancelRun => {
                    let pointers = sender.contract.run_pointers();
                    let also = |chunk: &[u8]| shown.read(chunk);
                    sent.excerpt(pointers, most, also).await?
                }
                _ => sent.body(most).await?,
            };
            let Some(body) = body else {
                let defect =
                    format!("it is larger than {most} bytes, or repeats more than {REPEATED}");
                return Err(sent.head.unreadable(&defect, None));
            };
            let answer = Answer {
                head: sent.head,
                body,
                shown,
                contract: Arc::clone(&sender.contract),
                redactor: Arc::clone(&sender.redactor),
            };
            Ok((status, read(answer)?))
        };
        sender.reported(operation, attempt).await
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionReply {
    /// The version, if the contract file's pointers find one. At most 128 bytes.
    pub version: Option<String>,
    pub request_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceReply {
    /// The workspace that the token acts for, if the contract file's pointers find it. Compared, so never cut.
    pub identity: Option<String>,
    /// The record as the service returned it: compact JSON unless it is nested deeper than 127 levels, cut at 1024 bytes.
    pub record: String,
    pub request_id: Option<String>,
}

pub(super) struct Answer {
    pub(super) head: Head,
    /// Of a run, an excerpt.
    pub(super) body: Bytes,
    /// What else is said of a run.
    pub(super) shown: Shown,
    pub(super) contract: Arc<Contract>,
    pub(super) redactor: Arc<Redactor>,
}

impl Answer {
    pub(super) fn version(self) -> Result<VersionReply, Failure> {
        let text = lossy(&self.body);
        let version = self.contract.version_of(self.json(&text)?);
        Ok(VersionReply {
            version: version.map(|version| self.fit(&version, MAX_SERVICE_VERSION)),
            request_id: self.head.request_id,
        })
    }

    pub(super) fn workspace(self) -> Result<WorkspaceReply, Failure> {
        let text = lossy(&self.body);
        let value = self.json(&text)?;
        let identity = self.contract.identity_of(value);
        if identity.as_ref().is_some_and(|id| self.redactor.is_in(id)) {
            return Err(self.head.unreadable(TOKEN_IN_IDENTITY, None));
        }
        Ok(WorkspaceReply {
            identity,
            record: self.fit(&sorted(value), MAX_RECORD),
            request_id: self.head.request_id,
        })
    }

    pub(super) fn created(self) -> Result<RunView, Failure> {
        let view = self.view(None)?;
        if view.run_id.is_none() {
            return Err(self.head.unreadable("it names no runId", None));
        }
        Ok(view)
    }

    pub(super) fn run(self, asked: &RunId) -> Result<RunView, Failure> {
        self.view(Some(asked))
    }

    pub(super) fn cancelled(self, asked: &RunId) -> Result<RunView, Failure> {
        if self.body.trim_ascii().is_empty() {
            return Ok(RunView {
                request_id: self.head.request_id,
                ..RunView::default()
            });
        }
        self.run(asked)
    }

    fn view(&self, asked: Option<&RunId>) -> Result<RunView, Failure> {
        let unreadable = |defect: &str| Err(self.head.unreadable(defect, None));
        let text = lossy(&self.body);
        let value = self.json(&text)?;
        let run_id = self.contract.run_id_of(value);
        if let Some(id) = &run_id {
            if let Err(error) = RunId::parse(id) {
                let defect = "its runId can't be used";
                return Err(self.head.unreadable(defect, Some(&error)));
            }
            if self.redactor.is_in(id) {
                return unreadable("its runId repeats the token");
            }
            if asked.is_some_and(|asked| asked.as_str() != id) {
                return unreadable("it names another runId than the one asked for");
            }
        }
        let state = self.contract.run_state_of(value);
        Ok(RunView {
            run_id,
            state: state.map(|state| self.fit(&state, MAX_STATE)),
            request_id: self.head.request_id.clone(),
            details: self
                .shown
                .details(&self.contract, |text, max| self.fit(text, max)),
        })
    }

    fn fit(&self, text: &str, max: usize) -> String {
        one_line(&self.redactor.text(text), max)
    }

    /// The document, as text: an answer may echo a workload of any depth.
    fn json<'a>(&self, text: &'a str) -> Result<&'a RawValue, Failure> {
        serde_json::from_str(text)
            .map_err(|error| self.head.unreadable("it is not JSON", Some(&error)))
    }
}

/// A record that is the same at each check: its keys in order; as received if `serde_json` reads no such depth.
fn sorted(record: &RawValue) -> String {
    let read = serde_json::from_str::<Value>(record.get());
    read.map_or_else(|_| record.get().to_owned(), |record| record.to_string())
}

/// An answer as it came. Its texts are not made fit to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    pub status: u16,
    /// The `Content-Type` without its parameters, in lower case.
    pub media_type: Option<String>,
    pub request_id: Option<String>,
    /// Its body; `None` if it is larger than what was asked for.
    pub body: Option<Bytes>,
}

impl RawAnswer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn text(&self) -> Option<Cow<'_, str>> {
        Some(lossy(self.body.as_ref()?))
    }

    pub fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.text()?).ok()
    }

    /// What a Run's status would show of it, if the link leads to an origin of `--console-origin`.
    pub fn details(&self, contract: &Contract) -> Option<Box<RunDetails>> {
        let mut shown = Shown::new(contract.detail_pointers());
        shown.read(self.body.as_ref()?);
        shown.details(contract, one_line)
    }

    pub fn version(document: &Value, contract: &Contract) -> Option<String> {
        let document = serde_json::value::to_raw_value(document).ok()?;
        let version = contract.version_of(&document)?;
        Some(one_line(&version, MAX_SERVICE_VERSION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: F-heavy
    #[test]
    fn a_record_is_sorted_unless_it_is_nested_too_deep() {
        let nested = |levels: usize| {
            let begin = r#"{"b": "{[", "a": "#.repeat(levels);
            format!("{begin}[]{}", "}".repeat(levels))
        };
        let shown = |text: &str| sorted(serde_json::from_str(text).unwrap());
        assert_eq!(shown(&nested(1)), r#"{"a":[],"b":"{["}"#);
        assert!(shown(&nested(120)).starts_with(r#"{"a":{"a":"#));
        let deep = nested(20_000);
        assert_eq!(shown(&deep), deep);
    }
}
