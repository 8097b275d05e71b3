//! Connections: pools, TLS, the features that are switched off, and the places of event streams.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use reqwest::{Certificate, ClientBuilder, redirect, retry};
use rustls::{RootCertStore, crypto::CryptoProvider};
use tokio::time::Instant;

use crate::api::contract::Contract;
use crate::decide::request::body::sha256;
use crate::util::{error_chain, lock};

use super::{BaseUrl, Observer};

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

/// Origin, and the hash of the CA bundle.
type Service = (String, Option<String>);

/// The HTTP clients in use, one set for each origin and CA, however many Workspaces name them. A set that no Workspace
/// uses is closed. Holds no token: each [`Client`](super::Client) has its own list of tokens to remove from
/// answers.
#[derive(Default)]
pub struct HttpPool {
    clients: Mutex<HashMap<Service, Weak<HttpClients>>>,
}

impl HttpPool {
    /// Number of sets in use.
    #[cfg(test)]
    fn in_use(&self) -> usize {
        let clients = lock(&self.clients);
        clients.values().filter(|c| c.strong_count() > 0).count()
    }

    /// The set for this origin and CA; made if there is none. `config.contract`, `config.user_agent` and
    /// `config.h2c` are the same for the whole process.
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

/// Streams that a connection takes. RFC 9113 recommends that no service allows fewer.
const STREAMS: usize = 100;
/// Time for which a smaller number counts that a service seemed to allow.
const LEARNED_FOR: Duration = Duration::from_mins(10);

/// Makes one more client, if that is possible.
type Build = Box<dyn Fn() -> Option<reqwest::Client> + Send + Sync>;

/// The clients for the event streams of one service.
pub(super) struct StreamPool {
    build: Build,
    state: Mutex<State>,
}

struct State {
    clients: Vec<Client>,
    /// Identifies a client: it moves within the list when others leave.
    next_id: u64,
    /// A smaller number of streams that a connection took, and until when it counts.
    learned: Option<(usize, Instant)>,
}

struct Client {
    id: u64,
    http: reqwest::Client,
    /// Streams that use it, open or not yet.
    assigned: usize,
    /// Those that the service has answered over HTTP/2.
    open: usize,
}

/// A stream's place on a connection. Dropping it frees the place.
pub(super) struct Place {
    pool: Arc<StreamPool>,
    id: u64,
    http: reqwest::Client,
    open: bool,
}

impl StreamPool {
    /// A pool with one client; `build` makes others like it.
    pub(super) fn new(first: reqwest::Client, build: Build) -> Self {
        let first = Client {
            id: 0,
            http: first,
            assigned: 0,
            open: 0,
        };
        Self {
            build,
            state: Mutex::new(State {
                clients: vec![first],
                next_id: 1,
                learned: None,
            }),
        }
    }

    /// A place on the fullest connection that takes one more stream, so that others become empty and are closed.
    pub(super) fn place(self: &Arc<Self>, now: Instant) -> Place {
        let mut state = lock(&self.state);
        let limit = state.limit(now);
        let free = |client: &&mut Client| client.assigned < limit;
        let fullest = state.clients.iter_mut().filter(free);
        let index = match fullest.max_by_key(|client| client.assigned) {
            Some(client) => {
                client.assigned += 1;
                return self.at(client);
            }
            None => state.add(&self.build),
        };
        let client = &mut state.clients[index];
        client.assigned += 1;
        self.at(client)
    }

    fn at(self: &Arc<Self>, client: &Client) -> Place {
        Place {
            pool: Arc::clone(self),
            id: client.id,
            http: client.http.clone(),
            open: false,
        }
    }

    /// Number of clients.
    #[cfg(test)]
    fn size(&self) -> usize {
        lock(&self.state).clients.len()
    }
}

impl State {
    fn limit(&self, now: Instant) -> usize {
        let learned = self.learned.filter(|(_, until)| now < *until);
        learned.map_or(STREAMS, |(limit, _)| limit)
    }

    /// Adds a client and returns its index. One like it was made before; if this one can't be, the first is overfull.
    fn add(&mut self, build: &Build) -> usize {
        let Some(http) = build() else {
            return 0;
        };
        self.clients.push(Client {
            id: self.next_id,
            http,
            assigned: 0,
            open: 0,
        });
        self.next_id += 1;
        self.clients.len() - 1
    }

    fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.id == id)
    }
}

impl Place {
    /// The client to open the stream with.
    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Records that the service has answered, over HTTP/2 or not.
    pub(super) fn opened(&mut self, http2: bool) {
        let first = http2 && !std::mem::replace(&mut self.open, true);
        if let Some(client) = lock(&self.pool.state).client(self.id).filter(|_| first) {
            client.open += 1;
        }
    }

