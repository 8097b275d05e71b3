//! `/healthz`, `/readyz` and `/metrics`, on a thread of their own: many requests don't delay the controller's loops or
//! the Lease.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use run_operator::controller::{Probe, metrics::Format};

/// Connections served `/metrics` at the same time.
const SCRAPES: usize = 8;
/// Wait of a further scrape before it is answered 503.
const SCRAPE_WAIT: Duration = Duration::from_secs(1);
/// `Retry-After` of that answer, in seconds.
const TRY_AGAIN: &str = "1";
/// Longest life of a connection, which serves one request.
const CONNECTION: Duration = Duration::from_secs(10);
/// Pause after a connection could not be accepted, most likely for lack of file descriptors.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// Content type of every answer but the metrics.
const PLAIN: &str = "text/plain; charset=utf-8";

/// State that the connections share.
#[derive(Clone)]
struct Server {
    probe: Probe,
    scrapes: Arc<Semaphore>,
}

/// Scrape permit, kept to the end of the connection.
type ScrapePermit = Arc<OnceLock<OwnedSemaphorePermit>>;

/// Serves until shutdown, on a thread of its own.
///
/// # Errors
/// The thread or its runtime could not be made.
pub(crate) fn start(
    listener: std::net::TcpListener,
    probe: Probe,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let serve = move || {
        runtime.block_on(async {
            match TcpListener::from_std(listener) {
                Ok(listener) => accept(listener, probe, shutdown).await,
                Err(error) => tracing::error!(error = %error, "failed to serve /healthz"),
            }
        });
    };
    std::thread::Builder::new()
        .name("health".to_owned())
        .spawn(serve)
        .map(drop)
}

async fn accept(listener: TcpListener, probe: Probe, shutdown: CancellationToken) {
    let server = Server {
        probe,
        scrapes: Arc::new(Semaphore::new(SCRAPES)),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => drop(tokio::spawn(connection(server.clone(), stream))),
            Err(error) => {
                tracing::debug!(error = %error, "failed to accept a connection");
                sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Serves one connection with one request. A slow scraper keeps its permit for a bounded time.
async fn connection(server: Server, stream: TcpStream) {
    let scrape_permit = ScrapePermit::default();
    let service = service_fn(|request| {
        let (server, scrape_permit) = (server.clone(), Arc::clone(&scrape_permit));
        async move { Ok::<_, Infallible>(server.answer(&request, &scrape_permit).await) }
    });
    let exchange = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if !matches!(timeout(CONNECTION, exchange).await, Ok(Ok(()))) {
        tracing::trace!("a connection to the health server ended early");
    }
}

impl Server {
    async fn answer(
        &self,
        request: &Request<Incoming>,
        scrape_permit: &ScrapePermit,
    ) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        match request.uri().path() {
            "/healthz" => self.healthz().await,
            "/readyz" => self.readyz(),
            "/metrics" => self.metrics(request.headers(), scrape_permit).await,
            _ => text(StatusCode::NOT_FOUND, "not found\n"),
        }
    }

    async fn healthz(&self) -> Response<Body> {
        if self.probe.alive().await {
            text(StatusCode::OK, "ok\n")
        } else {
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the controller has ended\n",
            )
        }
    }

    fn readyz(&self) -> Response<Body> {
        if self.probe.ready() {
            text(StatusCode::OK, "ok\n")
        } else {
            let not_yet = "the caches are not in sync yet\n";
            text(StatusCode::SERVICE_UNAVAILABLE, not_yet)
        }
    }

    async fn metrics(&self, headers: &HeaderMap, scrape_permit: &ScrapePermit) -> Response<Body> {
        let free = timeout(SCRAPE_WAIT, Arc::clone(&self.scrapes).acquire_owned()).await;
        let Ok(Ok(permit)) = free else {
            let mut busy = text(StatusCode::SERVICE_UNAVAILABLE, "too many scrapes\n");
            let again = http::HeaderValue::from_static(TRY_AGAIN);
            busy.headers_mut().insert(RETRY_AFTER, again);
            return busy;
        };
        // One request per connection: no permit is set yet.
        let _ = scrape_permit.set(permit);
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let format = Format::asked_for(accept);
        match self.probe.metrics(format) {
            Ok(rendered) => answer(StatusCode::OK, format.content_type(), rendered.into()),
            Err(error) => {
                tracing::error!(error = %error, "failed to render the metrics");
                text(StatusCode::INTERNAL_SERVER_ERROR, "failed to render\n")
            }
        }
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Body> {
    answer(status, PLAIN, body.into())
}

fn answer(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
