//! Reading an answer: its head, its body under a cap, and what of it is kept.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::Response;
use serde_json::value::RawValue;

use crate::api::contract::Contract;
use crate::api::limits::{MAX_RECORD, MAX_SERVICE_VERSION, MAX_STATE};
use crate::clock;
use crate::decide::{answer::RunView, canonical};

use super::redact::Redactor;
use super::text::{one_line, request_id};
use super::{CallError, RunId, UnreadableReason, retry_after};

/// The header that names a request (rule 11).
const REQUEST_ID: &str = "x-request-id";

/// What `GET /version` taught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionReply {
    /// The version, where the contract file's pointers find one. At most 128 bytes.
    pub version: Option<String>,
    /// The answer's request id (rule 11).
    pub request_id: Option<String>,
}

/// What `GET /workspaces/current` taught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceReply {
    /// Who the token acts for, where the contract file's pointers find it. Compared, so never cut.
    pub identity: Option<String>,
    /// The record as the service returned it: compact JSON, cut at 1024 bytes.
    pub record: String,
    /// The answer's request id (rule 11).
    pub request_id: Option<String>,
}

/// What is kept of an answer's status line and headers.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) media_type: Option<String>,
    /// Whether the body is packed, whatever was asked for.
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
            retry_after: retry_after::read(headers, clock::wall()),
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

/// A body that was not read.
pub(super) enum Unread {
    TooLarge,
    Cut(reqwest::Error),
}

/// Reads a body of at most `limit` bytes. What arrives is counted: a `Content-Length` may lie or be
/// absent.
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

/// The text of a body whatever charset its header named: JSON is UTF-8, and a stray byte in one text is no
/// reason to lose the rest.
pub(super) fn text(body: &[u8]) -> Cow<'_, str> {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    String::from_utf8_lossy(body)
}

/// The version that an answer names, fit to be shown.
pub(super) fn version_in(value: &RawValue, contract: &Contract) -> Option<String> {
    let version = contract.version_of(value)?;
    Some(one_line(&version, MAX_SERVICE_VERSION))
}

/// A whole answer that is a success.
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
            record: one_line(&self.redactor.text(&canonical::of(value)), MAX_RECORD),
            request_id: self.head.request_id,
        })
    }

    /// The created Run. Without a runId nothing is known of it.
    pub(super) fn created(self) -> Result<RunView, CallError> {
        let text = self.text();
        let value = self.json(&text)?;
        let view = self.view(value, None)?;
        if view.run_id.is_none() {
            return Err(self.unreadable(UnreadableReason::NoRunId));
        }
        Ok(view)
    }

    /// The Run that was asked for.
    pub(super) fn run(self, asked: &RunId) -> Result<RunView, CallError> {
        let text = self.text();
        let value = self.json(&text)?;
        self.view(value, Some(asked))
    }

    /// A cancellation that was taken on. Its body is not known: none at all is as good as any JSON.
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
        text(&self.body)
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
