//! A Run Orchestration Service to develop and test against.
//!
//! Rules first, without HTTP: [`plan`] and [`run`] (what a run does), [`table`] (idempotency and
//! scope), [`access`], [`checks`], [`route`]. Around them [`api`] (the six operations), [`sse`],
//! [`effects`] and [`http_server`]. Beside them [`faults`] with [`stream_script`], [`ledger`],
//! [`record`] and [`control`].

mod access;
mod api;
mod app;
mod checks;
mod cli;
mod control;
mod effects;
mod faults;
mod http_server;
mod ledger;
mod plan;
mod problem;
mod record;
mod route;
mod run;
mod sse;
mod stream_script;
mod table;
mod tls;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::app::App;
use crate::cli::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reference-service: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<(), String> {
    let (settings, tls) = args.check()?;
    let filter = EnvFilter::try_new(&args.log).map_err(|error| format!("--log: {error}"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    let watch = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
    let mut terminate = watch(SignalKind::terminate())?;
    let mut interrupt = watch(SignalKind::interrupt())?;
    let failed = |error| format!("--listen {}: {error}", args.listen);
    let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    if settings.tokens.is_empty() {
        eprintln!(
            "reference-service: no --token given: everything but /version is answered with 401 \
             until POST {scheme}://{address}/_control/tokens adds one"
        );
    }
    let announced = announce(scheme, address, args.port_file.as_deref());
    announced.map_err(|error| format!("failed to announce the address: {error}"))?;
    // Requests that wait for an answer or an event get none: a service that ends does the same.
    tokio::select! {
        () = http_server::serve(App::new(settings), listener, tls) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Says where the service listens, once it does.
fn announce(
    scheme: &str,
    address: std::net::SocketAddr,
    port_file: Option<&Path>,
) -> io::Result<()> {
    if let Some(path) = port_file {
        // Renamed into place, so that who waits for the file never reads half of it.
        let unfinished = path.with_extension("unfinished");
        std::fs::write(&unfinished, format!("{}\n", address.port()))?;
        std::fs::rename(&unfinished, path)?;
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening on {scheme}://{address}{}", route::BASE)?;
    stdout.flush()
}
