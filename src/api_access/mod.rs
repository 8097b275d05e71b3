//! The way to the API server: the kubeconfig's cluster and user, or the Pod's `ServiceAccount`; the proxy that kubectl
//! would use; and connections on which watches and other requests don't wait for each other.

mod proxy;

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::{legacy, proxy::matcher::Intercept};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt, RustlsTlsError};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use rustls::pki_types::ServerName;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn, timeout::TimeoutLayer};
use tower_http::timeout::{ResponseBodyTimeoutLayer, TimeoutBody};

pub use proxy::UnusableProxy;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Without a read timeout in the configuration.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// Silence of an HTTP/2 connection after which it is pinged, as in client-go.
const PING_AFTER: Duration = Duration::from_secs(30);
/// Time for the answer to a ping, as in client-go. Then the connection is closed, and its requests fail.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes that the API server may send in one answer before they are read.
const STREAM_WINDOW: u32 = 1024 * 1024;
/// The same for all answers of a connection. Watches that are read slowly must not hold back the others.
const CONNECTION_WINDOW: u32 = 64 * STREAM_WINDOW;

/// The requests of a client below its layers.
pub type Connections = BoxService<Request<Body>, Response<Answer>, BoxError>;
type Answer = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Infer(#[from] InferConfigError),
    #[error(transparent)]
    Proxy(#[from] UnusableProxy),
}

pub struct Access {
    /// Its `proxy_url` is not used.
    pub config: Config,
    proxy: Option<Intercept>,
}

impl Access {
    /// By this kubeconfig; else by that of the environment; else, in a Pod, by the `ServiceAccount`.
    pub async fn find(
        kubeconfig: Option<&Path>,
        options: &KubeConfigOptions,
        user_agent: &'static str,
    ) -> Result<Self, AccessError> {
        let kubeconfig = match kubeconfig {
            Some(file) => Some(Kubeconfig::read_from(file)?),
            None => Kubeconfig::read().ok(),
        };
        let (mut config, own) = match kubeconfig {
            Some(kubeconfig) => {
                let own = proxy::of_cluster(&kubeconfig, options).map(str::to_owned);
                let config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
                (config, own)
            }
            None => (Config::infer().await?, None),
        };
        let variable = |name: &str| std::env::var(name).ok();
        let proxy = proxy::to(&config.cluster_url, own.as_deref(), variable)?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // kube sends no user agent; the API server's audit log needs one.
        let agent = HeaderValue::from_static(user_agent);
        config.headers.push((USER_AGENT, agent));
        Ok(Self { config, proxy })
    }

    pub fn client(&self) -> kube::Result<kube::Client> {
        Ok(self.builder()?.build())
    }

    /// For a client that repeats nothing of its own accord.
    pub fn builder(&self) -> kube::Result<ClientBuilder<Connections>> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connections = match &self.proxy {
            None => connections(&self.config, tcp),
            Some(proxy) => match proxy.uri().scheme_str() {
                Some("http") => connections(&self.config, tunnel(proxy, tcp)),
                Some("https") => {
                    let tls = self.config.rustls_https_connector_with_connector(tcp)?;
                    connections(&self.config, tunnel(proxy, tls))
                }
                _ => connections(&self.config, socks(proxy, tcp)),
            },
        };
        let namespace = self.config.default_namespace.clone();
        Ok(ClientBuilder::new(connections?, namespace))
    }
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(password) => tunnel.with_auth(password.clone()),
        None => tunnel,
    }
}

fn socks<C>(proxy: &Intercept, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(proxy::socks_address(proxy.uri()), connector);
    match proxy.raw_auth() {
        Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
        None => socks,
    }
}

/// Requests share one connection over HTTP/2, and watches another: an API server under load sends little more than a
/// hundred frames a second on one, so that behind the answers to writes a watch is late by tens of seconds, and is ended
/// as too slow. Without HTTP/2 each request in flight has a connection to itself.
fn connections<C>(config: &Config, connector: C) -> kube::Result<Connections>
where
    C: Service<
            Uri,
            Response: Connection + Read + Write + Send + Unpin + 'static,
            Future: Send + 'static,
            Error: Into<BoxError>,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    let mut connector = TimeoutConnector::new(https(config, connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    let pool = || {
        legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build::<_, Body>(connector.clone())
    };
    let (watches, requests) = (pool(), pool());
    let by_kind = service_fn(move |request: Request<Body>| {
        let pool = if is_watch(&request) {
            &watches
        } else {
            &requests
        };
        pool.request(request)
    });
    let silence = config.read_timeout.unwrap_or(FOREVER);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        // A timeout of each request: the connection is never silent, since others share it.
        .layer(TimeoutLayer::new(silence))
        .layer(ResponseBodyTimeoutLayer::new(silence))
        .service(by_kind);
    let boxed = |answer: Response<TimeoutBody<Incoming>>| answer.map(BodyExt::boxed_unsync);
    let service = service.map_response(boxed);
    Ok(service.boxed())
}

/// Whether a request is a watch, of which a streamed list is one too.
fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| parameter == "watch=true")
}

/// TLS as kube sets it up, and HTTP/2, which kube doesn't offer.
fn https<C>(config: &Config, connector: C) -> kube::Result<HttpsConnector<C>> {
    let tls = config.rustls_client_config()?;
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|error| kube::Error::RustlsTls(RustlsTlsError::InvalidServerName(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(connector))
}
