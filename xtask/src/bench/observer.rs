//! Sees every version of a namespace's Runs that the API server shows, and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::{StreamExt, pin_mut};
use http::Request;
use jiff::Timestamp;
use kube::Client;
use kube::api::WatchEvent;
use run_operator::{clock::wall, util::lock};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::error::BenchError;
use super::load::runs_path;

/// Interval of checking what was seen.
const POLL: Duration = Duration::from_millis(100);

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
#[derive(Debug, Default)]
pub(super) struct Life {
    /// The time at which each of the service's states was first in the status.
    pub(super) states: HashMap<String, Timestamp>,
    /// The run has ended, and the operator's finalizer is gone.
    pub(super) released: bool,
}

/// A running watch. Dropping it ends it.
pub(super) struct Observer {
    task: AbortHandle,
    released: watch::Receiver<usize>,
    lives: Arc<Mutex<HashMap<String, Life>>>,
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Observer {
    /// Watches the Runs of a namespace from now on.
    pub(super) fn start(client: Client, namespace: &str) -> Self {
        let lives: Arc<Mutex<HashMap<String, Life>>> = Arc::default();
        let (sender, released) = watch::channel(0);
        let path = runs_path(namespace);
        let seen = Arc::clone(&lives);
        let task = tokio::spawn(async move {
            let mut version = String::new();
            // The API server ends a watch now and then.
            while follow(&client, &path, &mut version, |one| {
                if note(&seen, one) {
                    sender.send_modify(|count| *count += 1);
                }
            })
            .await
            .is_ok()
            {}
        });
        Self {
            task: task.abort_handle(),
            released,
            lives,
        }
    }

    /// Waits until so many Runs have been released.
    pub(super) async fn released(
        &self,
        count: usize,
        patience: Duration,
    ) -> Result<(), BenchError> {
        let mut released = self.released.clone();
        let all = timeout(patience, released.wait_for(|seen| *seen >= count)).await;
        match all {
            Ok(Ok(_)) => Ok(()),
            _ => Err(BenchError::Wait {
                what: "every Run has ended",
                after: patience,
                seen: format!("{} of {count}", *self.released.borrow()),
            }),
        }
    }

    /// Waits until so many Runs have shown this state.
    pub(super) async fn shown(
        &self,
        state: &str,
        count: usize,
        patience: Duration,
    ) -> Result<(), BenchError> {
        let began = Instant::now();
        loop {
            let shown = self.lives(|lives| {
                let all = lives.values();
                all.filter(|life| life.states.contains_key(state)).count()
            });
            if shown >= count {
                return Ok(());
            }
            if began.elapsed() > patience {
                return Err(BenchError::Wait {
                    what: "every Run shows its state",
                    after: patience,
                    seen: format!("{shown} of {count} {state}"),
                });
            }
            sleep(POLL).await;
        }
    }

    /// What was seen, by uid.
    pub(super) fn lives<T>(&self, read: impl FnOnce(&HashMap<String, Life>) -> T) -> T {
        read(&lock(&self.lives))
    }
}

/// Follows one watch to its end.
async fn follow(
    client: &Client,
    path: &str,
    version: &mut String,
    mut note: impl FnMut(&Seen),
) -> Result<(), BenchError> {
    let request =
        Request::get(format!("{path}?watch=1&resourceVersion={version}")).body(Vec::new());
    let request = request.map_err(|error| BenchError::Kubernetes {
        action: "build a watch",
        source: kube::Error::HttpError(error),
    })?;
    let events = client.request_events::<Seen>(request).await;
    let events = events.map_err(BenchError::kubernetes("watch the Runs"))?;
    pin_mut!(events);
    while let Some(event) = events.next().await {
        if let Ok(WatchEvent::Added(run) | WatchEvent::Modified(run)) = event {
            version.clone_from(&run.metadata.resource_version);
            note(&run);
        }
    }
    Ok(())
}

/// Notes a version; true if the Run is released by it.
fn note(lives: &Mutex<HashMap<String, Life>>, run: &Seen) -> bool {
    let mut lives = lock(lives);
    let life = lives.entry(run.metadata.uid.clone()).or_default();
    if let Some(state) = &run.status.state
        && !life.states.contains_key(state)
    {
        life.states.insert(state.clone(), wall());
    }
    let ended = run
        .status
        .phase
        .as_deref()
        .is_some_and(|phase| matches!(phase, "Succeeded" | "Failed" | "Cancelled"));
    let released = ended && run.metadata.finalizers.is_empty();
    released && !std::mem::replace(&mut life.released, true)
}
