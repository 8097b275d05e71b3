//! Errors that prevent the start of the controller or end it.

use std::net::SocketAddr;
use std::time::Duration;

use run_operator::checks::TargetError;
use run_operator::checks::{KubernetesVersion, MINIMUM};
use run_operator::contract_file::ContractFileError;
use run_operator::controller::leader::{Lost, TimingError};
use run_operator::service::BaseUrlError;

use crate::health::CertificateError;

/// Error that prevents the start of the controller or ends it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Contract(#[from] ContractFileError),
    /// Of `check`.
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("failed to use --base-url")]
    BaseUrl(#[source] BaseUrlError),
    /// Names the value by its position: it may contain a password.
    #[error("failed to use --allowed-base-url number {number}")]
    AllowedBaseUrl { number: usize, source: BaseUrlError },
    #[error("failed to use --log-filter {filter:?}")]
    LogFilter {
        filter: String,
        source: tracing_subscriber::filter::ParseError,
    },
    #[error("failed to use --poll-min and --poll-max: {min:?} is longer than {max:?}")]
    PollOrder { min: Duration, max: Duration },
    #[error("failed to listen on {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("failed to start the health server")]
    Health(#[source] std::io::Error),
    #[error("failed to serve the metrics over TLS")]
    SecureMetrics(#[source] CertificateError),
    #[error("failed to find a cluster: no kubeconfig and no service account")]
    Kubeconfig(#[source] kube::config::InferConfigError),
    #[error(
        "failed to set up the Kubernetes client: a proxy to the API server is not supported; remove proxy-url from the kubeconfig, and HTTPS_PROXY from the environment"
    )]
    Proxy,
    #[error("failed to set up the Kubernetes client")]
    Client(#[source] kube::Error),
    #[error(
        "found Kubernetes {found} ({server}), and {MINIMUM} or newer is needed: upgrade the cluster, or install a version of run-operator that supports it"
    )]
    OldKubernetes {
        found: KubernetesVersion,
        server: String,
    },
    #[error("a loop of the controller ended unexpectedly; the log names it")]
    LoopEnded,
    #[error(
        "failed to use --leader-elect-lease-duration, --leader-elect-renew-deadline and --leader-elect-retry-period"
    )]
    LeaseTiming(#[source] TimingError),
    #[error("lost the lease, and ended at once")]
    LeaseLost(#[source] Lost),
    #[error("failed to handle signals")]
    Signals(#[source] std::io::Error),
}
