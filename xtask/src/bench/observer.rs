//! Sees every version of a namespace's Runs that the API server shows, and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt, pin_mut};
use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube::api::WatchEvent;
use run_operator::{clock::wall, util::lock};
use serde::Deserialize;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::load::runs_path;
use crate::common::{Outcome, until};

/// Interval of looking at what was seen, which takes time of its own.
const LOOK: Duration = Duration::from_millis(40);

/// What is read of a Run: as little as possible, since it shares the cores with what is measured.
#[derive(Clone, Debug, Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    name: String,
    resource_version: String,
    #[serde(default)]
    finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    phase: Option<String>,
    state: Option<String>,
}

/// What was seen of one Run.
#[derive(Default)]
pub(super) struct Life {
    pub(super) name: String,
    /// The time at which it was seen first.
    pub(super) first: Option<Timestamp>,
    /// The time at which each of the service's states was first in the status.
    pub(super) states: HashMap<String, Timestamp>,
    /// The run has ended, and the operator's finalizer is gone.
    released: bool,
}

/// The Runs, by uid.
type Lives = HashMap<String, Life>;

/// A running watch. Dropping it ends it.
pub(super) struct Observer {
    task: AbortHandle,
    lives: Arc<Mutex<Lives>>,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Observer {
    /// Watches the Runs of a namespace from now on.
    pub(super) fn start(client: Client, namespace: &str) -> Self {
        let lives: Arc<Mutex<Lives>> = Arc::default();
        let (path, seen) = (runs_path(namespace), Arc::clone(&lives));
        let task = tokio::spawn(async move {
            let mut version = String::new();
            // The API server ends a watch now and then.
            while follow(&client, &path, &mut version, &seen).await.is_ok() {}
        });
        let task = task.abort_handle();
        Self { task, lives }
    }

    /// Waits until so many Runs have been released.
    pub(super) async fn released(&self, count: usize, patience: Duration) -> Outcome<()> {
        self.all("every Run has ended", count, patience, |life| life.released)
            .await
    }

    /// Waits until so many Runs have shown this state.
    pub(super) async fn shown(&self, state: &str, count: usize, patience: Duration) -> Outcome<()> {
        let what = format!("every Run shows the state {state}");
        self.all(&what, count, patience, |life| {
            life.states.contains_key(state)
        })
        .await
    }

    async fn all(
        &self,
        what: &str,
        count: usize,
        patience: Duration,
        is: impl Fn(&Life) -> bool,
    ) -> Outcome<()> {
        let seen = || self.lives(|lives| lives.values().filter(|life| is(life)).count());
        let shown = || format!("{} of {count}", seen());
        until(what, patience, shown, async || {
            sleep(LOOK).await;
            Ok(seen() >= count)
        })
        .await
    }

    /// What was seen, by uid.
    pub(super) fn lives<T>(&self, read: impl FnOnce(&Lives) -> T) -> T {
        read(&lock(&self.lives))
    }
}

/// Follows one watch to its end.
async fn follow(
    client: &Client,
    path: &str,
    version: &mut String,
    lives: &Mutex<Lives>,
) -> Outcome<()> {
    let request = Request::get(format!("{path}?watch=1&resourceVersion={version}"));
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    let events = client.request_events::<Seen>(request).await?;
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Ok(WatchEvent::Added(run) | WatchEvent::Modified(run)) = event {
            version.clone_from(&run.metadata.resource_version);
            note(&mut lock(lives), run);
        }
    }
    Ok(())
}

/// Notes a version.
fn note(lives: &mut Lives, run: Seen) {
    let life = lives.entry(run.metadata.uid).or_default();
    life.name = run.metadata.name;
    life.first.get_or_insert_with(wall);
    if let Some(state) = run.status.state {
        life.states.entry(state).or_insert_with(wall);
    }
    let ended = matches!(
        run.status.phase.as_deref(),
        Some("Succeeded" | "Failed" | "Cancelled")
    );
    life.released |= ended && run.metadata.finalizers.is_empty();
}
