//! The plain listener, and what both share: a bounded time for each connection, a bounded number of scrapes.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;

/// Longest life of a connection after its handshake.
const CONNECTION: Duration = Duration::from_secs(10);
/// Bytes of a request's line and headers. A `ServiceAccount`'s token has 1 to 2 KiB. A body is not read.
const HEAD_BYTES: usize = 16 * 1024;
/// Pause after a connection could not be accepted, most likely for lack of file descriptors.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// Connections served `/metrics` at the same time.
const SCRAPES: usize = 8;
const SCRAPE_WAIT: Duration = Duration::from_secs(1);
/// `Retry-After` of a 503 about a scrape, in seconds.
const TRY_AGAIN: &str = "1";
const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) type Answer = Response<Full<Bytes>>;
/// A scrape's permit, kept to the end of its connection.
pub(super) type ScrapePermit<'a> = OnceLock<SemaphorePermit<'a>>;

/// Serves the plain listener until shutdown. A probe is answered however many connections are open.
pub(super) async fn serve(
    listener: std::net::TcpListener,
    probe: Probe,
    moved_to: Option<u16>,
    shutdown: CancellationToken,
) {
    let scrapes = Arc::new(Scrapes::new(probe));
    accept(listener, Semaphore::MAX_PERMITS, shutdown, |stream| {
        let scrapes = Arc::clone(&scrapes);
        async move {
            let permit = ScrapePermit::new();
            one_request(stream, |request| scrapes.answer(request, moved_to, &permit)).await;
        }
    })
    .await;
}

pub(super) struct Scrapes {
    probe: Probe,
    permits: Semaphore,
}

impl Scrapes {
    pub(super) fn new(probe: Probe) -> Self {
        let permits = Semaphore::new(SCRAPES);
        Self { probe, permits }
    }

    async fn answer<'a>(
        &'a self,
        request: Request<Incoming>,
        moved_to: Option<u16>,
        permit: &ScrapePermit<'a>,
    ) -> Answer {
        match (request.uri().path(), moved_to) {
            ("/healthz", _) if self.probe.alive().await => text(StatusCode::OK, "ok\n"),
            ("/healthz", _) => unavailable("the controller has ended\n"),
            ("/readyz", _) if self.probe.ready() => text(StatusCode::OK, "ok\n"),
            ("/readyz", _) => unavailable("the caches are not in sync yet\n"),
            ("/metrics", None) => self.serve(permit).await,
            ("/metrics", Some(port)) => {
                let to = format!(
                    "/metrics is served over TLS at port {port}, to those whose token has the permission to get it\n"
                );
                text(StatusCode::NOT_FOUND, to)
            }
            _ => text(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    /// The metrics. The permit must outlive the writing of the answer.
    pub(super) async fn serve<'a>(&'a self, permit: &ScrapePermit<'a>) -> Answer {
        let Ok(Ok(free)) = timeout(SCRAPE_WAIT, self.permits.acquire()).await else {
            return try_again("too many scrapes\n");
        };
        // One request per connection: no permit is set yet.
        let _ = permit.set(free);
        match self.probe.metrics() {
            Ok(rendered) => answer(StatusCode::OK, OPEN_METRICS, rendered),
            Err(error) => {
                tracing::error!(error = %error, "failed to render the metrics");
                text(StatusCode::INTERNAL_SERVER_ERROR, "failed to render\n")
            }
        }
    }
}

/// Accepts connections until shutdown, at most `limit` at the same time; further ones wait in the kernel's queue.
pub(super) async fn accept<F>(
    listener: std::net::TcpListener,
    limit: usize,
    shutdown: CancellationToken,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(error = %error, "failed to serve probes or metrics");
            return;
        }
    };
    let connections = Arc::new(Semaphore::new(limit));
    loop {
        let next = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let served = serve(stream);
                tokio::spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(error = %error, "failed to accept a connection");
                sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Serves one connection with one request. A slow scraper keeps its permit for a bounded time.
pub(super) async fn one_request<S, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Answer>,
{
    let service = service_fn(|request: Request<Incoming>| {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let answered = answer(request);
        async move {
            Ok::<_, Infallible>(if is_read {
                answered.await
            } else {
                text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n")
            })
        }
    });
    let exchange = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if !matches!(timeout(CONNECTION, exchange).await, Ok(Ok(()))) {
        tracing::trace!("a connection to the health server ended early");
    }
}

pub(super) fn try_again(body: &'static str) -> Answer {
    let mut busy = unavailable(body);
    let again = HeaderValue::from_static(TRY_AGAIN);
    busy.headers_mut().insert(RETRY_AFTER, again);
    busy
}

fn unavailable(body: &'static str) -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, body)
}

pub(super) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, PLAIN, body.into())
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
