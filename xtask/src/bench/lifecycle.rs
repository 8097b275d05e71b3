//! The writes of one Run's life, as a real operator made them and the API server's audit log kept them.

use std::path::Path;
use std::time::Duration;

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use super::audit;
use super::error::BenchError;
use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::Stage;

/// The name of the recorded Run. No other text of its life has it.
const NAME: &str = "the-recorded-run";
/// The namespace of the recorded Run, likewise.
const NAMESPACE: &str = "the-recording";
/// Time for one Run's life.
const PATIENCE: Duration = Duration::from_mins(1);

/// The writes of one life, to be made again for other Runs.
pub(super) struct Lifecycle {
    uid: String,
    writes: Vec<Write>,
}

/// One write to the API server.
struct Write {
    /// The verb of the audit log.
    verb: String,
    path: String,
    body: String,
    /// The resourceVersion that guards it.
    version: Option<String>,
    /// Whether it writes the Run, and not an Event.
    of_run: bool,
}

impl Lifecycle {
    /// Lets an operator take one Run through its life, and reads its writes from the audit log.
    pub(super) async fn record() -> Result<Self, BenchError> {
        let mut stage = Stage::set_with_audited_bodies().await?;
        stage.namespace(NAMESPACE).await?;
        stage.start_operator().await?;
        let observer = Observer::start(stage.client.clone(), NAMESPACE);
        let pace = Pace {
            queued: Duration::from_secs(1),
            running: Duration::from_secs(1),
        };
        let run = load::create(&stage.client, NAMESPACE, NAME, pace).await?;
        observer.released(1, PATIENCE).await?;
        // Events are published beside the status, and counted by the operator.
        stage.stop_operator().await?;
        let log = stage.audit_log()?;
        let writes = read(&log)?;
        Ok(Self {
            uid: run.metadata.uid,
            writes,
        })
    }

    /// The number of writes of the Run, and of Events.
    pub(super) fn count(&self) -> (usize, usize) {
        let runs = self.writes.iter().filter(|write| write.of_run).count();
        (runs, self.writes.len() - runs)
    }

    /// Creates a Run and makes the same writes for it, each guarded by the version that the one before returned.
    pub(super) async fn repeat(
        &self,
        client: &Client,
        namespace: &str,
        name: &str,
        pace: Pace,
        events: bool,
    ) -> Result<(), BenchError> {
        let created = load::create(client, namespace, name, pace).await?;
        let (uid, mut version) = (created.metadata.uid, created.metadata.resource_version);
        for write in self.writes.iter().filter(|write| write.of_run || events) {
            let own = |text: &str| {
                text.replace(NAMESPACE, namespace)
                    .replace(NAME, name)
                    .replace(&self.uid, &uid)
            };
            let mut body = own(&write.body);
            if let Some(recorded) = &write.version {
                body = body.replace(&json!(recorded).to_string(), &json!(version).to_string());
            }
            let (method, kind) = match write.verb.as_str() {
                "patch" => ("PATCH", "application/json-patch+json"),
                "update" => ("PUT", "application/json"),
                _ => ("POST", "application/json"),
            };
            let request = Request::builder()
                .method(method)
                .uri(own(&write.path))
                .header("content-type", kind);
            let answer = load::written(client, request, body.into_bytes()).await?;
            if write.of_run {
                version = answer.metadata.resource_version;
            }
        }
        Ok(())
    }
}

/// The operator's writes for the recorded Run, in their order.
fn read(log: &Path) -> Result<Vec<Write>, BenchError> {
    let mut writes = Vec::new();
    for entry in audit::of_operator(log)? {
        let writes_it = matches!(entry.verb.as_str(), "patch" | "update" | "create");
        let of_run = entry.object_ref.resource == "runs";
        let wanted = of_run || entry.object_ref.resource == "events";
        let here = entry.object_ref.namespace == NAMESPACE;
        let body = entry.request_object.to_string();
        if writes_it && wanted && here && (of_run || body.contains(NAME)) {
            writes.push(Write {
                version: guard(&entry.request_object),
                verb: entry.verb,
                path: entry.request_uri,
                body,
                of_run,
            });
        }
    }
    if writes.iter().filter(|write| write.of_run).count() == 0 {
        let what = format!("{}: it has no write of the Run", log.display());
        return Err(BenchError::Unexpected(what));
    }
    Ok(writes)
}

/// The resourceVersion that a patch of the operator is guarded by.
fn guard(patch: &Value) -> Option<String> {
    let ops = patch.as_array()?;
    let guard = ops
        .iter()
        .find(|op| op["path"] == "/metadata/resourceVersion")?;
    guard["value"].as_str().map(str::to_owned)
}
