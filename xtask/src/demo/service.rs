//! The reference service as a process, and its control API, from which the summary is made.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::demo::board::PATIENCE;
use crate::demo::failure::Failure;
use test_cluster::{Error, Output, Process, Scratch};
use test_support::openapi::Record;

/// Interval of requests to the service while something is waited for.
const POLL: std::time::Duration = std::time::Duration::from_millis(50);

/// A running reference service.
pub(crate) struct Service {
    process: Process,
    record: PathBuf,
    origin: String,
    http: reqwest::Client,
}

/// A run, as the service's control API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceRun {
    pub(crate) run_id: String,
    pub(crate) idempotency_key: String,
    pub(crate) state: String,
    /// POSTs that were answered with this run, or would have been.
    pub(crate) posts: u64,
    pub(crate) cancels: u64,
}

impl ServiceRun {
    /// True when it changes no more.
    pub(crate) fn ended(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

impl Service {
    /// Starts one on a free port that accepts `token`.
    pub(crate) async fn start(
        program: &Path,
        scratch: &Scratch,
        token: &str,
    ) -> Result<Self, Failure> {
        let port_file = scratch.path().join("service.port");
        let log = scratch.path().join("service.log");
        let record = scratch.path().join("service.requests");
        let mut command = Command::new(program);
        command
            .args(["--listen", "127.0.0.1:0"])
            .arg("--port-file")
            .arg(&port_file)
            .arg("--record")
            .arg(&record)
            // Not as an argument: those can be read by every user of the machine.
            .env("REFERENCE_SERVICE_TOKEN", token);
        let mut process = Process::spawn(&command, Output::File(log))?;
        let line = process.wait_line("listening on", PATIENCE).await;
        let port = std::fs::read_to_string(&port_file).unwrap_or_default();
        if line.is_none() || port.is_empty() {
            return Err(Failure::Cluster(Error::NotReady {
                program: "reference-service",
                after: PATIENCE,
                log: process.log_tail(),
            }));
        }
        Ok(Self {
            process,
            record,
            origin: format!("http://127.0.0.1:{}", port.trim()),
            http: reqwest::Client::new(),
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

    /// Lets the next create of this image take effect, and keeps the answer back.
    pub(crate) async fn withhold_answer(&self, image: &str) -> Result<(), Failure> {
        let fault = json!({
            "match": {"operation": "createRun", "image": image},
            "action": {"type": "hang", "execute": true},
        });
        self.steer("faults", fault).await?;
        Ok(())
    }

    /// Lets a token expire now.
    pub(crate) async fn expire(&self, token: &str) -> Result<(), Failure> {
        let path = format!("{}/tokens/{token}", self.control());
        let request = self.http.patch(path).body(r#"{"expiresAfterMs": 0}"#);
        // The path has the token, and so is not printed.
        self.send("tokens", request).await?;
        Ok(())
    }

    /// A new token for the workspace.
    pub(crate) async fn new_token(&self) -> Result<String, Failure> {
        let answer = self.steer("tokens", json!({})).await?;
        match answer.get("token").and_then(Value::as_str) {
            Some(token) => Ok(token.to_owned()),
            None => Err(Failure::SteerService {
                path: "tokens".to_owned(),
                answer: "no token".to_owned(),
            }),
        }
    }

    /// Takes a run to its next state.
    pub(crate) async fn advance(&self, run_id: &str) -> Result<(), Failure> {
        self.steer(&format!("runs/{run_id}/advance"), json!({}))
            .await?;
        Ok(())
    }

    /// Every run that the service ever created.
    pub(crate) async fn runs(&self) -> Result<Vec<ServiceRun>, Failure> {
        let answer = self.read("runs").await?;
        serde_json::from_value(answer).map_err(|error| Failure::SteerService {
            path: "runs".to_owned(),
            answer: error.to_string(),
        })
    }

    /// The run of a Run's uid.
    pub(crate) async fn run(&self, uid: &str) -> Result<Option<ServiceRun>, Failure> {
        let mut runs = self.runs().await?.into_iter();
        Ok(runs.find(|run| run.idempotency_key == uid))
    }

    /// The service's counts.
    pub(crate) async fn stats(&self) -> Result<Value, Failure> {
        self.read("stats").await
    }

    /// Waits until `wanted` is true of the service's runs, and returns them.
    pub(crate) async fn until(
        &self,
        what: &str,
        wanted: impl Fn(&[ServiceRun]) -> bool,
    ) -> Result<Vec<ServiceRun>, Failure> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let runs = self.runs().await?;
            if wanted(&runs) {
                return Ok(runs);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(Failure::Wait {
                    what: what.to_owned(),
                    seconds: PATIENCE.as_secs(),
                    seen: format!("{runs:#?}"),
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Every request until now, held to the API's document.
    pub(crate) fn record(&self) -> Record {
        Record::read(&self.record)
    }

    async fn read(&self, path: &str) -> Result<Value, Failure> {
        let request = self.http.get(format!("{}/{path}", self.control()));
        self.send(path, request).await
    }

    async fn steer(&self, path: &str, body: Value) -> Result<Value, Failure> {
        let request = self.http.post(format!("{}/{path}", self.control()));
        self.send(path, request.body(body.to_string())).await
    }

    async fn send(&self, path: &str, request: reqwest::RequestBuilder) -> Result<Value, Failure> {
        let reach = |source: reqwest::Error| Failure::ReachService {
            path: path.to_owned(),
            // An address may hold a token.
            source: source.without_url(),
        };
        let answer = request.timeout(PATIENCE).send().await.map_err(reach)?;
        let status = answer.status();
        let text = answer.text().await.map_err(reach)?;
        match serde_json::from_str(&text) {
            Ok(value) if status.is_success() => Ok(value),
            _ => Err(Failure::SteerService {
                path: path.to_owned(),
                answer: format!("{status} {text}"),
            }),
        }
    }
}
