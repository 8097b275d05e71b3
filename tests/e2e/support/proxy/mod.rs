//! The proxy at a wire of the operator, or of a command: to the API server or to the service. It passes everything until
//! a test says otherwise: requests and events of streams are lost, doubled, delayed, cut, refused or left hanging
//! ([`Fault`]), lists and watches show the past ([`View`]), and the whole wire is cut, silent or refusing ([`Wire`]).
//!
//! # Guarantees
//! - A request that has arrived whole is carried out to its end, also where the program that sent it has ended.
//! - The kubeconfig that leads here has no credentials: nothing reaches the API server by another way.
//!
//! # Caveats
//! It speaks HTTP/1.1 without TLS. [`Wire::to`] alone passes whatever two programs speak, and knows no requests.

mod events;
mod fault;
mod request;
mod view;
mod wire;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{Request, Response, Uri, header};
use futures::stream;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::config::{AuthInfo, Kubeconfig};
use tokio::sync::watch;

use super::eventually;
pub(crate) use fault::{Fault, Hook};
use fault::{Rest, cut, half, is_event_stream, refusal};
pub(crate) use request::Asked;
use test_cluster::{ControlPlane, Scratch};
use test_support::streams_a_list;
use view::{GONE, View, Watch};
pub(crate) use wire::Wire;

/// Decides on a request: the first rule that has a fault for it counts.
type Rule = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

#[derive(Default)]
struct Table {
    asked: Vec<Asked>,
    rules: Vec<Rule>,
    views: HashMap<String, View>,
}

/// The other side.
enum Upstream {
    ApiServer {
        client: kube::Client,
        /// As one without streamed lists: what a test does to a list, it does to its pages.
        in_pages: bool,
    },
    Service {
        client: Box<Client<HttpConnector, Body>>,
        /// `127.0.0.1:PORT`.
        address: String,
    },
}

struct Shared {
    upstream: Upstream,
    table: Mutex<Table>,
    /// Told when a view or a rule has changed.
    changed: watch::Sender<()>,
    watches: AtomicU64,
    /// Requests that were sent once more, later.
    repeated: AtomicU64,
}

/// A proxy on a port of its own. It ends when it is dropped.
pub(crate) struct Proxy {
    pub(crate) wire: Wire,
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    _scratch: Scratch,
}

impl Proxy {
    /// Starts a proxy for this control plane, whose lists come in pages.
    pub(crate) async fn start(control_plane: &ControlPlane) -> Self {
        Self::for_api_server(control_plane, true).await
    }

    /// The same, whose lists are streamed where the API server streams them.
    pub(crate) async fn to_api_server(control_plane: &ControlPlane) -> Self {
        Self::for_api_server(control_plane, false).await
    }

