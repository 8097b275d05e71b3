//! The writes of one Run's life, as a real operator made them and the API server's audit log kept them.

use std::time::Duration;

use http::Request;
use kube::Client;
use serde_json::{Value, json};
use test_cluster::ControlPlane;

use super::audit::Entry;
use super::load::{self, Pace};
use super::observer::Observer;
use super::stage::Stage;
use crate::common::Outcome;

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
    method: &'static str,
    content_type: &'static str,
    path: String,
    body: String,
    /// The resourceVersion that guards it.
    version: Option<String>,
    /// Whether it writes the Run, and not an Event.
    of_run: bool,
}

impl Lifecycle {
    /// Lets an operator take one Run through its life, and reads its writes from the audit log.
    pub(super) async fn record() -> Outcome<Self> {
        let control_plane = ControlPlane::start_with_audited_bodies().await?;
        let stage = Stage::on(control_plane, false, NAMESPACE).await?;
        let (operator, _) = stage.operator(&[]).await?;
        let observer = Observer::start(stage.client.clone(), NAMESPACE);
        let run = load::create(&stage.client, NAMESPACE, NAME, Pace(1000, 1000)).await?;
        observer.released(1, PATIENCE).await?;
        // Events are published beside the status, and counted by the operator.
        operator.stop().await?;
        let writes: Vec<Write> = stage.audited()?.into_iter().filter_map(write).collect();
        if !writes.iter().any(|write| write.of_run) {
            return Err("the audit log has no write of the Run".into());
        }
        let uid = run.metadata.uid;
        Ok(Self { uid, writes })
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
        events: bool,
    ) -> Outcome<()> {
        let created = load::create(client, namespace, name, Pace(0, 0)).await?;
        let (uid, mut version) = (created.metadata.uid, created.metadata.resource_version);
        for write in self.writes.iter().filter(|write| write.of_run || events) {
            let own = |text: &str| {
                let text = text.replace(NAMESPACE, namespace).replace(NAME, name);
                text.replace(&self.uid, &uid)
            };
            let mut body = own(&write.body);
            if let Some(recorded) = &write.version {
                body = body.replace(&json!(recorded).to_string(), &json!(version).to_string());
            }
            let request = Request::builder()
                .method(write.method)
                .uri(own(&write.path))
                .header("content-type", write.content_type);
            let answer = load::written(client, request, body).await?;
            if write.of_run {
                version = answer.metadata.resource_version;
            }
        }
        Ok(())
    }
}

/// A request, if it is a write for the recorded Run.
fn write(entry: Entry) -> Option<Write> {
    let (method, content_type) = match entry.verb.as_str() {
        "patch" => ("PATCH", "application/json-patch+json"),
        "update" => ("PUT", "application/json"),
        "create" => ("POST", "application/json"),
        _ => return None,
    };
    let body = entry.request_object.to_string();
    let of_run = entry.object_ref.resource == "runs";
    let of_its_event = entry.object_ref.resource == "events" && body.contains(NAME);
    let wanted = entry.object_ref.namespace == NAMESPACE && (of_run || of_its_event);
    wanted.then(|| Write {
        method,
        content_type,
        path: entry.request_uri,
        body,
        version: guard(&entry.request_object),
        of_run,
    })
}

/// The resourceVersion that a patch of the operator is guarded by.
fn guard(patch: &Value) -> Option<String> {
    let mut ops = patch.as_array()?.iter();
    let guard = ops.find(|op| op["path"] == "/metadata/resourceVersion")?;
    guard["value"].as_str().map(str::to_owned)
}
