//! `/healthz`, `/readyz` and `/metrics`.

use axum::{
    Router,
    extract::State,
    http::header::{ACCEPT, CONTENT_TYPE},
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use run_operator::controller::{Probe, metrics::Format};

/// Serves until shutdown.
pub(crate) async fn serve(
    listener: TcpListener,
    probe: Probe,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(probe);
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
}

async fn readyz(State(probe): State<Probe>) -> (StatusCode, &'static str) {
    if probe.ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the caches are not in sync yet\n",
        )
    }
}

async fn metrics(State(probe): State<Probe>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::asked_for(accept);
    match probe.metrics(format) {
        Ok(text) => ([(CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
