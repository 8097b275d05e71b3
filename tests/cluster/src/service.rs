//! The reference service as a process, and its control API (`tests/reference-service/README.md`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::Value;

use test_support::openapi::Record;

use super::error::Error;
use super::process::{Output, POLL, Process};

/// Time for the service to start, and to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Errors of the reference service.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Start(#[from] Error),
    #[error("failed to trust the reference service's certificate")]
    Trust(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("failed to reach the reference service's control API at {path}")]
    Reach {
        path: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("failed to steer the reference service by {path}: {answer}")]
    Steer { path: String, answer: String },
}

/// A service to start.
#[derive(Clone, Copy)]
pub struct Recipe<'a> {
    pub program: &'a Path,
    /// Where its port, its log and its requests are written.
    pub folder: &'a Path,
    /// The token that it accepts.
    pub token: &'a str,
    /// Whether every request is kept, to be compared with the API's document.
    pub record: bool,
    /// If set, it serves TLS, and so HTTP/2.
    pub tls: Option<Tls<'a>>,
}

/// The files of a certificate for 127.0.0.1, PEM.
#[derive(Clone, Copy)]
pub struct Tls<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
    /// The authority that issued it.
    pub ca: &'a Path,
}

/// A running reference service; ends when this is dropped.
pub struct ReferenceService {
    process: Process,
    record: Option<PathBuf>,
    origin: String,
    http: reqwest::Client,
}

impl ReferenceService {
    /// Starts one on a free port, unless `args` have another `--listen`.
    pub async fn start(recipe: Recipe<'_>, args: &[&str]) -> Result<Self, ServiceError> {
        let folder = recipe.folder;
        let record = recipe.record.then(|| folder.join("service.requests"));
        let port_file = folder.join("service.port");
        // Of the service's earlier life.
        let _ = std::fs::remove_file(&port_file);
        let mut command = Command::new(recipe.program);
        // Not as an argument: those can be read by every user of the machine.
        command.env("REFERENCE_SERVICE_TOKEN", recipe.token);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.arg("--port-file").arg(&port_file).args(args);
        if let Some(record) = &record {
            command.arg("--record").arg(record);
        }
        if let Some(tls) = recipe.tls {
            command.arg("--tls-cert").arg(tls.certificate);
            command.arg("--tls-key").arg(tls.key);
        }
        let log = Output::File(folder.join("service.log"));
        let mut process = Process::spawn(&command, log)?;
        let port = port(&port_file, &mut process).await?;
        let scheme = recipe.tls.map_or("http", |_| "https");
        Ok(Self {
            process,
            record,
            origin: format!("{scheme}://127.0.0.1:{port}"),
            http: client(recipe.tls).map_err(ServiceError::Trust)?,
        })
    }

    /// To signal it, or to read its log.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Kills it: every connection is cut, and every run is forgotten. [`ReferenceService::start`] with `--listen` and
    /// [`ReferenceService::address`] starts it again.
    pub fn kill(&mut self) {
        self.process.kill9();
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.origin.rsplit('/').next().unwrap_or_default()
    }

    /// The base URL for a client.
    pub fn base_url(&self) -> String {
        format!("{}/api/v1", self.origin)
    }

    /// URL of the control API.
    pub fn control(&self) -> String {
        format!("{}/_control", self.origin)
    }

    /// Every request until now, held to the API's document; none if they are not kept.
    pub fn record(&self) -> Record {
        self.record.as_deref().map(Record::read).unwrap_or_default()
    }

    /// Reads from the control API.
    pub async fn read(&self, path: &str) -> Result<Value, ServiceError> {
        self.send(Method::GET, path, Value::Null).await
    }

    /// Posts to the control API.
    pub async fn steer(&self, path: &str, body: Value) -> Result<Value, ServiceError> {
        self.send(Method::POST, path, body).await
    }

    /// Asks the control API.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Value,
    ) -> Result<Value, ServiceError> {
        // A path may name a token.
        let name = path.split('/').next().unwrap_or_default();
        let reach = |source: reqwest::Error| ServiceError::Reach {
            path: name.to_owned(),
            source: source.without_url(),
        };
        let request = self
            .http
            .request(method, format!("{}/{path}", self.control()));
        let request = match body {
            Value::Null => request,
            body => request.body(body.to_string()),
        };
        let answer = request.timeout(PATIENCE).send().await.map_err(reach)?;
        let status = answer.status();
        let text = answer.text().await.map_err(reach)?;
        match serde_json::from_str(&text) {
            Ok(value) if status.is_success() => Ok(value),
            Err(_) if status.is_success() && text.is_empty() => Ok(Value::Null),
            _ => Err(ServiceError::Steer {
                path: name.to_owned(),
                answer: format!("{status} {text}"),
            }),
        }
    }
}

/// The port that it has written, once it listens.
async fn port(port_file: &Path, process: &mut Process) -> Result<u16, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let over = process.exit_code().is_some() || Instant::now() >= deadline;
        let text = std::fs::read_to_string(port_file).unwrap_or_default();
        if let Ok(port) = text.trim().parse() {
            return Ok(port);
        }
        if over {
            return Err(Error::NotReady {
                program: "reference-service",
                after: PATIENCE,
                log: process.log_tail(),
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// A client that trusts the service.
fn client(
    tls: Option<Tls<'_>>,
) -> Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
    // An error means that it was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy();
    let Some(tls) = tls else {
        return Ok(client.build()?);
    };
    let ca = reqwest::Certificate::from_pem(&std::fs::read(tls.ca)?)?;
    Ok(client.tls_certs_only([ca]).build()?)
}
