//! Builds a request: path, headers, body.

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use url::Url;

use super::credentials::Token;
use super::{BaseUrl, BoxError, CallError, Credentials, IdempotencyKey, RunId};

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
