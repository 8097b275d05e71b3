//! Results of a call to the service, as plain data. Filled in by the service layer, read by policy.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    limits::{MAX_CODE, MAX_REQUEST_ID},
    status::LastError,
    time::whole_seconds,
};
use crate::decide::truncate::{MAX_ERROR, cut};

/// A run as shown by an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunView {
    /// The identifier, if the answer names one.
    pub run_id: Option<String>,
    /// The derived state, verbatim, if the answer names one.
    pub state: Option<String>,
    /// The `X-Request-ID` of the answer (rule 11).
    pub request_id: Option<String>,
}

/// Kind of a call's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Refused by the client itself: nothing was sent.
    NotSent,
    /// This process may open no more files: nothing was sent, and the service is not the cause.
    NoFile,
    /// No answer: connection refused or cut, timeout. Proves nothing about the request's outcome.
    Transport,
    /// An answer with a problem body (rule 8).
    Problem,
    /// An error status without a problem body, a proxy's own page for example.
    Bare,
    /// A 2xx or 3xx that can't be read by the contract.
    Unreadable,
}

/// A failed call. All fields may be shown to people: they hold no token and no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// The HTTP status, if there was an answer.
    pub http_status: Option<u16>,
    /// The problem's code (rule 8).
    pub code: Option<String>,
    /// The request's id: `X-Request-ID`, else the problem's `requestId` (rule 11).
    pub request_id: Option<String>,
    /// The problem's `retryable` (rule 10).
    pub retryable: Option<bool>,
    /// The answer's `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
    /// Description for a person: the problem's title, or the transport's error. Never branched on.
    pub message: String,
}

impl Failure {
    /// The failure as shown in a status. `own_code` and `retryable` are used where the service named none.
    pub(crate) fn last_error(
        &self,
        own_code: &str,
        retryable: bool,
        attempts: u32,
        wall: Timestamp,
    ) -> LastError {
        let code = self.code.as_deref().unwrap_or(own_code);
        let request_id = self.request_id.as_deref();
        LastError {
            code: cut(code, MAX_CODE).to_owned(),
            http_status: self.http_status.map(i32::from),
            request_id: request_id.map(|id| cut(id, MAX_REQUEST_ID).to_owned()),
            retryable: self.retryable.unwrap_or(retryable),
            message: cut(&self.message, MAX_ERROR).to_owned(),
            time: whole_seconds(wall),
            attempts: i64::from(attempts),
            next_attempt: None,
        }
    }
}
