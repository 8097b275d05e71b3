//! HTTP setup: connection pools, TLS, and the features that are switched off.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use reqwest::{Certificate, ClientBuilder, redirect, retry};
use rustls::{RootCertStore, crypto::CryptoProvider};

use crate::api::contract::Contract;
use crate::util::{error_chain, lock};

use super::{BaseUrl, Observer, stream_pool::StreamPool};

/// Proxies commonly close an idle connection after 60 s. It is dropped earlier, so that a request seldom uses a
/// connection that is being closed.
const POOL_IDLE: Duration = Duration::from_secs(50);
/// Bytes of one event stream that are received before they are read.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The same of all streams of a connection: that of a hundred.
const CONNECTION_WINDOW: u32 = 100 * STREAM_WINDOW;
/// Interval of pings on a connection with open streams.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time to answer a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Configuration of a client.
#[derive(Clone)]
pub struct ClientConfig {
    /// Address of the service.
    pub base_url: BaseUrl,
    /// The CA certificates to trust for it, PEM. They **replace** the system's; unset means the system's, of which
    /// there must be some. Plain http needs neither.
    pub ca_pem: Option<Vec<u8>>,
    /// Whether a service by plain http is spoken to in HTTP/2, without asking whether it can.
    pub h2c: bool,
    /// Limits, timeouts and names.
    pub contract: Arc<Contract>,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Called for every call.
    pub observer: Arc<dyn Observer>,
}

/// Reason why a client can't be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not fit for a header.
    #[error("failed to use the user agent as a header")]
    UserAgent(#[source] InvalidHeaderValue),
    /// The program installed no TLS provider.
    #[error("failed to find the process's TLS provider; install one first thing in main")]
    NoTlsProvider,
    /// Not PEM, or a certificate in it is broken.
    #[error("failed to read the CA certificates")]
    ReadCa(#[source] reqwest::Error),
    /// PEM without a certificate.
    #[error("failed to find a certificate in the CA's PEM text")]
    EmptyCa,
    /// A system without CA certificates.
    #[error("failed to find the system's CA certificates; configure the service's CA")]
    NoSystemRoots,
    /// No TLS configuration.
    #[error("failed to set up TLS")]
    BuildClient(#[source] reqwest::Error),
}

/// One client for the calls of Runs, one for the checks of Workspaces, one for event streams.
pub(super) struct HttpClients {
    /// HTTP/2 if the service offers it, else HTTP/1.1.
    pub(super) calls: reqwest::Client,
    /// The same, separate from `calls`: calls that hang can use up a connection's limit of concurrent requests, and the
    /// checks of all Workspaces would wait behind them. The number of checks is bounded below that limit.
    pub(super) checks: reqwest::Client,
    /// The same, separate from both, and on as many connections as the streams need.
    pub(super) streams: Arc<StreamPool>,
}

impl HttpClients {
    pub(super) fn build(config: &ClientConfig) -> Result<Self, ConfigError> {
        if CryptoProvider::get_default().is_none() {
            return Err(ConfigError::NoTlsProvider);
        }
        let user_agent =
            HeaderValue::from_str(&config.user_agent).map_err(ConfigError::UserAgent)?;
        let roots = roots(config)?;
        let base_url = config.base_url.clone();
        let h2c = config.h2c && !base_url.is_https();
        let connect_seconds = config.contract.timeouts().connect_seconds;
        let client = move |adapt: fn(ClientBuilder) -> ClientBuilder| {
            let builder = base(&base_url, connect_seconds).user_agent(user_agent.clone());
            let builder = match &roots {
                Some(roots) => builder.tls_certs_only(roots.clone()),
                None => builder.tls_backend_preconfigured(system_tls()?),
            };
            let builder = if h2c {
                builder.http2_prior_knowledge()
            } else {
                builder
            };
            adapt(builder).build().map_err(ConfigError::BuildClient)
        };
        Ok(Self {
            calls: client(|builder| builder)?,
            checks: client(|builder| builder)?,
            streams: Arc::new(StreamPool::new(
                client(for_streams)?,
                Box::new(move || {
                    let made = client(for_streams);
                    made.inspect_err(|error| {
                        tracing::warn!(error = %error_chain(error), "failed to make one more client for event streams");
                    })
                    .ok()
                }),
            )),
        })
    }
}

/// A connection that many streams share. None of them can use up the window of all, and a connection that died
/// silently is found within a minute.
fn for_streams(builder: ClientBuilder) -> ClientBuilder {
    builder
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIMEOUT)
}

/// TLS that trusts the system's certificates. They are read and parsed once, and shared by all clients.
fn system_tls() -> Result<rustls::ClientConfig, ConfigError> {
    static ROOTS: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);
    let mut known = lock(&ROOTS);
    let roots = if let Some(roots) = &*known {
        Arc::clone(roots)
    } else {
        let mut roots = RootCertStore::empty();
        // Certificates that can't be parsed are left out, as in every other program.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(ConfigError::NoSystemRoots);
        }
        Arc::clone(known.insert(Arc::new(roots)))
    };
    drop(known);
    let mut tls = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

/// The only certificates to trust; `None` means the system's. Plain http trusts none, and so works on a system without
/// any; a bundle that can't be read is an error there, too.
fn roots(config: &ClientConfig) -> Result<Option<Vec<Certificate>>, ConfigError> {
    let given = config.ca_pem.as_deref().map(bundle).transpose()?;
    if config.base_url.is_https() {
        Ok(given)
    } else {
        Ok(Some(Vec::new()))
    }
}

fn bundle(pem: &[u8]) -> Result<Vec<Certificate>, ConfigError> {
    let roots = Certificate::from_pem_bundle(pem).map_err(ConfigError::ReadCa)?;
    if roots.is_empty() {
        return Err(ConfigError::EmptyCa);
    }
    Ok(roots)
}

/// Settings common to all clients. The call's own time limit is set by the caller.
fn base(base_url: &BaseUrl, connect_seconds: u64) -> ClientBuilder {
    reqwest::Client::builder()
        .https_only(base_url.is_https())
        .connect_timeout(Duration::from_secs(connect_seconds))
        .pool_idle_timeout(POOL_IDLE)
        // One attempt per call: retries are policy.
        .retry(retry::never())
        // A redirect would send the token to any address that an answer names.
        .redirect(redirect::Policy::none())
        .referer(false)
        // A proxy would be one more reader of the token; proxies from the environment are ignored.
        .no_proxy()
        // Sizes are counted on the wire: nothing is decompressed after the count.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        // Plain http is allowed to this name, so no resolver may decide its address.
        .resolve_to_addrs(
            "localhost",
            &[
                SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
            ],
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_a_connection_is_that_of_a_hundred_streams() {
        assert_eq!(STREAM_WINDOW, 65_536);
        assert_eq!(CONNECTION_WINDOW, 6_553_600);
    }
}
