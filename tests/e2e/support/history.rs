//! Every version that the API server ever showed of a world's Runs, and what must hold in each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use tokio::task::JoinHandle;

use run_operator::api::{ConditionType as Type, Phase, Run, conditions};

use super::wait::eventually;

/// The conditions of the design's table, in its order; `Synced`, the freshness, is in no row.
const COLUMNS: [Type; 7] = [
    Type::Accepted,
    Type::Finished,
    Type::Complete,
    Type::Failed,
    Type::Ready,
    Type::Reconciling,
    Type::Stalled,
];

/// The rows of the design's table "Conditions, by situation". `!` is False; what is not named is absent.
const ROWS: [&str; 14] = [
    "Pending: !Accepted !Finished !Ready Reconciling",
    "Pending: !Accepted !Finished !Ready",
    "Pending: !Accepted !Finished !Ready Stalled",
    "Active: Accepted !Finished !Ready Reconciling",
    "Active: Accepted !Finished Ready",
    // A submitted Run that a person must handle: another runId appeared.
    "Active: Accepted !Finished !Ready Stalled",
    "Cancelling: Accepted !Finished !Ready Reconciling",
    "Succeeded: Accepted Finished Complete Ready",
    "Failed: Accepted Finished Failed !Ready Stalled",
    // Refused for good: it never was at the service.
    "Failed: !Accepted Finished Failed !Ready Stalled",
    "Cancelled: !Accepted Finished Ready",
    "Cancelled: Accepted Finished Ready",
    "Cancelled: Accepted Finished Failed !Ready Stalled",
    "Cancelling: Accepted !Finished !Ready Stalled",
];

/// The reference service's states, in the order in which a run passes through them.
const STATES: [&str; 7] = [
    "queued",
    "provisioning",
    "running",
    "cancelling",
    "cancelled",
    "failed",
    "succeeded",
];

/// The row of the conditions table that a Run shows: phase and conditions, without `Synced`.
pub(crate) fn row(run: &Run) -> String {
    let status = run.status.clone().unwrap_or_default();
    let mut row = status
        .phase
        .map_or_else(|| "no phase:".to_owned(), |phase| format!("{phase:?}:"));
    for kind in COLUMNS {
        if let Some(condition) = conditions::find(&status.conditions, kind) {
            row.push_str(match condition.status.as_str() {
                "True" => " ",
                "False" => " !",
                _ => " ?",
            });
            row.push_str(kind.as_str());
        }
    }
    row
}

#[derive(Default)]
struct Seen {
    versions: Vec<Run>,
    /// The names of deleted Runs.
    gone: Vec<String>,
}

/// The versions of a namespace's Runs from the moment of its making.
pub(crate) struct History {
    runs: Api<Run>,
    seen: Arc<Mutex<Seen>>,
    watch: JoinHandle<()>,
}

impl History {
    /// Begins to watch. No version is left out: a watch from a list's version brings every later one.
    pub(super) async fn begin(runs: Api<Run>) -> Self {
        let list = runs.list(&ListParams::default()).await.unwrap();
        let seen = Arc::new(Mutex::new(Seen {
            versions: list.items,
            gone: Vec::new(),
        }));
        let from = list.metadata.resource_version.unwrap_or_default();
        let watch = tokio::spawn(follow(runs.clone(), from, Arc::clone(&seen)));
        Self { runs, seen, watch }
    }

    /// The versions of one Run seen until now, oldest first.
    pub(crate) fn of(&self, name: &str) -> Vec<Run> {
        let versions = &self.seen.lock().unwrap().versions;
        let of_this = |run: &&Run| run.name_any() == name;
        versions.iter().filter(of_this).cloned().collect()
    }

    /// Waits for a version of a Run, without asking the API server.
    pub(crate) async fn until(&self, name: &str, what: &str, wanted: impl Fn(&Run) -> bool) -> Run {
        eventually(&format!("the Run {name} {what}"), async || {
            match self.of(name).pop() {
                Some(run) if wanted(&run) => Ok(run),
                other => Err(serde_json::to_string_pretty(&other).unwrap()),
            }
        })
        .await
    }

    /// Waits until a Run no longer exists, without a request to the API server.
    pub(crate) async fn gone(&self, name: &str) {
        eventually(&format!("the Run {name} is gone"), async || {
            let gone = self.seen.lock().unwrap().gone.iter().any(|n| n == name);
            if gone { Ok(()) } else { Err("it is there") }
        })
        .await;
    }

