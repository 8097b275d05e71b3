//! What a call to the service taught, as plain facts. The service layer fills these in, policy reads
//! them.

use std::time::Duration;

/// A run as an answer shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunView {
    /// The identifier, where the answer names one.
    pub run_id: Option<String>,
    /// The derived state, verbatim, where the answer names one.
    pub state: Option<String>,
    /// The `X-Request-ID` of the answer (rule 11).
    pub request_id: Option<String>,
}

/// How a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Refused by the client itself: nothing was sent.
    NotSent,
    /// This process may open no more files: nothing was sent, and the service has no part in it.
    NoFile,
    /// No answer: connection refused or cut, timeout. Says nothing about the request's fate.
    Transport,
    /// An answer with a problem body (rule 8).
    Problem,
    /// An error status without a problem body, a proxy's own page for example.
    Bare,
    /// A 2xx or 3xx that can't be read as the contract says.
    Unreadable,
}

/// A failed call. Everything here may be shown to people: it holds no token and no body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// The HTTP status, where there was an answer.
    pub http_status: Option<u16>,
    /// The problem's code (rule 8).
    pub code: Option<String>,
    /// The request's id: `X-Request-ID`, else the problem's `requestId` (rule 11).
    pub request_id: Option<String>,
    /// The problem's `retryable` (rule 10).
    pub retryable: Option<bool>,
    /// The answer's `Retry-After`, unclamped.
    pub retry_after: Option<Duration>,
    /// What happened, for a person: the problem's title, or the transport's error. Never branched on.
    pub message: String,
}
