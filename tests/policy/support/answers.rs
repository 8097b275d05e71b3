//! Answers of the service.

use run_operator::decide::{
    failure::{Call, FailedCall, Failure, FailureKind, RunView},
    workspace::Obstacle,
};

use super::CONTRACT;

pub(crate) fn view(state: &str) -> RunView {
    RunView {
        run_id: Some("run-1".into()),
        state: Some(state.into()),
        request_id: Some("req-1".into()),
        details: None,
    }
}

pub(crate) fn problem(status: u16, code: &str) -> Failure {
    Failure {
        kind: FailureKind::Answered,
        http_status: Some(status),
        code: Some(code.into()),
        request_id: Some("req-9".into()),
        retryable: None,
        retry_after: None,
        message: "it went wrong".into(),
    }
}

pub(crate) fn bare(status: u16) -> Failure {
    Failure {
        code: None,
        ..problem(status, "")
    }
}

pub(crate) fn lost() -> Failure {
    Failure {
        kind: FailureKind::NoAnswer,
        http_status: None,
        code: None,
        ..problem(0, "")
    }
}

pub(crate) fn unreadable() -> Failure {
    Failure {
        kind: FailureKind::Unreadable,
        code: None,
        ..problem(200, "")
    }
}

/// A 5xx that is marked as not to be retried.
pub(crate) fn hopeless() -> Failure {
    Failure {
        retryable: Some(false),
        ..problem(500, "boom")
    }
}

/// This process had no file left for a connection.
pub(crate) fn no_file() -> Failure {
    Failure {
        kind: FailureKind::NoFile,
        ..lost()
    }
}

/// `GET /version` was answered so.
pub(crate) fn version_failed(failure: Failure) -> Obstacle {
    Obstacle::Call(FailedCall::new(Call::Version, failure, &CONTRACT))
}

/// `GET /workspaces/current` was answered so.
pub(crate) fn identity_failed(failure: Failure) -> Obstacle {
    Obstacle::Call(FailedCall::new(Call::Workspace, failure, &CONTRACT))
}
