//! What a failed call means: rules 8, 9 and 10 in one place.

use crate::api::{Contract, Reason, contract::CodeClass};

use super::{
    answer::{Failure, FailureKind},
    rules::{Rule, holds},
};

/// The calls that are made for a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `POST /runs`.
    Create,
    /// `GET /runs/{runId}`, and of its event stream the opening.
    Get,
    /// `POST /runs/{runId}:cancel`.
    Cancel,
}

/// What to do about a failed call. By call and answer:
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
    /// Asked again with backoff, a create with the same key: no answer, a proxy's, or one of the service that
    /// asks for it (rule 10 and what docs/service.md decides beside it).
    Retry,
    /// The service still works on an earlier create with this key: asked again with backoff and the same key.
    InProgress,
    /// 401: the Workspace's affair. No Run fails for an expired token.
    Unauthorized,
    /// A 2xx or 3xx that can't be read. A create is tried a few times, then a person has to look.
    Violation,
    /// The service refused a read or a cancellation. Asked again from `--poll-min` with backoff: what one replica
    /// denies the next may know.
    Refused(Reason),
    /// The service refused a create: not asked again until somebody changes something (rule 10).
    Final(Reason),
}

/// Judges a failure by its status and code, never by its title (rule 8). An answer without a problem body may be a
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

/// Whether an answer to a create proves on its own that this very request made no run: a 4xx problem
/// other than 408, 425 (given up on, or put off) and a conflict of keys, in which another request may have made one.
pub fn answers_not_created(failure: &Failure, class: Class) -> bool {
    let says_no = |s| (400..500).contains(&s) && ![408, 425].contains(&s);
    let refused = failure.http_status.is_some_and(says_no);
    let proof = match failure.kind {
        FailureKind::Problem => refused || !holds(Rule::RefusalProves),
        FailureKind::Bare => refused && !holds(Rule::ProblemProves),
        FailureKind::Transport => !holds(Rule::AnswerProves),
        FailureKind::NotSent | FailureKind::NoFile | FailureKind::Unreadable => false,
    };
    let conflict = matches!(
        class,
        Class::InProgress | Class::Final(Reason::IdempotencyConflict)
    );
    proof && !(conflict && holds(Rule::ConflictProvesNothing))
}

/// Whether an answer to a create proves that no request with these bytes ever made a run, or will: a
/// refusal that the contract file counts as final.
pub fn refuses_the_bytes(failure: &Failure, class: Class) -> bool {
    failure.kind == FailureKind::Problem
        && class == Class::Final(Reason::CreateRefused)
        && holds(Rule::BytesRefused)
}
