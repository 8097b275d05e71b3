//! Errors that stop the demo early.

use std::path::PathBuf;

use crate::service::ServiceError;

/// Errors of the demo. A promise that does not hold is no error here: the summary reports it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Cluster(#[from] test_cluster::Error),
    #[error("failed to find {}: run `make demo`, which builds it", .0.display())]
    FindProgram(PathBuf),
    #[error("failed to read {}", .path.display())]
    ReadExample {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to find stringData.token in {}", .0.display())]
    FindToken(PathBuf),
    #[error("failed to talk to the API server")]
    Kubernetes(#[source] kube::Error),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("failed to see within {seconds} s that {what}; seen last:\n{seen}")]
    Wait {
        what: String,
        seconds: u64,
        seen: String,
    },
    #[error("failed to watch the objects: the watch has ended")]
    Watch,
    #[error("failed to handle signals, or to start the runtime")]
    Runtime(#[source] std::io::Error),
}
