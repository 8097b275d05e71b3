//! The reference service as a process, and its control API.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use test_cluster::{Error, Output, Process, Scratch};
use test_support::openapi::Record;

/// Time for the service to start, and to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running reference service.
pub(crate) struct Service {
    process: Process,
    record: Option<PathBuf>,
    origin: String,
    http: reqwest::Client,
}

/// Errors of the reference service.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
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

/// A run, as the service's control API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRun {
    pub(crate) run_id: String,
    pub(crate) idempotency_key: String,
    pub(crate) state: String,
    /// The time of its creation, RFC 3339 with milliseconds.
    pub(crate) created_at: String,
    /// The states that it entered, in order.
    pub(crate) entered: Vec<Entered>,
    /// POSTs that were answered with this run, or would have been.
    pub(crate) posts: u64,
    pub(crate) cancels: u64,
}

/// A state that a run entered.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Entered {
    pub(crate) state: String,
    /// RFC 3339 with milliseconds.
    pub(crate) at: String,
}

/// A service to start.
pub(crate) struct Recipe<'a> {
    pub(crate) program: &'a Path,
    /// Where its port and its log are written.
    pub(crate) folder: &'a Scratch,
    /// The token that it accepts.
    pub(crate) token: &'a str,
    /// Whether every request is kept, to be compared with the API's document.
    pub(crate) record: bool,
    /// If set, it serves TLS, and so HTTP/2.
    pub(crate) tls: Option<Tls<'a>>,
}

/// The files of a certificate for 127.0.0.1, PEM.
#[derive(Clone, Copy)]
pub(crate) struct Tls<'a> {
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
    /// The authority that issued it.
    pub(crate) ca: &'a Path,
}

impl Service {
    /// Starts one on a free port.
    pub(crate) async fn start(recipe: Recipe<'_>) -> Result<Self, ServiceError> {
        let folder = recipe.folder.path();
        let port_file = folder.join("service.port");
        let record = recipe.record.then(|| folder.join("service.requests"));
        let mut command = Command::new(recipe.program);
        command
            .args(["--listen", "127.0.0.1:0"])
            .arg("--port-file")
            .arg(&port_file)
            // Not as an argument: those can be read by every user of the machine.
            .env("REFERENCE_SERVICE_TOKEN", recipe.token);
        if let Some(record) = &record {
            command.arg("--record").arg(record);
        }
        if let Some(tls) = recipe.tls {
            command.arg("--tls-cert").arg(tls.certificate);
            command.arg("--tls-key").arg(tls.key);
        }
        let mut process = Process::spawn(&command, Output::File(folder.join("service.log")))?;
        let line = process.wait_line("listening on", PATIENCE).await;
        let port = std::fs::read_to_string(&port_file).unwrap_or_default();
        if line.is_none() || port.is_empty() {
            return Err(ServiceError::Start(Error::NotReady {
                program: "reference-service",
                after: PATIENCE,
                log: process.log_tail(),
            }));
        }
        Ok(Self {
            process,
            record,
            origin: format!(
                "{}://127.0.0.1:{}",
                if recipe.tls.is_some() {
                    "https"
                } else {
                    "http"
                },
                port.trim()
            ),
            http: client(recipe.tls).map_err(ServiceError::Trust)?,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The base URL for the operator.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/api/v1", self.origin)
    }

    /// URL of the control API.
    pub(crate) fn control(&self) -> String {
        format!("{}/_control", self.origin)
    }

    /// Every run that the service ever created.
    pub(crate) async fn runs(&self) -> Result<Vec<ServiceRun>, ServiceError> {
        let answer = self.read("runs").await?;
        serde_json::from_value(answer).map_err(|error| ServiceError::Steer {
            path: "runs".to_owned(),
            answer: error.to_string(),
        })
    }

    /// The service's counts.
    pub(crate) async fn stats(&self) -> Result<Value, ServiceError> {
        self.read("stats").await
    }

    /// Every request until now, held to the API's document; none if they are not kept.
    pub(crate) fn record(&self) -> Record {
        self.record.as_deref().map(Record::read).unwrap_or_default()
    }

    /// Reads from the control API.
    pub(crate) async fn read(&self, path: &str) -> Result<Value, ServiceError> {
        let request = self.http.get(format!("{}/{path}", self.control()));
        self.send(path, request).await
    }

    /// Posts to the control API.
    pub(crate) async fn steer(&self, path: &str, body: Value) -> Result<Value, ServiceError> {
        let request = self.http.post(format!("{}/{path}", self.control()));
        self.send(path, request.body(body.to_string())).await
    }

    /// Lets a token expire now.
    pub(crate) async fn expire(&self, token: &str) -> Result<(), ServiceError> {
        let path = format!("{}/tokens/{token}", self.control());
        let request = self.http.patch(path).body(r#"{"expiresAfterMs": 0}"#);
        // The path has the token, and so is not printed.
        self.send("tokens", request).await?;
        Ok(())
    }

    async fn send(
        &self,
        path: &str,
        request: reqwest::RequestBuilder,
    ) -> Result<Value, ServiceError> {
        let reach = |source: reqwest::Error| ServiceError::Reach {
            path: path.to_owned(),
            // An address may hold a token.
            source: source.without_url(),
        };
        let answer = request.timeout(PATIENCE).send().await.map_err(reach)?;
        let status = answer.status();
        let text = answer.text().await.map_err(reach)?;
        match serde_json::from_str(&text) {
            Ok(value) if status.is_success() => Ok(value),
            _ => Err(ServiceError::Steer {
                path: path.to_owned(),
                answer: format!("{status} {text}"),
            }),
        }
    }
}

/// A client that trusts the service.
fn client(
    tls: Option<Tls<'_>>,
) -> Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
    let Some(tls) = tls else {
        return Ok(reqwest::Client::new());
    };
    let ca = reqwest::Certificate::from_pem(&std::fs::read(tls.ca)?)?;
    Ok(reqwest::Client::builder().tls_certs_only([ca]).build()?)
}
