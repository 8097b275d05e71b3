//! What a call to the service gives: a run as the answer shows it, or a failure; and what a failure means, by rules 8, 9
//! and 10. The service layer fills in plain data, policy reads it.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    Contract, Reason,
    contract::CodeClass,
    limits::{MAX_CODE, MAX_REQUEST_ID},
    status::LastError,
    time::whole_seconds,
};

use super::truncate::{MAX_ERROR, cut};

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

/// The calls that are made for a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `POST /runs`.
    Create,
    /// `GET /runs/{runId}`, and opening its event stream.
    Get,
    /// `POST /runs/{runId}:cancel`.
    Cancel,
}

/// Reaction to a failed call. By call and answer:
///
/// | answer | create | GET, event stream, cancel |
/// |---|---|---|
/// | none, or one without a problem body | `Retry` | `Retry` |
/// | 401, with or without a problem body | `Unauthorized` | `Unauthorized` |
/// | problem 408, 425, 429, 5xx | `Retry` | `Retry` |
/// | the same with `retryable: false` | `Final` | `Refused` |
/// | problem 409 with a code of a request in progress | `InProgress` | `Refused` |
/// | any other problem | `Final` | `Refused` |
/// | a 2xx or 3xx that can't be read | `Violation` | `Violation` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Repeated with backoff, a create with the same key: there was no answer, or a proxy's, or one of the service that
    /// asks for a retry (rule 10, and the decisions on it in docs/service.md).
    Retry,
    /// The service still works on an earlier create with this key: repeated with backoff and the same key.
    InProgress,
    /// 401: handled by the Workspace. No Run fails for an expired token.
    Unauthorized,
    /// A 2xx or 3xx that can't be read. A create is tried a few times, then the Run stalls for a person.
    Violation,
    /// The service refused a read or a cancellation. Repeated from `--poll-min` with backoff: another replica may know
    /// a run that this one denies.
    Refused(Reason),
    /// The service refused a create: not repeated until a person changes something (rule 10).
    Final(Reason),
}

/// Classifies a failure by its status and code, never by its title (rule 8). An answer without a problem body may be a
/// proxy's, so its status proves nothing.
pub fn classify(failure: &Failure, call: Call, contract: &Contract) -> Class {
    match (failure.kind, failure.http_status) {
        (FailureKind::Bare | FailureKind::Problem, Some(401)) => Class::Unauthorized,
        (FailureKind::Transport | FailureKind::NoFile | FailureKind::Bare, _) => Class::Retry,
        (FailureKind::NotSent, _) => refusal(call, Reason::Refused),
        (FailureKind::Unreadable, _) => Class::Violation,
        (FailureKind::Problem, status) => {
            by_problem(failure, call, status.unwrap_or_default(), contract)
        }
    }
}

fn by_problem(failure: &Failure, call: Call, status: u16, contract: &Contract) -> Class {
    let code = failure
        .code
        .as_deref()
        .map_or(CodeClass::Unknown, |c| contract.code(c));
    let hopeless = failure.retryable == Some(false);
    let reason = match status {
        408 | 425 | 429 | 500..=599 if !hopeless => return Class::Retry,
        500..=599 => Reason::ServerError,
        403 => Reason::Forbidden,
        409 => match code {
            CodeClass::ApprovalConflict => Reason::ApprovalConflict,
            CodeClass::VersionConflict => Reason::VersionConflict,
            CodeClass::IdempotencyConflict => Reason::IdempotencyConflict,
            CodeClass::IdempotencyInProgress if call == Call::Create => return Class::InProgress,
            CodeClass::IdempotencyInProgress | CodeClass::RunNotFound | CodeClass::Unknown => {
                Reason::UnknownConflict
            }
        },
        404 if call != Call::Create && code == CodeClass::RunNotFound => Reason::RunNotFound,
        _ if call == Call::Create && contract.refuses_create(status) => Reason::CreateRefused,
        _ => Reason::Refused,
    };
    refusal(call, reason)
}

fn refusal(call: Call, reason: Reason) -> Class {
    match call {
        Call::Create => Class::Final(reason),
        Call::Get | Call::Cancel => Class::Refused(reason),
    }
}

/// Whether an answer to a create proves that this request made no run: a 4xx problem, other than 408, which gives the
/// request up, 425, which defers it, and a conflict of keys, in which another request may have made a run.
pub fn answers_not_created(failure: &Failure, class: Class) -> bool {
    let refuses = |status| (400..500).contains(&status) && ![408, 425].contains(&status);
    let conflict = matches!(
        class,
        Class::InProgress | Class::Final(Reason::IdempotencyConflict)
    );
    failure.kind == FailureKind::Problem && failure.http_status.is_some_and(refuses) && !conflict
}

/// Whether an answer to a create proves that no request with these bytes ever made a run, or will: a refusal that the
/// contract file counts as final.
pub fn refuses_the_bytes(failure: &Failure, class: Class) -> bool {
    failure.kind == FailureKind::Problem && class == Class::Final(Reason::CreateRefused)
}

/// Consecutive failures of one kind of call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFailures {
    /// The call that failed.
    pub call: Call,
    /// Class of the last failure.
    pub class: Class,
    /// The last failure.
    pub last: Failure,
    /// Number of consecutive failures.
    pub count: u32,
    /// Time of the last failure, by process time.
    pub at: Timestamp,
    /// Time of the last failure, by the wall clock.
    pub wall: Timestamp,
    /// Earliest next attempt by backoff and the answer's `Retry-After`, by process time.
    pub next: Timestamp,
    /// The Workspace session that the call used.
    pub session: u64,
}

/// Consecutive failed GETs that are not worth a write: a restart of the service is over by then.
const SILENT_FAILURES: u32 = 2;

impl CallFailures {
    /// Whether this is a short failure of the mirror that the next attempt most likely ends. A first 401 is one too:
    /// the Workspace's status is about to show the error of the token.
    pub fn passing(&self) -> bool {
        let worth = match self.class {
            Class::Retry => SILENT_FAILURES,
            Class::Unauthorized => 1,
            Class::InProgress | Class::Violation | Class::Refused(_) | Class::Final(_) => 0,
        };
        self.call == Call::Get && self.count <= worth
    }
}
