//! How a command ends: its exit code, and its error in kubectl's words.

use std::process::ExitCode;

use run_operator::util::error_chain;

use crate::start::StartError;

/// How a command ended, in the order of what counts most if several Runs end differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// As was asked for.
    Succeeded,
    /// The run ended, and not as was asked for.
    EndedOtherwise,
    /// A person has to act.
    NeedsPerson,
    /// The object was deleted, perhaps created again.
    Deleted,
    /// The time passed.
    TimedOut,
    /// Wrong usage, or an error of the API server.
    Failed,
    /// Ctrl-C.
    Interrupted,
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
pub(super) enum RunsError {
    /// The API server refused, in kubectl's words.
    #[error("Error from server ({reason}): {message}")]
    Server {
        reason: String,
        message: String,
        code: u16,
    },
    #[error("error: {}", error_chain(.0))]
    Cluster(#[from] StartError),
    #[error("error: the API server gave no answer: {}", error_chain(.0))]
    Unreachable(#[source] kube::Error),
    #[error("error: the API server gave no answer within {seconds} s")]
    Slow { seconds: u64 },
    #[error("error: {0}")]
    Usage(String),
    #[error("error: failed to read {file}: {source}")]
    Read {
        file: String,
        source: std::io::Error,
    },
    #[error("error: failed to write the output: {0}")]
    Write(#[source] std::io::Error),
    #[error("error: failed to start the runtime: {0}")]
    Runtime(#[source] std::io::Error),
}

impl RunsError {
    /// The API server's status code, if it answered.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl From<kube::Error> for RunsError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Server {
                reason: if status.reason.is_empty() {
                    status.code.to_string()
                } else {
                    status.reason.clone()
                },
                message: status.message.clone(),
                code: status.code,
            },
            error => Self::Unreachable(error),
        }
    }
}