    async fn for_api_server(control_plane: &ControlPlane, in_pages: bool) -> Self {
        let client = control_plane.client().await.unwrap();
        let proxy = Self::new(Upstream::ApiServer { client, in_pages });
        let mut config = Kubeconfig::read_from(control_plane.kubeconfig()).unwrap();
        for cluster in &mut config.clusters {
            let cluster = cluster.cluster.as_mut().unwrap();
            cluster.server = Some(format!("http://{}", proxy.wire.address()));
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
        for user in &mut config.auth_infos {
            user.auth_info = Some(AuthInfo::default());
        }
        let config = serde_json::to_string(&config).unwrap();
        std::fs::write(proxy.kubeconfig(), config).unwrap();
        proxy
    }

    /// Starts a proxy for the service at `127.0.0.1:PORT`.
    pub(crate) fn to_service(address: &str) -> Self {
        Self::new(Upstream::Service {
            client: Box::new(Client::builder(TokioExecutor::new()).build_http()),
            address: address.to_owned(),
        })
    }

    fn new(upstream: Upstream) -> Self {
        let shared = Arc::new(Shared {
            upstream,
            table: Mutex::default(),
            changed: watch::Sender::new(()),
            watches: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let server = Arc::clone(&shared);
        let wire = Wire::new(wire::Far::Server(Box::new(move |stream| {
            let shared = Arc::clone(&server);
            let service = service_fn(move |request| serve(Arc::clone(&shared), request));
            // Also to a client that begins with HTTP/2 unasked, it speaks only HTTP/1.1.
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        })));
        let scratch = Scratch::new("proxy").unwrap();
        Self {
            wire,
            shared,
            kubeconfig: scratch.path().join("kubeconfig"),
            _scratch: scratch,
        }
    }

    /// The kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The service's base URL that leads here.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/api/v1", self.wire.address())
    }

    /// Does this with the requests that fit, `times` times; the first rule that fits counts.
    pub(crate) fn fault(
        &self,
        times: usize,
        fault: Fault,
        fits: impl Fn(&Asked) -> bool + Send + 'static,
    ) {
        let mut left = times;
        self.rule(move |asked| {
            let met = left > 0 && fits(asked);
            left -= usize::from(met);
            met.then(|| fault.clone())
        });
    }

    /// The same until the faults are cleared.
    pub(crate) fn lasting(&self, fault: Fault, fits: impl Fn(&Asked) -> bool + Send + 'static) {
        self.rule(move |asked| fits(asked).then(|| fault.clone()));
    }

    /// Asks this about each request and each event of a stream.
    pub(crate) fn rule(&self, rule: impl FnMut(&Asked) -> Option<Fault> + Send + 'static) {
        self.change(|table| table.rules.push(Box::new(rule)));
    }

    /// The number of requests that a fault has sent once more, later.
    pub(crate) fn repeated(&self) -> u64 {
        self.shared.repeated.load(Ordering::Relaxed)
    }

    /// No more faults.
    pub(crate) fn clear(&self) {
        self.change(|table| table.rules.clear());
    }

    /// Shows this resource as it was at this version: lists, and watches, which go no further.
    pub(crate) fn show(&self, resource: &str, at: u64) {
        self.view(resource, |view| view.at = Some(at));
    }

    /// Shows this resource as it is now, whatever comes.
    pub(crate) async fn freeze(&self, resource: &str) {
        let at = self.version().await;
        self.show(resource, at);
    }

    /// The watches continue, with everything that was withheld.
    pub(crate) fn thaw(&self, resource: &str) {
        self.view(resource, |view| view.at = None);
    }

    /// Ends the past without events for the changes meanwhile: every watch is closed, and a list follows.
    pub(crate) fn relist(&self, resource: &str) {
        let next = self.shared.watches.fetch_add(1, Ordering::Relaxed) + 1;
        self.view(resource, |view| {
            view.at = None;
            view.relist = next;
        });
    }

    /// Silences the present watches, as over a connection that a router has forgotten.
    pub(crate) fn mute(&self, resource: &str) {
        let next = self.shared.watches.fetch_add(1, Ordering::Relaxed) + 1;
        self.view(resource, |view| view.mute = next);
    }

    /// Events of this object are lost from now on.
    pub(crate) fn withhold(&self, resource: &str, name: &str) {
        self.view(resource, |view| view.withheld.push(name.to_owned()));
    }

    /// Every event comes so many times more.
    pub(crate) fn double(&self, resource: &str, more: usize) {
        self.view(resource, |view| view.doubled = more);
    }

    fn view(&self, resource: &str, f: impl FnOnce(&mut View)) {
        self.change(|table| f(table.views.entry(resource.to_owned()).or_default()));
    }

    fn change(&self, f: impl FnOnce(&mut Table)) {
        f(&mut self.shared.table.lock().unwrap());
        self.shared.changed.send_replace(());
    }

    /// The API server's newest version.
    pub(crate) async fn version(&self) -> u64 {
        let Upstream::ApiServer { client, .. } = &self.shared.upstream else {
            panic!("the service has no versions");
        };
        let request = Request::get("/api/v1/namespaces?limit=1");
        let request = request.body(Vec::new()).unwrap();
        let list: serde_json::Value = client.request(request).await.unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        version.parse().unwrap()
    }

    /// The requests that fit, until now.
    pub(crate) fn asked(&self, fits: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let table = self.shared.table.lock().unwrap();
        let fitting = table.asked.iter().filter(|asked| fits(asked));
        fitting.cloned().collect()
    }

    /// The number of requests of this kind until now.
    pub(crate) fn count(&self, verb: &str, resource: &str) -> usize {
        self.asked(|asked| asked.is(verb, resource)).len()
    }

    /// Waits until so many requests of this kind have come.
    pub(crate) async fn until(&self, verb: &str, resource: &str, times: usize) {
        eventually(&format!("{times} {verb} {resource}"), async || {
            let count = self.count(verb, resource);
            if count >= times { Ok(()) } else { Err(count) }
        })
        .await;
    }
}

impl Shared {
    fn view(&self, resource: &str) -> View {
        let table = self.table.lock().unwrap();
        table.views.get(resource).cloned().unwrap_or_default()
    }

    /// Records a request, and returns its place in the record and its fault.
    fn begin(&self, asked: Asked) -> (usize, Option<Fault>) {
        let mut table = self.table.lock().unwrap();
        let fault = table.rules.iter_mut().find_map(|rule| rule(&asked));
        table.asked.push(asked);
        (table.asked.len() - 1, fault)
    }

    fn answered(&self, number: usize, answer: &io::Result<Response<Body>>) {
        let status = answer.as_ref().map(|answer| answer.status().as_u16());
        self.table.lock().unwrap().asked[number].status = status.ok();
    }
}

/// A request whose body has arrived.
struct Whole {
    asked: Asked,
    parts: Parts,
    body: Bytes,
}

async fn serve(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let in_pages = matches!(shared.upstream, Upstream::ApiServer { in_pages: true, .. });
    if in_pages && streams_a_list(&request.uri().to_string()) {
        return Ok(refusal(422, None));
    }
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(Body::new(body), usize::MAX).await;
    let body = body.map_err(io::Error::other)?;
    let asked = Asked::of(&parts, &body);
    let request = Arc::new(Whole { asked, parts, body });
    // In a task of its own: it isn't given up where its sender has ended.
    let done = tokio::spawn(exchange(shared, request)).await;
    done.map_err(io::Error::other)?
}

async fn exchange(shared: Arc<Shared>, request: Arc<Whole>) -> io::Result<Response<Body>> {
    let (number, fault) = shared.begin(request.asked.clone());
    let pass = async || {
        let answer = forward(&shared, &request).await;
        shared.answered(number, &answer);
        answer
    };
    let own = match fault {
        None => return pass().await,
        Some(Fault::Answer(status, retry_after)) => refusal(status, retry_after),
        Some(Fault::Gone) => Response::new(Body::from(GONE)),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::LoseRequest(hook)) => {
            hook.run().await;
            return Err(cut());
        }
        Some(Fault::LoseAnswer(hook)) => {
            drop(pass().await);
            hook.run().await;
            return Err(cut());
        }
        Some(Fault::Double) => {
            drop(pass().await);
            return pass().await;
        }
        Some(Fault::DoubleLate(hook)) => {
            let answer = pass().await;
            repeat(shared, request, hook);
            return answer;
        }
        Some(Fault::Again(after)) => {
            let hook = Hook::new(move || tokio::time::sleep(after));
            repeat(Arc::clone(&shared), Arc::clone(&request), hook);
            return pass().await;
        }
        Some(Fault::Delay(hook)) => {
            hook.run().await;
            return pass().await;
        }
        Some(Fault::Cut) => return Ok(half(pass().await?, Rest::Cut).await),
        Some(Fault::Half) => return Ok(half(pass().await?, Rest::Silence).await),
        Some(Fault::Truncate) => return Ok(half(pass().await?, Rest::Nothing).await),
    };
    let own = Ok(own);
    shared.answered(number, &own);
    own
}

/// Sends it once more after the hook; nobody reads the answer.
fn repeat(shared: Arc<Shared>, request: Arc<Whole>, hook: Hook) {
    tokio::spawn(async move {
        hook.run().await;
        drop(forward(&shared, &request).await);
        shared.repeated.fetch_add(1, Ordering::Relaxed);
    });
}

/// The other side's own answer, or its own of an earlier time.
async fn forward(shared: &Arc<Shared>, request: &Whole) -> io::Result<Response<Body>> {
    match &shared.upstream {
        Upstream::ApiServer { client, .. } => ask_api_server(shared, client, request).await,
        Upstream::Service { client, address } => {
            ask_service(shared, client, address, request).await
        }
    }
}

async fn ask_service(
    shared: &Arc<Shared>,
    client: &Client<HttpConnector, Body>,
    address: &str,
    Whole { parts, body, .. }: &Whole,
) -> io::Result<Response<Body>> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Body::from(body.clone()));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = format!("http://{address}{path}").parse().unwrap();
    *request.headers_mut() = parts.headers.clone();
    for name in [header::HOST, header::CONNECTION] {
        request.headers_mut().remove(name);
    }
    let answer = client.request(request).await.map_err(io::Error::other)?;
    let (mut parts, body) = answer.into_parts();
    for name in [header::TRANSFER_ENCODING, header::CONNECTION] {
        parts.headers.remove(name);
    }
    let mut body = Body::new(body);
    if is_event_stream(&parts.headers) {
        body = events::watched(Arc::clone(shared), body.into_data_stream());
    }
    Ok(Response::from_parts(parts, body))
}

