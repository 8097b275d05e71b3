//! Errors that prevent the start of the controller or end it.

use run_operator::checks::MINIMUM;
use run_operator::util::Failed;

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Failed(#[from] Failed),
    #[error(
        "found Kubernetes {0}, and {MINIMUM} or newer is needed: upgrade the cluster, or install a version of run-operator that supports it"
    )]
    OldKubernetes(String),
    #[error("a loop of the controller ended unexpectedly; the log names it")]
    LoopEnded,
}
