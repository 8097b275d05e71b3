//! `/healthz`, `/readyz` and `/metrics`, on threads of their own: many requests don't delay the controller. With
//! `--metrics-listen` the metrics move to a listener with TLS, on a second thread: handshakes delay no probe.

mod certificate;
mod secure;
mod server;

use std::net::TcpListener;

use tokio_util::sync::CancellationToken;

use run_operator::controller::Probe;

pub(crate) use certificate::Certificates;
pub(crate) use secure::SecureMetrics;

pub(crate) fn start(
    listener: TcpListener,
    secure: Option<SecureMetrics>,
    probe: &Probe,
    shutdown: &CancellationToken,
) -> std::io::Result<()> {
    let moved_to = secure.as_ref().map(SecureMetrics::port);
    if let Some(secure) = secure {
        let served = secure.serve(probe.clone(), shutdown.clone());
        thread("metrics", served)?;
    }
    let served = server::serve(listener, probe.clone(), moved_to, shutdown.clone());
    thread("health", served)
}

fn thread(name: &str, served: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || runtime.block_on(served)).map(drop)
}
