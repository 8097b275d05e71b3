//! The plain listener: probes, and the metrics unless they have a listener of their own.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;

use super::answer::{not_found, refused_method, text};
use super::connection::{accept, one_request};
use super::scrape::{ScrapePermit, Scrapes};

/// State that the connections share.
#[derive(Clone)]
struct Server {
    probe: Probe,
    metrics: Metrics,
}

/// The place of the metrics.
#[derive(Clone)]
enum Metrics {
    Here(Scrapes),
    /// At this port, over TLS.
    Moved(u16),
}

/// Serves until shutdown. `moved_to` is the port of the metrics, where it is another one. A probe is answered however
/// many connections are open.
pub(super) async fn serve(
    listener: std::net::TcpListener,
    probe: Probe,
    moved_to: Option<u16>,
    shutdown: CancellationToken,
) {
    let metrics = match moved_to {
        Some(port) => Metrics::Moved(port),
        None => Metrics::Here(Scrapes::new(probe.clone())),
    };
    let server = Server { probe, metrics };
    accept(listener, Semaphore::MAX_PERMITS, shutdown, |stream| {
        let server = server.clone();
        async move {
            let permit = ScrapePermit::default();
            let answer = |request| {
                let (server, permit) = (server.clone(), Arc::clone(&permit));
                async move { server.answer(&request, &permit).await }
            };
            one_request(stream, answer).await;
        }
    })
    .await;
}

impl Server {
    async fn answer(
        &self,
        request: &Request<Incoming>,
        scrape_permit: &ScrapePermit,
    ) -> Response<Body> {
        if let Some(refused) = refused_method(request) {
            return refused;
        }
        match (request.uri().path(), &self.metrics) {
            ("/healthz", _) => self.healthz().await,
            ("/readyz", _) => self.readyz(),
            ("/metrics", Metrics::Here(scrapes)) => {
                scrapes.serve(request.headers(), scrape_permit).await
            }
            ("/metrics", Metrics::Moved(port)) => moved(*port),
            _ => not_found(),
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
}

fn moved(port: u16) -> Response<Body> {
    let to = format!(
        "/metrics is served over TLS at port {port}, to those whose token has the permission to get it\n"
    );
    text(StatusCode::NOT_FOUND, to)
}
