//! The reference service as a process, and its control API. When it is dropped, every request that it ever
//! got is checked against `contract/openapi.yaml`.

use std::path::{Path, PathBuf};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use test_cluster::{Recipe, ReferenceService, Scratch};
use test_support::openapi::Record;
use test_support::programs;

/// The token that a new service accepts.
pub(crate) const TOKEN: &str = "canary-7f1d0c5e-token";
/// A Run takes about a second, unless its workload says otherwise.
const QUICK: [&str; 10] = [
    "--log",
    "debug",
    "--queue-time",
    "100ms",
    "--provision-time",
    "100ms",
    "--run-time",
    "300ms",
    "--cancel-time",
    "100ms",
];

/// A running reference service.
pub(crate) struct Service {
    running: ReferenceService,
    /// Where it writes what it gets.
    folder: PathBuf,
    args: Vec<String>,
    /// Differences from the document that the test brings about itself.
    expected: Vec<&'static str>,
}

impl Service {
    /// Starts one on a free port, with further arguments.
    pub(crate) async fn start(scratch: &Scratch, args: &[&str]) -> Self {
        let folder = scratch.path().to_owned();
        let args: Vec<String> = QUICK.iter().chain(args).map(ToString::to_string).collect();
        Self {
            running: started(&folder, &args, &[]).await,
            folder,
            args,
            expected: Vec::new(),
        }
    }

    /// Starts it again after [`Service::kill`], at the same address: it has forgotten everything but its
    /// token.
    pub(crate) async fn start_again(&mut self) {
        let address = self.address().to_owned();
        let listen = ["--listen", &address];
        self.running = started(&self.folder, &self.args, &listen).await;
    }

    /// SIGSTOP: connections are taken by the kernel, and nothing is answered until [`Service::go_on`].
    pub(crate) fn hold(&self) {
        self.running.process().hold();
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) {
        self.running.process().go_on();
    }

    /// The address without a path.
    pub(crate) fn address(&self) -> &str {
        self.running.address()
    }

    /// The base URL for the operator.
    pub(crate) fn base_url(&self) -> String {
        self.running.base_url()
    }

    /// Kills the service: every connection is cut, and every run is forgotten.
    pub(crate) fn kill(&mut self) {
        self.running.kill();
    }

    /// `GET /_control/{path}`.
    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, Value::Null).await
    }

    /// `POST /_control/{path}`.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        self.send(Method::POST, path, body).await
    }

    /// `PUT /_control/{path}`.
    pub(crate) async fn put(&self, path: &str, body: Value) -> Value {
        self.send(Method::PUT, path, body).await
    }

    /// `PATCH /_control/{path}`.
    pub(crate) async fn patch(&self, path: &str, body: Value) -> Value {
        self.send(Method::PATCH, path, body).await
    }

    /// `DELETE /_control/{path}`.
    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.send(Method::DELETE, path, Value::Null).await
    }

    /// Adds a fault: what it fits, and what it does. Once, unless `action` holds `times`.
    pub(crate) async fn fault(&self, fits: Value, action: Value) {
        self.post("faults", json!({"match": fits, "action": action}))
            .await;
    }

    /// Adds a fault that lasts until the faults are cleared.
    pub(crate) async fn lasting_fault(&self, fits: Value, action: Value) {
        let fault = json!({"match": fits, "action": action, "times": 0});
        self.post("faults", fault).await;
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
        serde_json::from_value(self.get("runs").await).unwrap()
    }

    /// Requests of one operation, whatever came of them.
    pub(crate) async fn count(&self, operation: &str) -> u64 {
        let stats = self.get("stats").await;
        let by_status = stats["requests"][operation].as_object();
        let by_status = by_status.into_iter().flatten();
        by_status.filter_map(|(_, count)| count.as_u64()).sum()
    }

    /// The kept requests of one operation, oldest first, also those that are not answered yet.
    pub(crate) async fn requests(&self, operation: &str) -> Vec<Value> {
        let mut requests: Vec<Value> = serde_json::from_value(self.get("requests").await).unwrap();
        requests.retain(|request| request["operation"] == operation);
        requests
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
        self.running.record()
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Value {
        let answer = self.running.send(method, path, body).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

/// For each of these runs, in the order of their creates: how many of them were active when the service made it, itself
/// included. By the service's own record; a run that ended in the same millisecond had ended.
pub(crate) fn active_at_creates(runs: &[Value]) -> Vec<usize> {
    let at = |time: &Value| time.as_str().unwrap().parse::<Timestamp>().unwrap();
    let ends = |entered: &&Value| {
        let state = entered["state"].as_str().unwrap();
        ["succeeded", "failed", "cancelled"].contains(&state)
    };
    let life = |run: &Value| {
        let end = run["entered"].as_array().unwrap().iter().find(ends);
        (at(&run["createdAt"]), end.map(|end| at(&end["at"])))
    };
    let lives: Vec<(Timestamp, Option<Timestamp>)> = runs.iter().map(life).collect();
    let active = |n: usize| {
        let now = lives[n].0;
        let others = lives[..n].iter();
        1 + others
            .filter(|(_, end)| end.is_none_or(|end| end > now))
            .count()
    };
    (0..lives.len()).map(active).collect()
}

async fn started(folder: &Path, args: &[String], more: &[&str]) -> ReferenceService {
    let recipe = Recipe {
        program: programs::reference_service(),
        folder,
        token: TOKEN,
        record: true,
        tls: None,
    };
    let args = args.iter().map(String::as_str);
    let args: Vec<&str> = args.chain(more.iter().copied()).collect();
    ReferenceService::start(recipe, &args).await.unwrap()
}

/// Every test ends here, and fails when the operator has sent what the document doesn't know.
impl Drop for Service {
    fn drop(&mut self) {
        self.running.kill();
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