async fn ask_api_server(
    shared: &Arc<Shared>,
    client: &kube::Client,
    Whole { asked, parts, body }: &Whole,
) -> io::Result<Response<Body>> {
    // A watch sees what changed between its beginning and its first look.
    let number = shared.watches.fetch_add(1, Ordering::Relaxed) + 1;
    let at = shared.view(&asked.resource).at.filter(|_| asked.fills());
    let uri = at.map_or_else(|| parts.uri.clone(), |at| as_of(&parts.uri, at));
    let mut request = Request::builder().method(parts.method.clone()).uri(uri);
    for name in [header::CONTENT_TYPE, header::ACCEPT] {
        if let Some(value) = parts.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(kube::client::Body::from(body.to_vec()));
    let answer = client.send(request.unwrap()).await;
    let (mut parts, body) = answer.map_err(io::Error::other)?.into_parts();
    for name in [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
    ] {
        parts.headers.remove(name);
    }
    let body = Body::new(body);
    if asked.verb != "watch" || !parts.status.is_success() {
        return Ok(Response::from_parts(parts, body));
    }
    let watch = Watch {
        shared: Arc::clone(shared),
        resource: asked.resource.clone(),
        upstream: body.into_data_stream(),
        number,
        rest: Vec::new(),
        lines: std::collections::VecDeque::new(),
        over: false,
    };
    let events = stream::unfold(watch, |mut watch| async move {
        let bytes = watch.next().await?;
        Some((Ok::<_, io::Error>(bytes), watch))
    });
    Ok(Response::from_parts(parts, Body::from_stream(events)))
}

/// The same list at an earlier version, which the API server reads from etcd's history.
fn as_of(uri: &Uri, at: u64) -> Uri {
    let query = uri.query().unwrap_or_default();
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let others = pairs.filter(|(key, _)| !key.starts_with("resourceVersion"));
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(others);
    query.append_pair("resourceVersion", &at.to_string());
    query.append_pair("resourceVersionMatch", "Exact");
    format!("{}?{}", uri.path(), query.finish())
        .parse()
        .unwrap()
}
