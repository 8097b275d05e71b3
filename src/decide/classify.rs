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
    /// `GET /runs/{runId}`.
    Get,
    /// `POST /runs/{runId}:cancel`.
    Cancel,
}

/// What to do about a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Try again with backoff and the same key: no answer, 429, 5xx marked retryable, and 429 or 5xx
    /// without a problem body (rule 10 and what docs/service.md decides beside it).
    Retry,
    /// 401: the Workspace's affair. No Run fails for an expired token.
    Unauthorized,
    /// A 2xx or 3xx that can't be read: a few tries, then a person has to look.
    Violation,
    /// Not retried until somebody changes something (rule 10).
    Final(Reason),
}

/// Judges a failure by its status and code, never by its title (rule 8).
pub fn classify(failure: &Failure, call: Call, contract: &Contract) -> Class {
    match failure.kind {
        FailureKind::Transport | FailureKind::NoFile => Class::Retry,
        FailureKind::NotSent => Class::Final(Reason::Refused),
        FailureKind::Unreadable => Class::Violation,
        FailureKind::Problem | FailureKind::Bare => by_status(failure, call, contract),
    }
}

fn by_status(failure: &Failure, call: Call, contract: &Contract) -> Class {
    let code = failure
        .code
        .as_deref()
        .map_or(CodeClass::Unknown, |c| contract.code(c));
    match failure.http_status {
        Some(401) => Class::Unauthorized,
        Some(429) if failure.retryable == Some(false) => Class::Final(Reason::Refused),
        Some(500..=599) if failure.retryable == Some(false) => Class::Final(Reason::ServerError),
        Some(429 | 500..=599) => Class::Retry,
        Some(403) => Class::Final(Reason::Forbidden),
        Some(409) => Class::Final(match code {
            CodeClass::ApprovalConflict => Reason::ApprovalConflict,
            CodeClass::VersionConflict => Reason::VersionConflict,
            CodeClass::IdempotencyConflict => Reason::IdempotencyConflict,
            CodeClass::RunNotFound | CodeClass::Unknown => Reason::UnknownConflict,
        }),
        Some(404) if call != Call::Create && code == CodeClass::RunNotFound => {
            Class::Final(Reason::RunNotFound)
        }
        Some(status) if call == Call::Create && contract.refuses_create(status) => {
            Class::Final(Reason::CreateRefused)
        }
        _ => Class::Final(Reason::Refused),
    }
}

/// Whether an answer to a create proves on its own that this very request made no run: a 4xx problem
/// other than an idempotency conflict.
pub fn answers_not_created(failure: &Failure, class: Class) -> bool {
    let refused = failure.http_status.is_some_and(|s| (400..500).contains(&s));
    let proof = match failure.kind {
        FailureKind::Problem => refused || !holds(Rule::RefusalProves),
        FailureKind::Bare => refused && !holds(Rule::ProblemProves),
        FailureKind::Transport => !holds(Rule::AnswerProves),
        FailureKind::NotSent | FailureKind::NoFile | FailureKind::Unreadable => false,
    };
    let conflict = class == Class::Final(Reason::IdempotencyConflict);
    proof && !(conflict && holds(Rule::ConflictProvesNothing))
}

/// Whether an answer to a create proves that no request with these bytes ever made a run, or will: a
/// refusal that the contract file counts as final.
pub fn refuses_the_bytes(failure: &Failure, class: Class) -> bool {
    failure.kind == FailureKind::Problem
        && class == Class::Final(Reason::CreateRefused)
        && holds(Rule::BytesRefused)
}
