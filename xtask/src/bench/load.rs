//! Creates Runs, as users do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::common::Outcome;

/// Requests of the loaders at the same time: enough for the API server's best on two to sixteen cores.
const WORKERS: usize = 32;

/// Runs before those that are measured: the first requests of their kind take longer.
pub(super) const WARM_UP: usize = 50;

/// The milliseconds that a run is queued, and that it runs.
#[derive(Clone, Copy)]
pub(super) struct Pace(pub(super) u64, pub(super) u64);

/// Runs that stay active.
pub(super) const HOURS: Pace = Pace(200, 2 * 60 * 60 * 1000);

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
) -> Outcome<Written> {
    apply(client, namespace, &manifest(name, pace)).await
}

/// A Run.
pub(super) fn manifest(name: &str, Pace(queued, running): Pace) -> Value {
    let simulate = json!({
        "outcome": "succeeded",
        "states": [{"state": "queued", "forMs": queued}, {"state": "running", "forMs": running}],
    });
    json!({
        "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
        "metadata": {"name": name},
        "spec": {"workload": {"image": "ghcr.io/acme/train:1.4", "simulate": simulate}},
    })
}

pub(super) async fn apply(client: &Client, namespace: &str, run: &Value) -> Outcome<Written> {
    let request = Request::post(runs_path(namespace)).header("content-type", "application/json");
    written(client, request, run.to_string()).await
}

/// Sends a write and reads what it is answered with.
pub(super) async fn written(
    client: &Client,
    request: http::request::Builder,
    body: String,
) -> Outcome<Written> {
    let request = request.body(body.into_bytes());
    let request = request.map_err(kube::Error::HttpError)?;
    Ok(client.request(request).await?)
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
) -> Outcome<()> {
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
    one: impl AsyncFn(Client, String) -> Outcome<()>,
) -> Outcome<()> {
    let next = AtomicUsize::new(0);
    let workers = (0..WORKERS).map(|_| async {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let client = clients[number % clients.len()].clone();
            one(client, name(prefix, number)).await?;
        }
    });
    try_join_all(workers).await.map(drop)
}

/// So many in this time, a second.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(super) fn a_second(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}
