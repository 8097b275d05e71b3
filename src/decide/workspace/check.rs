//! Results of a check of a Workspace, and the obstacle that stopped it.

use crate::api::{Reason, status::LastError};
use crate::decide::{
    backoff,
    conditions::Why,
    failure::{Failure, FailureKind},
    messages,
};

use std::time::Duration;

use jiff::Timestamp;

/// Results of a check, up to its obstacle.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// The base URL in force.
    pub base_url: Option<String>,
    /// The version that the service reports; the inner value is absent if the answer names none.
    pub version: Option<Option<String>>,
    /// The workspace that the token acts for; the inner value is absent if the answer names none.
    pub identity: Option<Option<String>>,
    /// The workspace record, compact.
    pub record: Option<String>,
    /// The latest request id.
    pub request_id: Option<String>,
    /// The Secret that the token comes from, as named in a message.
    pub secret: Option<String>,
    /// The Secret was deleted, and the check used its last content.
    pub secret_deleted: Option<Why>,
    /// The obstacle that stopped the check.
    pub obstacle: Option<Obstacle>,
    /// `spec.suspend`.
    pub suspended: bool,
    /// The Workspace is being deleted and waits for these Runs, at least.
    pub waits_for: Option<Vec<String>>,
}

/// The obstacle that stopped a check.
#[derive(Clone, Debug)]
pub enum Obstacle {
    /// Found before any call: a bad URL, a missing Secret, a malformed token.
    Config(Why),
    /// `GET /version` failed.
    Version(Failure),
    /// `GET /workspaces/current` failed.
    Identity(Failure),
}

impl Check {
    /// Whether the check has no result because the API server didn't return a Secret: that proves nothing about the
    /// Workspace.
    pub fn inconclusive(&self) -> bool {
        matches!(&self.obstacle, Some(Obstacle::Config(why)) if why.reason == Reason::Checking)
    }
}

impl Obstacle {
    /// Whether this process had no file descriptor left for the call, which proves nothing about the service.
    pub fn no_file(&self) -> bool {
        match self {
            Self::Config(_) => false,
            Self::Version(failure) | Self::Identity(failure) => failure.kind == FailureKind::NoFile,
        }
    }

    pub(super) fn why(&self, secret: Option<&str>) -> Why {
        match self {
            Self::Config(why) => why.clone(),
            Self::Version(failure) => call_failed(failure, "GET /version", None),
            Self::Identity(failure) => call_failed(
                failure,
                "GET /workspaces/current",
                Some(secret.unwrap_or("Secret")),
            ),
        }
    }

    pub(super) fn last_error(&self, attempts: u32, wall: Timestamp) -> Option<LastError> {
        let (Self::Version(failure) | Self::Identity(failure)) = self else {
            return None;
        };
        Some(failure.last_error("no_code", true, attempts, wall))
    }

    /// The answer's `Retry-After`, up to the limit.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Config(_) => None,
            Self::Version(failure) | Self::Identity(failure) => backoff::heeded(failure),
        }
    }
}

/// `secret` is the source of the token; absent for a call without one.
fn call_failed(failure: &Failure, call: &str, secret: Option<&str>) -> Why {
    let what = messages::what_happened(failure);
    if let (Some(secret), Some(401)) = (secret, failure.http_status) {
        let todo = format!("Put a valid token into the {secret}; it is picked up automatically.");
        return Why::new(Reason::Unauthorized, format!("{call}: {what} {todo}"));
    }
    let (reason, todo) = match (failure.kind, failure.http_status) {
        (FailureKind::Bare, Some(403)) => (
            Reason::ServiceUnavailable,
            "That is not the service's own answer: check the base URL and the proxies on the way. The call is retried automatically.",
        ),
        (_, Some(403)) if secret.is_some() => (
            Reason::WorkspaceMismatch,
            "The token may not act for this workspace; check spec.workspaceId and the token.",
        ),
        (FailureKind::Unreadable, _) => (
            Reason::ContractViolation,
            "Check the base URL and the contract file.",
        ),
        (FailureKind::Problem | FailureKind::Bare, Some(404)) => (
            Reason::ContractViolation,
            "Check the base URL: it must contain the version segment, such as /api/v1.",
        ),
        _ => (
            Reason::ServiceUnavailable,
            "The call is retried automatically.",
        ),
    };
    Why::new(reason, format!("{call}: {what} {todo}"))
}
