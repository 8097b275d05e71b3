//! The Kubernetes clients.

use std::sync::Arc;
use std::time::Duration;

use kube::config::KubeConfigOptions;
use tower::{buffer::BufferLayer, retry::RetryLayer};

use run_operator::api_access::Access;
use run_operator::checks::{KubernetesVersion, MINIMUM};
use run_operator::controller::{BoundedRetry, CountRequests, metrics::Metrics, throttle_watches};
use run_operator::util::{Failed, error_chain, failed};

use super::error::StartError;

/// Silence beyond `--watch-timeout`, when the server ends a watch, after which its connection counts as hung.
pub(super) const SILENCE: Duration = Duration::from_secs(6);
/// Time for the API server's version. An API server that is away delays the start by no more.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Read timeout for what watches nothing.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Requests that may wait for the connection; kube's own limit.
const REQUESTS_WAITING: usize = 1024;

const CLUSTER: &str = "find a cluster by a kubeconfig or a service account";
const CLIENT: &str = "set up the Kubernetes client";
const AGENT: &str = concat!("run-operator/", env!("CARGO_PKG_VERSION"));

pub(crate) async fn plain_client() -> Result<kube::Client, Failed> {
    cluster(READ_TIMEOUT)
        .await?
        .client()
        .map_err(failed(CLIENT))
}

async fn cluster(read_timeout: Duration) -> Result<Access, Failed> {
    let found = Access::find(None, &KubeConfigOptions::default(), AGENT).await;
    let mut access = found.map_err(failed(CLUSTER))?;
    access.config.read_timeout = Some(read_timeout);
    Ok(access)
}

/// Fails if the API server is too old. A version that can't be read is only logged: an outage must not end the operator.
pub(super) async fn check_version(client: &kube::Client) -> Result<(), StartError> {
    let answer = tokio::time::timeout(VERSION_TIMEOUT, client.apiserver_version()).await;
    let error = match answer {
        Ok(Ok(info)) => match KubernetesVersion::served(&info) {
            Some(found) if found < MINIMUM => {
                let found = format!("{found} ({})", info.git_version);
                return Err(StartError::OldKubernetes(found));
            }
            Some(_) => return Ok(()),
            None => "it has no number".to_owned(),
        },
        Ok(Err(error)) => error_chain(&error),
        Err(_) => "no answer in time".to_owned(),
    };
    tracing::warn!(error, minimum = %MINIMUM, "the API server's version could not be checked");
    Ok(())
}

/// Client for the Lease, or for the reviews of scrapers' tokens: it repeats nothing and shares no connection.
pub(super) async fn separate_client(metrics: &Arc<Metrics>) -> Result<kube::Client, Failed> {
    let builder = cluster(READ_TIMEOUT).await?.builder();
    let builder = builder.map_err(failed(CLIENT))?;
    Ok(builder
        .with_layer(&CountRequests(Arc::clone(metrics)))
        .build())
}

pub(super) async fn client(
    metrics: &Arc<Metrics>,
    read_timeout: Duration,
) -> Result<kube::Client, Failed> {
    let builder = cluster(read_timeout).await?.builder();
    let builder = builder.map_err(failed(CLIENT))?;
    Ok(builder
        // Below the repetitions, so that each attempt is counted.
        .with_layer(&CountRequests(Arc::clone(metrics)))
        .with_layer(&BufferLayer::new(REQUESTS_WAITING))
        .with_layer(&RetryLayer::new(BoundedRetry::default()))
        .with_layer(&throttle_watches())
        .build())
}
