//! Classification of failed calls: rules 8, 9 and 10 in one place.

use crate::api::{Contract, Reason, contract::CodeClass};

use super::answer::{Failure, FailureKind};

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
