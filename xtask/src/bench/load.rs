//! Creates Runs, as users do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::BenchError;

/// Requests of the loaders at the same time: enough for the API server's best on two to sixteen cores.
pub(super) const WORKERS: usize = 32;

/// Runs before those that are measured: the first requests of their kind take longer.
pub(super) const WARM_UP: usize = 50;

/// The time that a run is queued, and that it runs.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) queued: Duration,
    pub(super) running: Duration,
}

impl Pace {
    fn simulate(self) -> Value {
        json!({
            "outcome": "succeeded",
            "states": [
                {"state": "queued", "forMs": millis(self.queued)},
                {"state": "running", "forMs": millis(self.running)},
            ],
        })
    }
}

/// What the API server tells of an object that it has written.
#[derive(Deserialize)]
pub(super) struct Written {
    pub(super) metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenMetadata {
    pub(super) uid: String,
    pub(super) resource_version: String,
}

/// The path of a namespace's Runs.
pub(super) fn runs_path(namespace: &str) -> String {
    format!("/apis/run-operator.dev/v1alpha1/namespaces/{namespace}/runs")
}

/// Creates a Run.
pub(super) async fn create(
    client: &Client,
    namespace: &str,
    name: &str,
    pace: Pace,
) -> Result<Written, BenchError> {
    apply(client, namespace, &manifest(name, pace)).await
}

/// Creates a Run that is deleted so many seconds after its end.
pub(super) async fn create_with_ttl(
    client: &Client,
    namespace: &str,
    name: &str,
    pace: Pace,
    ttl: u64,
) -> Result<(), BenchError> {
    let mut run = manifest(name, pace);
    run["spec"]["ttlSecondsAfterFinished"] = json!(ttl);
    apply(client, namespace, &run).await.map(drop)
}

fn manifest(name: &str, pace: Pace) -> Value {
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name},
        "spec": {"workload": {"image": "ghcr.io/acme/train:1.4", "simulate": pace.simulate()}},
    })
}

async fn apply(client: &Client, namespace: &str, run: &Value) -> Result<Written, BenchError> {
    let request = Request::post(runs_path(namespace)).header("content-type", "application/json");
    written(client, request, run.to_string().into_bytes()).await
}

/// Sends a write and reads what it is answered with.
pub(super) async fn written(
    client: &Client,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<Written, BenchError> {
    let request = request.body(body);
    let request = request.map_err(|error| BenchError::Kubernetes {
        action: "build a write",
        source: kube::Error::HttpError(error),
    })?;
    let text = client.request_text(request).await;
    let text = text.map_err(BenchError::kubernetes("write"))?;
    serde_json::from_str(&text).map_err(BenchError::Decode)
}

/// The name of a Run by its number.
pub(super) fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:06}")
}

/// Creates so many Runs, as fast as the API server takes them.
pub(super) async fn create_all(
    clients: &[Client],
    namespace: &str,
    prefix: &str,
    count: usize,
    pace: Pace,
) -> Result<(), BenchError> {
    each(clients, prefix, count, async |client, name| {
        create(&client, namespace, &name, pace).await.map(drop)
    })
    .await
}

/// Does `one` for so many names, [`WORKERS`] at a time, with the clients in turn.
pub(super) async fn each(
    clients: &[Client],
    prefix: &str,
    count: usize,
    one: impl AsyncFn(Client, String) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let next = AtomicUsize::new(0);
    let workers = (0..WORKERS).map(|_| async {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            one(
                clients[number % clients.len()].clone(),
                name(prefix, number),
            )
            .await?;
        }
    });
    try_join_all(workers).await.map(drop)
}

/// Whole milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// So many in this time, a second.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn a_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
