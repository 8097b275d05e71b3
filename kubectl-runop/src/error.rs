//! How a command ends: its exit code, and its error in kubectl's words.

use std::process::ExitCode;

use run_operator::api_access::AccessError;
use run_operator::checks::Refused;
use run_operator::util::{Failed, error_chain};

/// How a command ended, in the order of what counts most if several Runs end differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// As was asked for.
    Succeeded,
    /// The run ended, and not as was asked for; or a check failed.
    EndedOtherwise,
    /// A person has to act.
    NeedsPerson,
    /// The object was or is being deleted, perhaps created again.
    Deleted,
    /// The time passed.
    TimedOut,
    /// Wrong usage, or an error of the API server.
    Failed,
    /// Ctrl-C.
    Interrupted,
}

impl End {
    /// Whether every check was good.
    pub(crate) fn of_checks(good: bool) -> Self {
        if good {
            Self::Succeeded
        } else {
            Self::EndedOtherwise
        }
    }
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        Self::from(match end {
            End::Succeeded => 0,
            End::EndedOtherwise => 1,
            End::Failed => 2,
            End::NeedsPerson => 3,
            End::Deleted => 4,
            End::TimedOut => 124,
            End::Interrupted => 130,
        })
    }
}

/// What ends a command early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error(transparent)]
    Server(#[from] Refused),
    #[error("error: {}", error_chain(.0))]
    Access(#[from] AccessError),
    #[error("error: failed to make a client: {}", error_chain(.0))]
    Client(#[source] kube::Error),
    #[error("error: {}", error_chain(.0))]
    Target(#[from] Failed),
    #[error("error: {0}")]
    Usage(String),
    #[error("error: failed to read {0}: {1}")]
    Read(String, #[source] std::io::Error),
    #[error("error: failed to write {0}: {1}")]
    Write(String, #[source] std::io::Error),
    #[error("error: failed to start the runtime: {0}")]
    Runtime(#[source] std::io::Error),
}

impl ToolError {
    /// What the user got wrong, or what can't be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }
}