    /// Waits until the watch has brought the current version of every Run, then checks what must hold
    /// in each version, and from each to the next.
    ///
    /// # Panics
    /// With the version that breaks a promise.
    pub(crate) async fn holds(&self) {
        let now = self.runs.list(&ListParams::default()).await.unwrap();
        eventually("the history is complete", async || {
            let versions = &self.seen.lock().unwrap().versions;
            let seen = |run: &Run| {
                versions.iter().any(|v| {
                    v.metadata.uid == run.metadata.uid
                        && v.resource_version() == run.resource_version()
                })
            };
            if now.items.iter().all(seen) {
                Ok(())
            } else {
                Err("an older version")
            }
        })
        .await;
        let versions = &self.seen.lock().unwrap().versions;
        assert!(!versions.is_empty(), "no version of any Run was seen");
        let mut last: HashMap<String, Run> = HashMap::new();
        for run in versions {
            check(run);
            if let Some(before) = last.insert(run.uid().unwrap(), run.clone()) {
                check_step(&before, run);
            }
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

async fn follow(runs: Api<Run>, mut from: String, seen: Arc<Mutex<Seen>>) {
    loop {
        // An API server that is down for a moment is no reason to stop; the watch continues from the same
        // version.
        if let Ok(events) = runs.watch(&WatchParams::default(), &from).await {
            let mut events = std::pin::pin!(events);
            while let Ok(Some(event)) = events.try_next().await {
                // Where the server no longer has what came after (410), the watch restarts.
                if matches!(&event, WatchEvent::Error(status) if status.code == 410) {
                    from = relist(&runs, &seen).await.unwrap_or(from);
                    break;
                }
                let gone = matches!(event, WatchEvent::Deleted(_));
                let (WatchEvent::Added(run) | WatchEvent::Modified(run) | WatchEvent::Deleted(run)) =
                    event
                else {
                    continue;
                };
                from = run.resource_version().unwrap();
                let mut seen = seen.lock().unwrap();
                if gone {
                    seen.gone.push(run.name_any());
                }
                seen.versions.push(run);
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Takes in what is there now; returns the version to watch from.
async fn relist(runs: &Api<Run>, seen: &Mutex<Seen>) -> Option<String> {
    let list = runs.list(&ListParams::default()).await.ok()?;
    let versions = &mut seen.lock().unwrap().versions;
    for run in list.items {
        let known = |v: &&Run| v.uid() == run.uid();
        if versions
            .iter()
            .rfind(known)
            .map(ResourceExt::resource_version)
            != Some(run.resource_version())
        {
            versions.push(run);
        }
    }
    list.metadata.resource_version
}

/// Checks that hold in each version.
fn check(run: &Run) {
    let Some(status) = run.status.as_ref().filter(|s| s.phase.is_some()) else {
        return;
    };
    let must = |holds: bool, what: &str| {
        assert!(
            holds,
            "{what} in {}",
            serde_json::to_string_pretty(run).unwrap()
        );
    };
    let row = row(run);
    must(ROWS.contains(&row.as_str()), "no row of the table");
    let all = &status.conditions;
    let both = [Type::Reconciling, Type::Stalled].map(|kind| conditions::is_true(all, kind));
    must(both != [true; 2], "Reconciling and Stalled together");
    for condition in all {
        let generation = condition.observed_generation;
        let same = generation == status.observed_generation;
        must(same, "a condition that speaks of another generation");
        must(!condition.message.is_empty(), "no sentence");
    }
    let last = status.events.last().and_then(|event| event.id.as_ref());
    let cursor = last.is_none() || last == status.last_event_id.as_ref();
    must(cursor, "the cursor is not the last event");
    must(status.events.len() <= 10, "too many events");
    for event in &status.events {
        let named = event.data.as_deref().and_then(state_named);
        let named = named.and_then(|named| rank(&named));
        let state = status.state.as_deref().and_then(rank);
        let behind = named.zip(state).is_none_or(|(named, state)| state >= named);
        must(behind, "the cursor is ahead of the state");
    }
}

/// Checks that hold from one version to the next of the same object.
fn check_step(before: &Run, after: &Run) {
    let (Some(old), Some(new)) = (&before.status, &after.status) else {
        return;
    };
    let must = |holds: bool, what: &str| {
        let text = |run: &Run| serde_json::to_string_pretty(run).unwrap();
        assert!(holds, "{what}: {}\nthen\n{}", text(before), text(after));
    };
    if old.run_id.is_some() {
        must(old.run_id == new.run_id, "the runId changed");
        must(old.workspace == new.workspace, "the Workspace changed");
    }
    if old.phase.is_some_and(Phase::terminal) {
        must(old.phase == new.phase, "an end was not the end");
        let same = old.completion_time == new.completion_time;
        must(same, "the end moved");
    }
    must(new.event_count >= old.event_count, "events were forgotten");
    let generation = new.observed_generation >= old.observed_generation;
    must(generation, "an older generation");
}

fn state_named(data: &str) -> Option<String> {
    let data: serde_json::Value = serde_json::from_str(data).ok()?;
    Some(data.get("state")?.as_str()?.to_owned())
}

fn rank(state: &str) -> Option<usize> {
    STATES.iter().position(|s| *s == state)
}
