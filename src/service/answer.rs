//! Reads an answer: its head, and its body up to a limit.

use super::head::Head;
use super::text::lossy;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use serde_json::value::RawValue;

use crate::api::contract::Contract;
use crate::api::limits::{MAX_RECORD, MAX_SERVICE_VERSION, MAX_STATE};
use crate::decide::{failure::RunView, request::canonical};

use super::redact::Redactor;
use super::text::one_line;
use super::{CallError, RunId, UnreadableReason};

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
