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
mod random;
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
use crate::cli::{Args, Start};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to read the command line: {0}")]
    ReadArguments(String),
    #[error("failed to read --log: {0}")]
    ReadLogFilter(#[from] tracing_subscriber::filter::ParseError),
    #[error("failed to listen on {address}: {source}")]
    Listen {
        address: std::net::SocketAddr,
        source: io::Error,
    },
    #[error("failed to announce the address: {0}")]
    Announce(#[source] io::Error),
    #[error("failed to watch for signals: {0}")]
    WatchSignals(#[source] io::Error),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reference-service: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<(), Error> {
    let Start {
        listen,
        port_file,
        log,
        tls,
        settings,
    } = args.check().map_err(Error::ReadArguments)?;
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(log)?)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .init();
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::WatchSignals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::WatchSignals)?;
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|source| Error::Listen {
            address: listen,
            source,
        })?;
    let address = listener.local_addr().map_err(Error::Announce)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    if settings.tokens.is_empty() {
        eprintln!(
            "reference-service: no --token given: everything but /version is answered with 401 \
             until POST {scheme}://{address}/_control/tokens adds one"
        );
    }
    announce(scheme, address, port_file.as_deref()).map_err(Error::Announce)?;
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
