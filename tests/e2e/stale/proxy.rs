//! A proxy between an operator or a command and the real API server: it shows the past, withholds, refuses and
//! hangs, by kind of request, and counts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, Response, StatusCode, Uri, header};
use futures::stream;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use kube::config::Kubeconfig;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::fault::{Fault, broken, half, refusal};
use super::request::Asked;
use super::view::{GONE, View, Watch};
use crate::support::eventually;
use test_cluster::{ControlPlane, Scratch};
use test_support::streams_a_list;

type Fits = Box<dyn Fn(&Asked) -> bool + Send>;

struct Rule {
    fits: Fits,
    fault: Fault,
    /// Number of requests that it still applies to; without end if none.
    left: Option<usize>,
}

#[derive(Default)]
struct Table {
    asked: Vec<Asked>,
    rules: Vec<Rule>,
    views: HashMap<String, View>,
}

pub(super) struct Shared {
    client: kube::Client,
    table: Mutex<Table>,
    /// Told when a view or a rule has changed.
    pub(super) changed: watch::Sender<()>,
    watches: AtomicU64,
}

/// A proxy on a port of its own. It ends when it is dropped.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    server: JoinHandle<()>,
    _scratch: Scratch,
}

impl Proxy {
    /// Starts a proxy for this control plane, which passes everything.
    pub(crate) async fn start(control_plane: &ControlPlane) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scratch = Scratch::new("stale").unwrap();
        let kubeconfig = scratch.path().join("kubeconfig");
        let mut config = Kubeconfig::read_from(control_plane.kubeconfig()).unwrap();
        for cluster in &mut config.clusters {
            let cluster = cluster.cluster.as_mut().unwrap();
            let address = listener.local_addr().unwrap();
            cluster.server = Some(format!("http://{address}"));
            cluster.certificate_authority = None;
            cluster.certificate_authority_data = None;
        }
        std::fs::write(&kubeconfig, serde_json::to_string(&config).unwrap()).unwrap();
        let shared = Arc::new(Shared {
            client: control_plane.client().await.unwrap(),
            table: Mutex::default(),
            changed: watch::Sender::new(()),
            watches: AtomicU64::new(0),
        });
        let app = Router::new()
            .fallback(serve)
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(app.clone());
                // Also to a client that begins with HTTP/2 unasked, it speaks only HTTP/1.1.
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self {
            shared,
            kubeconfig,
            server,
            _scratch: scratch,
        }
    }

    /// The kubeconfig that leads here.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Does this with the requests that fit, `times` times; the first rule that fits counts.
    pub(super) fn fault(
        &self,
        times: usize,
        fault: Fault,
        fits: impl Fn(&Asked) -> bool + Send + 'static,
    ) {
        self.rule(Some(times), fault, Box::new(fits));
    }

    /// The same until the faults are cleared.
    pub(super) fn lasting(&self, fault: Fault, fits: impl Fn(&Asked) -> bool + Send + 'static) {
        self.rule(None, fault, Box::new(fits));
    }

    fn rule(&self, left: Option<usize>, fault: Fault, fits: Fits) {
        self.change(|table| table.rules.push(Rule { fits, fault, left }));
    }

    /// No more faults.
    pub(super) fn clear(&self) {
        self.change(|table| table.rules.clear());
    }

    /// Shows this resource as it was at this version: lists, and watches, which go no further.
    pub(super) fn show(&self, resource: &str, at: u64) {
        self.view(resource, |view| view.at = Some(at));
    }

    /// Shows this resource as it is now, whatever comes.
    pub(super) async fn freeze(&self, resource: &str) {
        let at = self.version().await;
        self.show(resource, at);
    }

    /// The watches continue, with everything that was withheld.
    pub(super) fn thaw(&self, resource: &str) {
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
    pub(super) fn mute(&self, resource: &str) {
        let next = self.shared.watches.fetch_add(1, Ordering::Relaxed) + 1;
        self.view(resource, |view| view.mute = next);
    }

    /// Events of this object are lost from now on.
    pub(crate) fn withhold(&self, resource: &str, name: &str) {
        self.view(resource, |view| view.withheld.push(name.to_owned()));
    }

    /// Every event comes so many times more.
    pub(super) fn double(&self, resource: &str, more: usize) {
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
    pub(super) async fn version(&self) -> u64 {
        let request = axum::http::Request::get("/api/v1/namespaces?limit=1");
        let request = request.body(Vec::new()).unwrap();
        let list: serde_json::Value = self.shared.client.request(request).await.unwrap();
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
    pub(super) fn count(&self, verb: &str, resource: &str) -> usize {
        self.asked(|asked| asked.is(verb, resource)).len()
    }

    /// Waits until so many requests of this kind have come.
    pub(super) async fn until(&self, verb: &str, resource: &str, times: usize) {
        eventually(&format!("{times} {verb} {resource}"), async || {
            let count = self.count(verb, resource);
            if count >= times { Ok(()) } else { Err(count) }
        })
        .await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    pub(super) fn view(&self, resource: &str) -> View {
        let table = self.table.lock().unwrap();
        table.views.get(resource).cloned().unwrap_or_default()
    }

    /// Records a request, and returns its fault.
    fn begin(&self, asked: &Asked) -> (usize, Option<Fault>) {
        let mut table = self.table.lock().unwrap();
        table.asked.push(asked.clone());
        let number = table.asked.len() - 1;
        let mut live = table.rules.iter_mut().filter(|rule| rule.left != Some(0));
        let fault = live.find(|rule| (rule.fits)(asked)).map(|rule| {
            rule.left = rule.left.map(|left| left - 1);
            rule.fault.clone()
        });
        (number, fault)
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    // As an API server without streamed lists: what these tests do to a list, they do to its pages.
    if streams_a_list(&request.uri().to_string()) {
        return refusal(422, None);
    }
    let mut asked = Asked::of(&request);
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    asked.body = String::from_utf8_lossy(&body).into_owned();
    let request = (parts, body);
    let (number, fault) = shared.begin(&asked);
    let response = match fault {
        None => forward(&shared, &asked, request).await,
        Some(Fault::Answer(status, retry_after)) => refusal(status, retry_after),
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Lose) => {
            let done = forward(&shared, &asked, request).await;
            broken(done.status())
        }
        Some(Fault::Half) => half(forward(&shared, &asked, request).await).await,
        Some(Fault::Ends) => Response::new(Body::empty()),
        Some(Fault::Gone) => Response::new(Body::from(GONE)),
    };
    let status = response.status().as_u16();
    shared.table.lock().unwrap().asked[number].status = Some(status);
    response
}

/// The API server's own answer, or its own of an earlier time.
async fn forward(shared: &Arc<Shared>, asked: &Asked, request: (Parts, Bytes)) -> Response<Body> {
    // A watch sees what changed between its beginning and its first look.
    let number = shared.watches.fetch_add(1, Ordering::Relaxed) + 1;
    let (parts, body) = request;
    let at = shared.view(&asked.resource).at.filter(|_| asked.fills());
    let uri = at.map_or_else(|| parts.uri.clone(), |at| as_of(&parts.uri, at));
    let mut upstream = axum::http::Request::builder().method(parts.method).uri(uri);
    for name in [header::CONTENT_TYPE, header::ACCEPT] {
        if let Some(value) = parts.headers.get(&name) {
            upstream = upstream.header(name, value);
        }
    }
    let upstream = upstream.body(kube::client::Body::from(body.to_vec()));
    let Ok(answer) = shared.client.send(upstream.unwrap()).await else {
        return broken(StatusCode::BAD_GATEWAY);
    };
    let (mut parts, body) = answer.into_parts();
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, HOP] {
        parts.headers.remove(name);
    }
    let body = Body::new(body);
    if asked.verb != "watch" || !parts.status.is_success() {
        return Response::from_parts(parts, body);
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
        Some((Ok::<_, std::io::Error>(bytes), watch))
    });
    Response::from_parts(parts, Body::from_stream(events))
}

const HOP: HeaderName = header::CONNECTION;

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
