//! How a command ends: its exit code, and its error in kubectl's words.

use std::process::ExitCode;

use run_operator::api::names;
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

    /// The API server's refusal. If it is because the cluster lacks the kind, the API server says no more than that a
    /// page is not found.
    pub(crate) fn of_kind(refused: Refused, plural: &str) -> Self {
        match &refused {
            Refused::Status(status) if status.code == 404 && status.reason != "NotFound" => {
                let kind = format!("{plural}.{}", names::GROUP);
                Self::usage(format!(
                    "the cluster has no {kind}: apply the CRDs of this version, or run `helm upgrade` with crds.enabled"
                ))
            }
            _ => refused.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_kind_that_the_cluster_lacks_is_named() {
        let told = |reason: &str, message: &str| {
            let status = Status::failure(message, reason).with_code(404);
            ToolError::of_kind(Refused::Status(Box::new(status)), "runschedules").to_string()
        };
        let lacks = told("Failed to parse error data", "404 page not found");
        assert!(
            lacks.starts_with("error: the cluster has no runschedules.run-operator.dev: "),
            "{lacks}"
        );
        let missing = told("NotFound", "no such object");
        assert_eq!(missing, "Error from server (NotFound): no such object");
    }
}
