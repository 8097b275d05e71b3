//! Flags about the metrics over TLS.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::values::address;

/// The metrics over TLS.
#[derive(Debug, Args)]
pub struct SecureMetricsArgs {
    /// The address at which /metrics is served over TLS, to tokens of the cluster whose user may get the path
    /// /metrics. --listen then serves only /healthz and /readyz.
    #[arg(
        id = "metrics_listen",
        long = "metrics-listen",
        env = "RUN_OPERATOR_METRICS_LISTEN",
        value_parser = address,
        value_name = "ADDRESS"
    )]
    pub address: Option<SocketAddr>,

    /// The certificate of that address with its chain, as PEM; read again when it changes. Without it one is made
    /// and self-signed at each start.
    #[arg(
        id = "metrics_cert",
        long = "metrics-cert",
        env = "RUN_OPERATOR_METRICS_CERT",
        requires = "metrics_listen",
        requires = "metrics_key",
        value_name = "FILE"
    )]
    pub certificate: Option<PathBuf>,

    /// The certificate's private key, as PEM.
    #[arg(
        id = "metrics_key",
        long = "metrics-key",
        env = "RUN_OPERATOR_METRICS_KEY",
        requires = "metrics_listen",
        requires = "metrics_cert",
        value_name = "FILE"
    )]
    pub key: Option<PathBuf>,
}