    /// Records that no answer came in time. If a connection of HTTP/2 has open streams, it probably takes no more than
    /// these.
    pub(super) fn unanswered(&self, now: Instant) {
        let mut state = lock(&self.pool.state);
        let limit = state.limit(now);
        let open = state.client(self.id).map_or(0, |client| client.open);
        if open > 0 && open < limit {
            state.learned = Some((open, now + LEARNED_FOR));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        let others = state.clients.len() > 1;
        if let Some(client) = state.client(self.id) {
            client.assigned -= 1;
            client.open -= usize::from(self.open);
            if client.assigned == 0 && others {
                state.clients.retain(|client| client.id != self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::contract::Contract;
    use crate::service::{AllowList, BaseUrl, Client};

    #[test]
    fn the_window_of_a_connection_is_that_of_a_hundred_streams() {
        assert_eq!(STREAM_WINDOW, 65_536);
        assert_eq!(CONNECTION_WINDOW, 6_553_600);
    }

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
    fn another_ca_has_connections_and_a_hash_of_its_own() {
        let pool = HttpPool::default();
        let url = "https://localhost:1/api/v1";
        let plain = client(&pool, url);
        let of_first = client_with(&pool, url, Some(CA));
        let of_second = client_with(&pool, url, Some(OTHER_CA));
        assert_eq!(pool.in_use(), 3);
        assert_eq!(plain.ca(), None);
        assert_eq!(of_first.ca(), Some(sha256(CA.as_bytes()).as_str()));
        assert_eq!(of_second.ca(), Some(sha256(OTHER_CA.as_bytes()).as_str()));
    }

    fn pool() -> Arc<StreamPool> {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let build = || {
            let client = reqwest::Client::builder().tls_certs_only([]).build();
            client.ok()
        };
        Arc::new(StreamPool::new(build().unwrap(), Box::new(build)))
    }

    fn places(pool: &Arc<StreamPool>, count: usize, now: Instant) -> Vec<Place> {
        let place = |_| {
            let mut place = pool.place(now);
            place.opened(true);
            place
        };
        (0..count).map(place).collect()
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn streams_share_connections_up_to_the_usual_limit() {
        let (pool, now) = (pool(), Instant::now());
        let mut places = places(&pool, 250, now);
        assert_eq!(pool.size(), 3);
        places.drain(..100);
        assert_eq!(pool.size(), 2, "an empty connection is closed");
        places.push(pool.place(now));
        assert_eq!(pool.size(), 2, "the fullest one with a place is used");
        places.truncate(149);
        assert_eq!(pool.size(), 2, "one with other streams stays open");
        drop(places);
        assert_eq!(pool.size(), 1);
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn a_smaller_limit_of_the_service_is_learned_for_a_while() {
        let (pool, now) = (pool(), Instant::now());
        let mut all = places(&pool, 30, now);
        let late = pool.place(now);
        late.unanswered(now);
        drop(late);
        all.push(pool.place(now));
        assert_eq!(pool.size(), 2);
        let shortly_before = now + Duration::from_secs(9 * 60 + 59);
        all.extend(places(&pool, 30, shortly_before));
        assert_eq!(pool.size(), 3);
        let later = now + Duration::from_mins(10);
        all.extend(places(&pool, 70, later));
        assert_eq!(pool.size(), 3, "the usual limit counts again");
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn a_limit_that_was_learned_is_not_learned_again() {
        let (pool, now) = (pool(), Instant::now());
        let mut all = places(&pool, 30, now);
        pool.place(now).unanswered(now);
        let shortly_before = now + Duration::from_secs(9 * 60 + 59);
        all[0].unanswered(shortly_before);
        all.extend(places(&pool, 70, now + Duration::from_mins(10)));
        assert_eq!(pool.size(), 1, "the usual limit counts again");
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn streams_that_were_closed_do_not_count_for_the_limit() {
        let (pool, now) = (pool(), Instant::now());
        let mut all = places(&pool, 30, now);
        all.truncate(20);
        pool.place(now).unanswered(now);
        all.extend(places(&pool, 1, now));
        assert_eq!(pool.size(), 2, "twenty were open");
    }

    #[tokio::test]
    async fn a_place_has_the_client_of_its_connection() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().tls_certs_only([]);
        let first = builder.user_agent("first").build().unwrap();
        let pool = Arc::new(StreamPool::new(first, Box::new(|| None)));
        let client = format!("{:?}", pool.place(Instant::now()).http());
        assert!(client.contains("first"), "{client}");
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn with_http1_an_unanswered_stream_teaches_nothing() {
        let (pool, now) = (pool(), Instant::now());
        let mut open = pool.place(now);
        open.opened(false);
        pool.place(now).unanswered(now);
        let more = places(&pool, 99, now);
        assert_eq!(pool.size(), 1);
        drop((open, more));
    }

    /// Proves: P-streams-shared
    #[tokio::test]
    async fn a_silent_service_does_not_lower_the_limit() {
        let (pool, now) = (pool(), Instant::now());
        let silent: Vec<Place> = (0..10).map(|_| pool.place(now)).collect();
        for place in &silent {
            place.unanswered(now);
        }
        let more = places(&pool, 90, now);
        assert_eq!(pool.size(), 1);
        drop((silent, more));
    }
}
