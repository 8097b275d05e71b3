//! The reference service as a process, and its control API. When it is dropped, every request that it ever
//! got is checked against `contract/openapi.yaml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::wait::eventually;
use test_cluster::{Output, Process, Scratch};
use test_support::openapi::Record;

/// The token that a new service accepts.
pub(crate) const TOKEN: &str = "canary-7f1d0c5e-token";

/// A running reference service.
pub(crate) struct Service {
    process: Process,
    recipe: Command,
    log: PathBuf,
    record: PathBuf,
    /// Differences from the document that the test brings about itself.
    expected: Vec<&'static str>,
    /// `127.0.0.1:PORT`.
    address: String,
    http: reqwest::Client,
}

impl Service {
    /// Starts one on a free port. Runs take about a second unless `args` or their workload set another time.
    pub(crate) async fn start(scratch: &Scratch, args: &[&str]) -> Self {
        let port_file = scratch.path().join("service.port");
        let log = scratch.path().join("service.log");
        let record = scratch.path().join("service.requests");
        let mut first = recipe("127.0.0.1:0", &record, args);
        first.arg("--port-file").arg(&port_file);
        let process = Process::spawn(&first, Output::File(log.clone())).unwrap();
        let port = eventually("the reference service listens", async || {
            let text = std::fs::read_to_string(&port_file).unwrap_or_default();
            text.trim().parse::<u16>().map_err(|_| process.output())
        })
        .await;
        let address = format!("127.0.0.1:{port}");
        Self {
            process,
            recipe: recipe(&address, &record, args),
            log,
            record,
            expected: Vec::new(),
            address,
            http: reqwest::Client::new(),
        }
    }

    /// Starts it again after [`Service::kill`], at the same address: it has forgotten everything but its
    /// token.
    pub(crate) async fn start_again(&mut self) {
        let log = Output::File(self.log.clone());
        self.process = Process::spawn(&self.recipe, log).unwrap();
        eventually("the reference service listens again", async || {
            tokio::net::TcpStream::connect(&self.address)
                .await
                .map(drop)
        })
        .await;
    }

    /// The pid of the service itself.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGSTOP: connections are taken by the kernel, and nothing is answered until [`Service::go_on`].
    pub(crate) fn hold(&self) {
        self.process.hold();
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        self.process.go_on();
    }

    /// The address without a path.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The base URL for the operator.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/api/v1", self.address)
    }

    /// Kills the service: every connection is cut, and every run is forgotten.
    pub(crate) fn kill(&mut self) {
        self.process.kill9();
    }

    /// `GET /_control/{path}`.
    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(self.http.get(self.control(path))).await
    }

    /// `POST /_control/{path}`.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.send(self.http.post(self.control(path)).body(body.to_string()))
            .await
    }

    /// `PUT /_control/{path}`.
    pub(crate) async fn put(&self, path: &str, body: Value) -> Value {
        self.send(self.http.put(self.control(path)).body(body.to_string()))
            .await
    }

    /// `PATCH /_control/{path}`.
    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        self.send(self.http.patch(self.control(path)).body(body.to_string()))
            .await
    }

    /// `DELETE /_control/{path}`.
    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.send(self.http.delete(self.control(path))).await
    }

    /// Adds a fault: what it fits, and what it does. Once, unless `action` holds `times`.
    pub(crate) async fn fault(&self, fits: Value, action: Value) {
        self.post("faults", json!({"match": fits, "action": action}))
            .await;
    }

    /// Adds a fault that lasts until the faults are cleared.
    pub(crate) async fn lasting_fault(&self, fits: Value, action: Value) {
        self.post(
            "faults",
            json!({"match": fits, "action": action, "times": 0}),
        )
        .await;
    }

    /// Leaves the next create in doubt: its run is made and its answer lost, and every later create is
    /// answered 503, until the faults are cleared.
    pub(crate) async fn leaves_in_doubt(&self) {
        let creates = json!({"operation": "createRun"});
        self.fault(creates.clone(), json!({"type": "doThenLose"}))
            .await;
        self.lasting_fault(creates, json!({"type": "answer", "status": 503}))
            .await;
    }

    /// Every run, as the control API shows it.
    pub(crate) async fn runs(&self) -> Vec<Value> {
        let answer = self.get("runs").await;
        let list = answer.get("runs").unwrap_or(&answer);
        list.as_array()
            .cloned()
            .unwrap_or_else(|| panic!("no list of runs in {answer}"))
    }

    /// Requests of one operation, whatever came of them.
    pub(crate) async fn count(&self, operation: &str) -> u64 {
        let stats = self.get("stats").await;
        let by_status = stats["requests"][operation]
            .as_object()
            .cloned()
            .unwrap_or_default();
        by_status.values().filter_map(Value::as_u64).sum()
    }

    /// The kept requests of one operation, oldest first, also those that are not answered yet.
    pub(crate) async fn requests(&self, operation: &str) -> Vec<Value> {
        let all = self.get("requests").await;
        let all = all.as_array().cloned().unwrap_or_default();
        let of_this = |request: &Value| request["operation"] == operation;
        all.into_iter().filter(of_this).collect()
    }

    /// The number of requests for Runs until now: creates, reads, streams and cancels, answered or not.
    pub(crate) async fn run_calls(&self) -> usize {
        let mut calls = 0;
        for operation in ["createRun", "getRun", "streamEvents", "cancelRun"] {
            calls += self.requests(operation).await.len();
        }
        calls
    }

    /// The test makes the operator send what differs from the document so, at least once.
    pub(crate) fn will_differ(&mut self, how: &'static str) {
        self.expected.push(how);
    }

    /// Every request until now, held to the API's document.
    pub(crate) fn record(&self) -> Record {
        Record::read(&self.record)
    }

    fn control(&self, path: &str) -> String {
        format!("http://{}/_control/{path}", self.address)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Value {
        let answer = request
            .header("content-type", "application/json")
            .send()
            .await
            .unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(
            status.is_success(),
            "the control API answered {status}: {text}"
        );
        if text.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&text).unwrap()
        }
    }
}

/// Every test ends here, and fails when the operator has sent what the document doesn't know.
impl Drop for Service {
    fn drop(&mut self) {
        self.process.kill9();
        if !std::thread::panicking() {
            let mut violations = self.record().violations;
            for how in &self.expected {
                let all = violations.len();
                violations.retain(|violation| !violation.contains(how));
                assert!(
                    violations.len() < all,
                    "no request differs as expected: {how}"
                );
            }
            assert!(
                violations.is_empty(),
                "requests that differ from contract/openapi.yaml:\n{}",
                violations.join("\n")
            );
        }
    }
}

/// The command of one.
fn recipe(listen: &str, record: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(test_support::programs::reference_service());
    command
        .args(["--listen", listen, "--token", TOKEN, "--log", "debug"])
        .args(["--queue-time", "100ms", "--provision-time", "100ms"])
        .args(["--run-time", "300ms", "--cancel-time", "100ms"])
        .arg("--record")
        .arg(record)
        .args(args);
    command
}
