//! A hook for counting calls.

use std::time::Duration;

use super::CallError;

/// The service's six operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `GET /version`.
    Version,
    /// `GET /workspaces/current`.
    CurrentWorkspace,
    /// `POST /runs`.
    CreateRun,
    /// `GET /runs/{runId}`.
    GetRun,
    /// `POST /runs/{runId}:cancel`.
    CancelRun,
    /// `GET /runs/{runId}/events`.
    RunEvents,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 6] = [
        Self::Version,
        Self::CurrentWorkspace,
        Self::CreateRun,
        Self::GetRun,
        Self::CancelRun,
        Self::RunEvents,
    ];

    /// Its name, the same as the `operationId` in the `OpenAPI` document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Version => "getVersion",
            Self::CurrentWorkspace => "getCurrentWorkspace",
            Self::CreateRun => "createRun",
            Self::GetRun => "getRun",
            Self::CancelRun => "cancelRun",
            Self::RunEvents => "streamRunEvents",
        }
    }
}

/// Outcome of one call.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    /// The HTTP status, if there was an answer.
    pub http_status: Option<u16>,
    /// The error; `None` for a success.
    pub error: Option<&'a CallError>,
    /// From the call to its end. For an event stream, to its opening.
    pub elapsed: Duration,
}

/// Called once for every call, when it is over. Must not block.
pub trait Observer: Send + Sync {
    /// A call is over.
    fn on_answer(&self, operation: Operation, outcome: &Outcome<'_>);
}

/// Counts nothing.
impl Observer for () {
    fn on_answer(&self, _: Operation, _: &Outcome<'_>) {}
}
