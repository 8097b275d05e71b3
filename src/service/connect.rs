//! Connections: pools, TLS, the features that are switched off, and the places of event streams.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder, redirect, retry};
use rustls::{RootCertStore, crypto::CryptoProvider};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::contract::Contract;
use crate::util::{error_chain, lock, sha256};

use super::{BaseUrl, Observer, ServiceProxy};

/// Proxies commonly close an idle connection after 60 s.
const POOL_IDLE: Duration = Duration::from_secs(50);
/// Bytes of one event stream that are received before they are read.
const STREAM_WINDOW: u32 = 64 * 1024;
/// The largest window that HTTP/2 allows.
const MAX_WINDOW: u32 = i32::MAX.unsigned_abs();
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct ClientConfig {
    pub base_url: BaseUrl,
    /// PEM. They **replace** the system's; unset means the system's, which must exist. Plain http needs neither.
    pub ca_pem: Option<Vec<u8>>,
    /// Whether a service by plain http is spoken to in HTTP/2, without asking whether it can.
    pub h2c: bool,
    /// For services by https.
    pub proxy: Option<ServiceProxy>,
    pub contract: Arc<Contract>,
    pub user_agent: String,
    pub observer: Arc<dyn Observer>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to find the process's TLS provider; install one first thing in main")]
    NoTlsProvider,
    #[error("failed to read the CA certificates")]
    ReadCa(#[source] reqwest::Error),
    #[error("failed to find a certificate in the CA's PEM text")]
    EmptyCa,
    #[error("failed to find the system's CA certificates; configure the service's CA")]
    NoSystemRoots,
    #[error("failed to set up TLS")]
    BuildClient(#[source] reqwest::Error),
}

pub(super) struct HttpClients {
    /// HTTP/2 if the service offers it, else HTTP/1.1.
    pub(super) calls: reqwest::Client,
    /// Separate from `calls`: those that hang can use up a connection's limit of concurrent requests.
    pub(super) checks: reqwest::Client,
    pub(super) streams: StreamClients,
}

impl HttpClients {
    pub(super) fn build(config: &ClientConfig) -> Result<Self, ConfigError> {
        if CryptoProvider::get_default().is_none() {
            return Err(ConfigError::NoTlsProvider);
        }
        let user_agent = config.user_agent.clone();
        let roots = roots(config)?;
        let (base_url, proxy) = (config.base_url.clone(), config.proxy.clone());
        let h2c = config.h2c && !base_url.is_https();
        let connect_seconds = config.contract.timeouts().connect_seconds;
        let streams = config.contract.limits().streams_per_connection;
        let client = move |for_streams: bool| {
            let builder = base(&base_url, connect_seconds, proxy.as_ref());
            let builder = builder.user_agent(user_agent.clone());
            let mut builder = match &roots {
                Some(roots) => builder.tls_certs_only(roots.clone()),
                None => builder.tls_backend_preconfigured(system_tls()?),
            };
            if h2c {
                builder = builder.http2_prior_knowledge();
            }
            if for_streams {
                builder = shared_by(streams, builder);
            }
            builder.build().map_err(ConfigError::BuildClient)
        };
        Ok(Self {
            calls: client(false)?,
            checks: client(false)?,
            streams: StreamClients::new(streams, client(true)?, Box::new(move || client(true))),
        })
    }
}

/// None of many streams can use up the window of all, and a connection that died silently is found within a minute.
fn shared_by(streams: u16, builder: ClientBuilder) -> ClientBuilder {
    let window = STREAM_WINDOW.saturating_mul(streams.into());
    builder
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(window.min(MAX_WINDOW))
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

/// The only certificates to trust; `None` means the system's. Plain http trusts none; a broken bundle is an error there, too.
fn roots(config: &ClientConfig) -> Result<Option<Vec<Certificate>>, ConfigError> {
    let given = config.ca_pem.as_deref().map(Certificate::from_pem_bundle);
    let given = given.transpose().map_err(ConfigError::ReadCa)?;
    if given.as_ref().is_some_and(Vec::is_empty) {
        return Err(ConfigError::EmptyCa);
    }
    Ok(if config.base_url.is_https() {
        given
    } else {
        Some(Vec::new())
    })
}

fn base(base_url: &BaseUrl, connect_seconds: u64, proxy: Option<&ServiceProxy>) -> ClientBuilder {
    let builder = reqwest::Client::builder()
        .https_only(base_url.is_https())
        .connect_timeout(Duration::from_secs(connect_seconds))
        .pool_idle_timeout(POOL_IDLE)
        // One attempt per call: retries are policy.
        .retry(retry::never())
        // A redirect would send the token to any address that an answer names.
        .redirect(redirect::Policy::none())
        .referer(false)
        // Over plain http a proxy would be one more reader of the token; those of the environment are ignored.
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
        );
    match proxy {
        Some(proxy) => builder.proxy(proxy.0.clone()),
        None => builder,
    }
}

/// Origin, and the hash of the CA bundle.
type Service = (String, Option<String>);

/// The HTTP clients in use, one set for each origin and CA, however many Workspaces name them.
#[derive(Default)]
pub struct HttpPool {
    clients: Mutex<HashMap<Service, Weak<HttpClients>>>,
}

impl HttpPool {
    #[cfg(test)]
    fn in_use(&self) -> usize {
        let clients = lock(&self.clients);
        clients.values().filter(|c| c.strong_count() > 0).count()
    }

    pub(super) fn clients(&self, config: &ClientConfig) -> Result<Arc<HttpClients>, ConfigError> {
        let origin = config.base_url.origin().to_owned();
        let service = (origin, config.ca_pem.as_deref().map(sha256));
        let mut clients = lock(&self.clients);
        if let Some(known) = clients.get(&service).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let made = Arc::new(HttpClients::build(config)?);
        clients.retain(|_, known| known.strong_count() > 0);
        clients.insert(service, Arc::downgrade(&made));
        Ok(made)
    }
}

type Build = Box<dyn Fn() -> Result<reqwest::Client, ConfigError> + Send + Sync>;

/// A client of the HTTP library has one connection of HTTP/2, and silently queues what exceeds the service's limit
/// (`SETTINGS_MAX_CONCURRENT_STREAMS`): so the contract file names it. With HTTP/1.1 each stream has its own.
pub(super) struct StreamClients {
    most: usize,
    build: Build,
    /// Each with its free places; at least one.
    clients: Mutex<Vec<(reqwest::Client, Arc<Semaphore>)>>,
}

/// A stream's place on a connection. Dropping it frees the place.
pub(super) struct Place {
    pub(super) http: reqwest::Client,
    _permit: Option<OwnedSemaphorePermit>,
}

impl StreamClients {
    fn new(most: u16, first: reqwest::Client, build: Build) -> Self {
        let most = usize::from(most);
        Self {
            most,
            build,
            clients: Mutex::new(vec![(first, Arc::new(Semaphore::new(most)))]),
        }
    }

    /// A place on the fullest connection that takes one more stream, so that others become empty; these are closed.
    pub(super) fn place(&self) -> Place {
        let mut clients = lock(&self.clients);
        let free = |(_, places): &&(_, Arc<Semaphore>)| places.available_permits() > 0;
        if clients.iter().find(free).is_none() {
            match (self.build)() {
                Ok(more) => clients.push((more, Arc::new(Semaphore::new(self.most)))),
                Err(error) => {
                    let error = error_chain(&error);
                    tracing::warn!(error, "failed to make one more client for event streams");
                }
            }
        }
        let fullest = clients
            .iter()
            .filter(free)
            .min_by_key(|(_, places)| places.available_permits());
        // One like it was made before; if no more can be, the first is overfull.
        let (http, places) = fullest.unwrap_or(&clients[0]).clone();
        let permit = places.try_acquire_owned().ok();
        clients.retain(|(_, places)| places.available_permits() < self.most);
        Place {
            http,
            _permit: permit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::contract::Contract;
    use crate::service::{AllowList, BaseUrl, Client};

    const CA: &str = include_str!("../../tests/client/tls/ca.pem");
    const OTHER_CA: &str = include_str!("../../tests/client/tls/other-ca.pem");

    fn client(pool: &HttpPool, url: &str) -> Client {
        client_with(pool, url, None)
    }

    fn client_with(pool: &HttpPool, url: &str, ca: Option<&str>) -> Client {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let allowed = AllowList::parse([url], false).unwrap();
        let config = ClientConfig {
            base_url: BaseUrl::parse(url, &allowed).unwrap(),
            ca_pem: ca.map(|pem| pem.as_bytes().to_vec()),
            h2c: false,
            proxy: None,
            contract: Arc::new(Contract::builtin().unwrap()),
            user_agent: "test".to_owned(),
            observer: Arc::new(()),
        };
        Client::shared(config, pool).unwrap()
    }

    /// Proves: P-many-workspaces
    #[test]
    fn a_thousand_workspaces_of_one_service_share_its_connections() {
        let pool = HttpPool::default();
        let one: Vec<Client> = (0..1000)
            .map(|n| client(&pool, &format!("http://localhost:1/{n}/api/v1")))
            .collect();
        assert_eq!(pool.in_use(), 1);
        let other = client(&pool, "http://localhost:2/api/v1");
        assert_eq!(pool.in_use(), 2);
        drop(one);
        assert_eq!(pool.in_use(), 1, "closed with the last one");
        drop(other);
        assert_eq!(pool.in_use(), 0);
        let _next = client(&pool, "http://localhost:3/api/v1");
        assert_eq!(lock(&pool.clients).len(), 1, "those of the past are gone");
    }

    #[test]
    fn another_ca_has_connections_of_its_own() {
        let pool = HttpPool::default();
        let url = "https://localhost:1/api/v1";
        let _plain = client(&pool, url);
        let _of_first = client_with(&pool, url, Some(CA));
        let _of_second = client_with(&pool, url, Some(OTHER_CA));
        assert_eq!(pool.in_use(), 3);
    }

    fn stream_clients() -> StreamClients {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let build = || {
            let client = reqwest::Client::builder().tls_certs_only([]).build();
            client.map_err(ConfigError::BuildClient)
        };
        StreamClients::new(100, build().unwrap(), Box::new(build))
    }

    fn places(clients: &StreamClients, count: usize) -> Vec<Place> {
        (0..count).map(|_| clients.place()).collect()
    }

    /// Proves: P-files
    #[test]
    fn streams_share_connections_up_to_the_contract_s_limit() {
        let clients = stream_clients();
        let size = || lock(&clients.clients).len();
        let mut open = places(&clients, 250);
        assert_eq!(size(), 3);
        open.drain(..100);
        open.push(clients.place());
        assert_eq!(
            size(),
            2,
            "the fullest one with a place is used, and an empty one is closed"
        );
        open.truncate(149);
        assert_eq!(size(), 2, "one with other streams stays open");
        drop(open);
        let last = clients.place();
        assert_eq!(size(), 1);
        drop(last);
    }

    /// Proves: P-files
    #[test]
    fn without_another_client_the_first_is_overfull() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().tls_certs_only([]);
        let first = builder.user_agent("first").build().unwrap();
        let clients = StreamClients::new(2, first, Box::new(|| Err(ConfigError::NoSystemRoots)));
        for place in places(&clients, 5) {
            let client = format!("{:?}", place.http);
            assert!(client.contains("first"), "{client}");
        }
        assert_eq!(lock(&clients.clients).len(), 1);
    }
}
