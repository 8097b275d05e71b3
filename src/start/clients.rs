//! The Kubernetes clients.

use std::sync::Arc;
use std::time::Duration;

use http::header::USER_AGENT;
use http::{HeaderValue, Request};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt, RustlsTlsError};
use rustls::pki_types::ServerName;
use tower::{
    BoxError, ServiceBuilder, buffer::BufferLayer, retry::RetryLayer, service_fn,
    timeout::TimeoutLayer,
};
use tower_http::timeout::ResponseBodyTimeoutLayer;

use run_operator::checks::{KubernetesVersion, MINIMUM};
use run_operator::controller::{BoundedRetry, CountRequests, metrics::Metrics, throttle_watches};
use run_operator::util::{Failed, error_chain, failed};

use super::error::StartError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Silence beyond `--watch-timeout`, when the server ends a watch, after which its connection counts as hung.
pub(super) const SILENCE: Duration = Duration::from_secs(6);
/// Time for the API server's version. An API server that is away delays the start by no more.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Read timeout for a command that watches nothing.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// Silence of an HTTP/2 connection after which it is pinged, as in client-go.
const PING_AFTER: Duration = Duration::from_secs(30);
/// Time for the answer to a ping, as in client-go. Then the connection is closed, and its requests fail.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes that the API server may send in one answer before they are read.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all answers of a connection. Watches that are read slowly must not hold back the others.
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;

const CLUSTER: &str = "find a cluster: no kubeconfig and no service account";
const CLIENT: &str = "set up the Kubernetes client";
const PROXY: &str = "a proxy to the API server is not supported; remove proxy-url from the kubeconfig, and HTTPS_PROXY from the environment";

type Pool = legacy::Client<TimeoutConnector<HttpsConnector<HttpConnector>>, Body>;

/// Requests that may wait for the connection; kube's own limit.
const REQUESTS_WAITING: usize = 1024;

pub(crate) async fn plain_client() -> Result<kube::Client, Failed> {
    kube::Client::try_from(cluster(READ_TIMEOUT).await?).map_err(failed(CLIENT))
}

async fn cluster(read_timeout: Duration) -> Result<kube::Config, Failed> {
    let config = kube::Config::infer().await;
    let mut config = config.map_err(failed(CLUSTER))?;
    if config.proxy_url.is_some() {
        return Err(failed(CLIENT)(PROXY));
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    // kube sends no user agent; the API server's audit log needs one.
    let agent = concat!("run-operator/", env!("CARGO_PKG_VERSION"));
    config
        .headers
        .push((USER_AGENT, HeaderValue::from_static(agent)));
    Ok(config)
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

/// Client for the Lease, or for the reviews of scrapers' tokens: it retries nothing and shares no connection.
pub(super) async fn separate_client(metrics: &Arc<Metrics>) -> Result<kube::Client, Failed> {
    let mut config = cluster(READ_TIMEOUT).await?;
    config.default_retry = false;
    let client = ClientBuilder::try_from(config).map_err(failed(CLIENT))?;
    Ok(client
        .with_layer(&CountRequests(Arc::clone(metrics)))
        .build())
}

pub(super) async fn client(
    metrics: &Arc<Metrics>,
    read_timeout: Duration,
) -> Result<kube::Client, Failed> {
    let config = cluster(read_timeout).await?;
    two_connections(&config, read_timeout, metrics).map_err(failed(CLIENT))
}

/// A client whose requests share one connection over HTTP/2, and its watches another: an API server under load sends
/// little more than a hundred frames a second on one, so that behind the answers to writes a watch is late by tens of
/// seconds, and is ended as too slow. Without HTTP/2 each request in flight has a connection to itself.
fn two_connections(
    config: &kube::Config,
    read_timeout: Duration,
    metrics: &Arc<Metrics>,
) -> kube::Result<kube::Client> {
    let mut connector = TimeoutConnector::new(https(config)?);
    connector.set_connect_timeout(config.connect_timeout);
    let (watches, requests) = (pool(connector.clone()), pool(connector));
    let by_kind = service_fn(move |request: Request<Body>| {
        let pool = if is_watch(&request) {
            &watches
        } else {
            &requests
        };
        pool.request(request)
    });
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        // A timeout of each request: the connection is never silent, since others share it.
        .layer(TimeoutLayer::new(read_timeout))
        .layer(ResponseBodyTimeoutLayer::new(read_timeout))
        .service(by_kind);
    Ok(
        ClientBuilder::new(service, config.default_namespace.clone())
            // Below the repetitions, so that each attempt is counted.
            .with_layer(&CountRequests(Arc::clone(metrics)))
            .with_layer(&BufferLayer::new(REQUESTS_WAITING))
            .with_layer(&RetryLayer::new(BoundedRetry::default()))
            .with_layer(&throttle_watches())
            .build(),
    )
}

fn pool(connector: TimeoutConnector<HttpsConnector<HttpConnector>>) -> Pool {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector)
}

/// Whether a request is a watch, of which a streamed list is one too.
fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| parameter == "watch=true")
}

fn https(config: &kube::Config) -> kube::Result<HttpsConnector<HttpConnector>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_client_config()?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|error| kube::Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(tcp))
}
