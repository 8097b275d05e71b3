//! Errors that stop a measurement.

use std::path::PathBuf;
use std::time::Duration;

use crate::service::ServiceError;

/// Errors of `make bench`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Cluster(#[from] test_cluster::Error),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("failed to find {}: run `make bench`, which builds it", .0.display())]
    FindProgram(PathBuf),
    #[error("failed to start the runtime")]
    Runtime(#[source] std::io::Error),
    #[error("failed to {action}")]
    Kubernetes {
        action: &'static str,
        #[source]
        source: kube::Error,
    },
    #[error("failed to read {}", .path.display())]
    ReadFile {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to write {}", .path.display())]
    Plot {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to draw a plot")]
    Chart(#[source] charts_rs::Error),
    #[error("failed to read the usage of process {pid}")]
    ReadUsage {
        pid: u32,
        #[source]
        source: procfs::ProcError,
    },
    #[error("failed to read the time of the machine's cores")]
    ReadHost(#[source] procfs::ProcError),
    #[error("failed to ask etcd to {action}")]
    Etcd {
        action: &'static str,
        #[source]
        source: reqwest::Error,
    },
    #[error("failed to read an answer")]
    Decode(#[source] serde_json::Error),
    #[error("{0} is not as expected")]
    Unexpected(String),
    #[error("failed to see within {} s that {what}; seen last: {seen}", .after.as_secs())]
    Wait {
        what: &'static str,
        after: Duration,
        seen: String,
    },
}

impl BenchError {
    /// Makes an error of a request to the API server; for `map_err`.
    pub(super) fn kubernetes(action: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self::Kubernetes { action, source }
    }
}
