//! Connections, each of which serves one request within a bounded time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Longest life of a connection after its handshake.
const CONNECTION: Duration = Duration::from_secs(10);
/// Bytes of a request's line and headers. A `ServiceAccount`'s token has 1 to 2 KiB. A body is not read.
const HEAD_BYTES: usize = 16 * 1024;
/// Pause after a connection could not be accepted, most likely for lack of file descriptors.
const AFTER_ERROR: Duration = Duration::from_millis(100);

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

/// Serves one connection with one request. A slow scraper keeps what `answer` holds for a bounded time.
pub(super) async fn one_request<S, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<Body>>,
{
    let service = service_fn(|request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
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
