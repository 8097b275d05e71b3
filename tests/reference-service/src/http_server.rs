//! Connections and requests: reads them, notes them, and answers or cuts.
//!
//! Connections are served by hyper itself: a service that fails closes its connection with no byte
//! of an answer, which is what a lost answer needs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::Request;
use http::request::Parts;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::access::{Access, digest, fingerprint};
use crate::api::Call;
use crate::app::{App, OpenGuard};
use crate::checks;
use crate::control;
use crate::effects::{self, Outcome};
use crate::faults::Match;
use crate::ledger::Entry;
use crate::problem::Problem;
use crate::route::{Operation, Route};
use crate::run::{Run, timestamp};

/// The largest body of a request: more than an object of Kubernetes has.
const MAX_BODY: usize = 2 << 20;
/// Read beyond the limit and thrown away, so that the client gets to see its 413.
const DRAINED: usize = 16 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("the connection was cut on request")]
struct CutOnRequest;

/// Accepts connections. Never returns.
pub(crate) async fn serve(app: Arc<App>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let timers = app.clone();
    tokio::spawn(async move { timers.run_timers().await });
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                tokio::spawn(accepted(app.clone(), stream, peer, tls.clone()));
            }
            Err(error) => {
                tracing::warn!(error = %error, "accepting a connection failed");
                // Out of file descriptors, most likely: without a pause this loop would spin.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn accepted(app: Arc<App>, stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>) {
    let _open = OpenGuard::new(&app.gauges.open_connections);
    // Small events must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = %error, "setting TCP_NODELAY failed");
    }
    match tls {
        None => connection(&app, stream, peer).await,
        Some(tls) => match tls.accept(stream).await {
            Ok(stream) => connection(&app, stream, peer).await,
            Err(error) => tracing::debug!(error = %error, "a TLS handshake failed"),
        },
    }
}

/// Serves HTTP/1.1 or HTTP/2, by the connection's first bytes: a client without TLS has to know which one it wants.
async fn connection(
    app: &Arc<App>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
) {
    let http2_streams = app.settings.http2_streams;
    let service = service_fn(|request| {
        // A task of its own: the effect of a request also takes place when its client has disconnected.
        let work = tokio::spawn(handle(app.clone(), peer, request));
        async move {
            match work.await {
                Ok(Outcome::Answer(response)) => Ok(response),
                Ok(Outcome::Cut) | Err(_) => Err(CutOnRequest),
            }
        }
    });
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new());
    server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(http2_streams);
    let ended = server.serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection ended early");
    }
}

async fn handle(app: Arc<App>, peer: SocketAddr, request: Request<Incoming>) -> Outcome {
    let (parts, body) = request.into_parts();
    let body = read(Body::new(body)).await;
    if control::owns(parts.uri.path()) {
        return Outcome::Answer(control::handle(&app, peer, &parts, body));
    }
    let _in_flight = app.gauges.request();
    let began = app.now();
    let call = Call {
        request_id: app.with(|inner, _| inner.request_id()),
        route: Route::of(&parts.method, parts.uri.path()),
        query: parts.uri.query().map(str::to_owned),
        headers: parts.headers.clone(),
        body,
    };
    let (number, fault) = app.with(|inner, now| {
        let entry = entry(&inner.access, &parts, &call, timestamp(now));
        let run = call.run_id().and_then(|id| inner.table.get(id));
        let properties = properties(&call, run);
        if let Some(record) = &app.settings.record {
            record.keep(&inner.access, &entry, call.body.as_deref().ok());
        }
        (inner.ledger.open(entry), inner.faults.pick(&properties))
    });
    let fault_id = fault.as_ref().map(|(id, _)| *id);
    let outcome = match fault {
        None => effects::plain(&app, &call),
        Some((_, action)) => effects::spoilt(&app, &call, action).await,
    };
    let status = match &outcome {
        Outcome::Answer(response) => Some(response.status().as_u16()),
        Outcome::Cut => None,
    };
    let operation = call.operation();
    app.with(|inner, now| {
        inner
            .ledger
            .close(number, operation, status, fault_id, now - began);
    });
    log(&call, status, fault_id);
    outcome
}

fn log(call: &Call, status: Option<u16>, fault: Option<u64>) {
    tracing::info!(
        operation = ?call.operation(),
        run.id = call.run_id(),
        request.id = call.request_id,
        status,
        fault,
        "request"
    );
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    let mut stream = body.into_data_stream();
    let mut kept = BytesMut::new();
    let mut length = 0;
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| {
            Problem::bad_request(
                "body_incomplete",
                "The request body ended before it was whole",
            )
        })?;
        length += piece.len();
        if length <= MAX_BODY {
            kept.extend_from_slice(&piece);
        } else if length > MAX_BODY + DRAINED {
            break;
        }
    }
    if length > MAX_BODY {
        return Err(Problem::body_too_large(MAX_BODY));
    }
    Ok(kept.freeze())
}

/// The log's entry for a request; tokens are replaced in every part (rule 7).
fn entry(access: &Access, parts: &Parts, call: &Call, at: String) -> Entry {
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &parts.headers {
        let value = access.redact(&String::from_utf8_lossy(value.as_bytes()));
        let kept = headers.entry(name.as_str().to_owned()).or_default();
        if !kept.is_empty() {
            kept.push_str(", ");
        }
        kept.push_str(&value);
    }
    let token = checks::bearer(&parts.headers).ok().map(fingerprint);
    if let Some(value) = headers.get_mut("authorization") {
        // Also a token that is not known here may be somebody's.
        *value = token.as_ref().map_or_else(
            || "(not a Bearer token)".to_owned(),
            |token| format!("Bearer {token}"),
        );
    }
    let target = parts
        .uri
        .path_and_query()
        .map_or_else(|| parts.uri.path(), |target| target.as_str());
    Entry {
        number: 0,
        at,
        request_id: call.request_id.clone(),
        operation: call.operation(),
        method: parts.method.to_string(),
        path: access.redact(target),
        run_id: call.run_id().map(str::to_owned),
        idempotency_key: header(checks::IDEMPOTENCY_KEY),
        last_event_id: header(checks::LAST_EVENT_ID),
        token,
        headers,
        body_sha256: call.body.as_ref().ok().map(|body| digest(body)),
        status: None,
        cut: false,
        fault: None,
        millis: None,
    }
}

/// The properties that faults match; for a run's other requests, the image of its create.
fn properties(call: &Call, run: Option<&Run>) -> Match {
    let created = || {
        let body = call.body.as_ref().ok()?;
        serde_json::from_slice::<Value>(body).ok()
    };
    let body = match call.operation() {
        Operation::CreateRun => created(),
        _ => run.map(|run| run.body.clone()),
    };
    let image = body.and_then(|body| Some(body["workload"]["image"].as_str()?.to_owned()));
    Match {
        operation: Some(call.operation()),
        run_id: call.run_id().map(str::to_owned),
        image,
    }
}
