//! The Kubernetes clients.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use tower::{buffer::BufferLayer, retry::RetryLayer};

use run_operator::controller::{BoundedRetry, CountRequests, ThrottleWatches, metrics::Metrics};

use super::error::StartError;

/// Timeout for connecting to the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence beyond `--watch-timeout` after which a watch connection counts as hung. The server ends the watch at that
/// timeout.
pub(super) const SILENCE: Duration = Duration::from_secs(6);
/// Read timeout for a command that watches nothing.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// Requests that may wait for the connection; kube's own limit.
const REQUESTS_WAITING: usize = 1024;

/// Client of the cluster that the environment names, for a short command.
pub(crate) async fn plain_client() -> Result<kube::Client, StartError> {
    kube::Client::try_from(cluster(READ_TIMEOUT).await?).map_err(StartError::Client)
}

async fn cluster(read_timeout: Duration) -> Result<kube::Config, StartError> {
    let mut config = kube::Config::infer()
        .await
        .map_err(StartError::Kubeconfig)?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    // kube sends no user agent; the API server's audit log needs one.
    let agent = concat!("run-operator/", env!("CARGO_PKG_VERSION"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    Ok(config)
}

/// Client for the Lease. It retries nothing, since the election decides on each attempt, and shares no connection with
/// other requests.
pub(super) async fn lease_client(metrics: &Arc<Metrics>) -> Result<kube::Client, StartError> {
    let (config, count) = counted(metrics, READ_TIMEOUT).await?;
    let client = ClientBuilder::try_from(config).map_err(StartError::Client)?;
    #[cfg(feature = "proofs")]
    let client = client.with_layer(&run_operator::points::kubernetes::Writes);
    Ok(client.with_layer(&count).build())
}

pub(super) async fn client(
    metrics: &Arc<Metrics>,
    read_timeout: Duration,
) -> Result<kube::Client, StartError> {
    let (config, count) = counted(metrics, read_timeout).await?;
    let client = ClientBuilder::try_from(config).map_err(StartError::Client)?;
    #[cfg(feature = "proofs")]
    let client = client.with_layer(&run_operator::points::kubernetes::Writes);
    Ok(client
        .with_layer(&count)
        .with_layer(&BufferLayer::new(REQUESTS_WAITING))
        .with_layer(&RetryLayer::new(BoundedRetry::default()))
        .with_layer(&ThrottleWatches::default())
        .build())
}

/// Cluster configuration, and the layer that counts requests.
async fn counted(
    metrics: &Arc<Metrics>,
    read_timeout: Duration,
) -> Result<(kube::Config, CountRequests), StartError> {
    let mut config = cluster(read_timeout).await?;
    // The client retries above the counting layer, so that each attempt is counted.
    config.default_retry = false;
    let count = CountRequests::new(Arc::clone(metrics), &config.cluster_url);
    Ok((config, count))
}
