//! `/healthz`, `/readyz` and `/metrics`, on threads of their own: many requests don't delay the controller's loops or the
//! Lease.
//!
//! With `--metrics-listen` the metrics move to a listener of their own, over TLS and only for scrapers that may get
//! them, on a second thread: handshakes delay no probe.

mod answer;
mod certificate;
mod connection;
mod plain;
mod reviews;
mod scrape;
mod secure;
mod thread;
mod verdicts;

use std::net::TcpListener;

use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;

pub(crate) use certificate::{CertificateError, CertificateFiles, Certificates};
pub(crate) use secure::SecureMetrics;

/// Serves until shutdown.
///
/// # Errors
/// A thread or its runtime could not be made.
pub(crate) fn start(
    listener: TcpListener,
    secure: Option<SecureMetrics>,
    probe: &Probe,
    shutdown: &CancellationToken,
) -> std::io::Result<()> {
    let moved_to = secure.as_ref().map(SecureMetrics::port);
    if let Some(secure) = secure {
        let (probe, shutdown) = (probe.clone(), shutdown.clone());
        thread::start("metrics", move || secure::serve(secure, probe, shutdown))?;
    }
    let (probe, shutdown) = (probe.clone(), shutdown.clone());
    thread::start("health", move || {
        plain::serve(listener, probe, moved_to, shutdown)
    })
}
