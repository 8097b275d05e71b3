//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tokio_rustls::TlsAcceptor;

use crate::access::is_legal_token;
use crate::app::Settings;
use crate::plan::{Millis, Pacing};
use crate::record::Record;
use crate::tls;

const AFTER_HELP: &str = "\
Durations are written 250ms, 30s, 5m or 24h; a bare number is milliseconds.

Example:
  reference-service --token dev --run-time 3s
  curl -H 'Authorization: Bearer dev' http://127.0.0.1:8090/api/v1/workspaces/current

What it does where the API's description is silent, how a workload steers its run
(workload.simulate) and how to ask for faults (/_control) is written in
tests/reference-service/README.md.";

/// A Run Orchestration Service to develop and test against: the whole API, in memory, on loopback,
/// with faults on request.
#[derive(Debug, Parser)]
#[command(name = "reference-service", version, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8090", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Accept an address for --listen that other machines can reach
    #[arg(long)]
    allow_remote: bool,
    /// Write the port to this file once the service listens
    #[arg(long, value_name = "FILE")]
    pub(crate) port_file: Option<PathBuf>,
    /// Serve TLS with this certificate, PEM, the issuers after it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Requests that may be open on one connection of HTTP/2
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    http2_streams: u32,
    /// Version that GET /version answers
    #[arg(long, default_value = "1.0.0")]
    api_version: String,
    /// An access token that is accepted; repeatable
    #[arg(long, env = "REFERENCE_SERVICE_TOKEN", hide_env_values = true, value_delimiter = ',', value_parser = token)]
    token: Vec<String>,
    /// Time that a run is queued
    #[arg(long, default_value = "500ms", value_name = "DURATION", value_parser = duration)]
    queue_time: Millis,
    /// Time that a run is provisioning
    #[arg(long, default_value = "500ms", value_name = "DURATION", value_parser = duration)]
    provision_time: Millis,
    /// Time that a run is running
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = duration)]
    run_time: Millis,
    /// Time that a run is cancelling
    #[arg(long, default_value = "300ms", value_name = "DURATION", value_parser = duration)]
    cancel_time: Millis,
    /// Silence of an event stream after which a comment is sent
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = duration)]
    heartbeat: Millis,
    /// Append every request of the API to this file, a line of JSON each, tokens as fingerprints
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Level of the log on stderr: error, warn, info, debug or trace, or a filter such as hyper=debug
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    pub(crate) log: String,
}

impl Args {
    /// What the service needs, and TLS, if it is served.
    pub(crate) fn check(&self) -> Result<(Settings, Option<TlsAcceptor>), String> {
        let Self { listen, record, .. } = self;
        if !self.allow_remote && !listen.ip().is_loopback() {
            return Err(format!(
                "--listen {listen}: other machines could reach it; give a loopback address, or --allow-remote"
            ));
        }
        if self.heartbeat == 0 {
            return Err("--heartbeat must be 1 ms at least".to_owned());
        }
        let record = record.as_deref().map(Record::open).transpose();
        let record = record.map_err(|error| format!("--record: {error}"))?;
        let tls = self.tls_cert.as_deref().zip(self.tls_key.as_deref());
        let tls = tls.map(|(certificate, key)| tls::acceptor(certificate, key));
        let tls = tls.transpose();
        let tls = tls.map_err(|error| format!("--tls-cert, --tls-key: {error}"))?;
        let settings = Settings {
            api_version: self.api_version.clone(),
            tokens: self.token.clone(),
            pacing: Pacing {
                queue: self.queue_time,
                provision: self.provision_time,
                run: self.run_time,
                cancel: self.cancel_time,
            },
            http2_streams: self.http2_streams,
            heartbeat: Duration::from_millis(self.heartbeat),
            record,
        };
        Ok((settings, tls))
    }
}

fn token(text: &str) -> Result<String, String> {
    if is_legal_token(text) {
        Ok(text.to_owned())
    } else {
        Err("a token is letters, digits and -._~+/=".to_owned())
    }
}

fn duration(text: &str) -> Result<Millis, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        unit => return Err(format!("unknown unit {unit:?}; use ms, s, m or h")),
    };
    let number: u32 = digits
        .parse()
        .map_err(|_| "a duration is a number and a unit, such as 30s".to_owned())?;
    Ok(Millis::from(number) * factor)
}
