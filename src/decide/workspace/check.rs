//! Results of a check of a Workspace, and the obstacle that stopped it.

use crate::api::{Reason, status::LastError};
use crate::decide::{
    conditions::Why,
    failure::{Call, Class, FailedCall},
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
    /// `GET /version` or `GET /workspaces/current` failed.
    Call(FailedCall),
}

impl Check {
    /// Whether the check has no result because the API server didn't return a Secret: that proves nothing about the
    /// Workspace.
    pub fn inconclusive(&self) -> bool {
        matches!(&self.obstacle, Some(Obstacle::Config(why)) if why.reason == Reason::Checking)
    }
}

impl Obstacle {
    /// The failed call, if it is one.
    pub fn failed_call(&self) -> Option<&FailedCall> {
        match self {
            Self::Config(_) => None,
            Self::Call(failed) => Some(failed),
        }
    }

    /// Whether the obstacle may pass before the next check. An error in the Workspace's own fields or its Secret does
    /// not: an edit fixes it, and the edit is watched.
    pub fn may_pass(&self) -> bool {
        self.failed_call()
            .is_some_and(|failed| failed.class.may_pass())
    }

    /// Whether this process had no file descriptor left for the call, which proves nothing about the service.
    pub fn no_file(&self) -> bool {
        self.failed_call()
            .is_some_and(|failed| failed.class == Class::NoFile)
    }

    /// The answer's `Retry-After`, up to the limit.
    pub fn retry_after(&self) -> Option<Duration> {
        self.failed_call()?.retry_after()
    }

    pub(super) fn why(&self, secret: Option<&str>) -> Why {
        match self {
            Self::Config(why) => why.clone(),
            Self::Call(failed) => call_failed(failed, secret.unwrap_or("Secret")),
        }
    }

    pub(super) fn last_error(&self, attempts: u32, wall: Timestamp) -> Option<LastError> {
        Some(self.failed_call()?.last_error(attempts, wall))
    }
}

/// `secret` is the source of the token.
fn call_failed(failed: &FailedCall, secret: &str) -> Why {
    let call = match failed.call {
        Call::Workspace => "GET /workspaces/current",
        _ => "GET /version",
    };
    let reason = failed.reason();
    let todo: &str = match reason {
        Reason::Unauthorized => {
            &format!("Put a valid token into the {secret}; it is picked up automatically.")
        }
        Reason::WorkspaceMismatch => {
            "The token may not act for this workspace; check spec.workspaceId and the token."
        }
        Reason::ContractViolation if failed.class == Class::Unreadable => {
            "Check the base URL and the contract file."
        }
        Reason::ContractViolation => {
            "Check the base URL: it must contain the version segment, such as /api/v1."
        }
        _ if failed.class == Class::Passing && failed.failure.http_status == Some(403) => {
            "That is not the service's own answer: check the base URL and the proxies on the way. The call is retried automatically."
        }
        _ => "The call is retried automatically.",
    };
    let what = failed.failure.sentence();
    Why::new(reason, format!("{call}: {what} {todo}"))
}
