//! Every version that the API server ever showed of a world's Runs, and what must hold in each.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;

use run_operator::api::{ConditionType as Type, Phase, Run, conditions};

use super::wait::eventually;

/// The conditions of the design's table, in its order; `Synced`, the freshness, is in no row.
const COLUMNS: [Type; 9] = [
    Type::Accepted,
    Type::Suspended,
    Type::Finished,
    Type::Complete,
    Type::Failed,
    Type::Cancelled,
    Type::Ready,
    Type::Reconciling,
    Type::Stalled,
];

/// The rows of the design's table "Conditions, by situation". `!` is False; what is not named is absent.
const ROWS: [&str; 14] = [
    "Pending: !Accepted !Finished !Ready Reconciling",
    "Pending: !Accepted Suspended !Finished !Ready",
    "Pending: !Accepted !Finished !Ready Stalled",
    "Active: Accepted !Finished !Ready Reconciling",
    "Active: Accepted !Finished Ready",
    // A submitted Run that a person must handle: another runID appeared.
    "Active: Accepted !Finished !Ready Stalled",
    "Cancelling: Accepted !Finished !Ready Reconciling",
    "Succeeded: Accepted Finished Complete Ready",
    "Failed: Accepted Finished Failed !Ready Stalled",
    // Refused for good: it never was at the service.
    "Failed: !Accepted Finished Failed !Ready Stalled",
    "Cancelled: !Accepted Finished Cancelled Ready",
    "Cancelled: Accepted Finished Cancelled Ready",
    "Cancelled: Accepted Finished Failed Cancelled !Ready Stalled",
    "Cancelling: Accepted !Finished !Ready Stalled",
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

/// Every version, oldest first.
type Seen = Arc<Mutex<Vec<Run>>>;

/// Takes in an event; true if it ends a list.
fn take(seen: &Seen, event: watcher::Result<Event<Run>>) -> bool {
    match event {
        Ok(Event::InitDone) => return true,
        Ok(Event::InitApply(run) | Event::Apply(run) | Event::Delete(run)) => {
            seen.lock().unwrap().push(run);
        }
        Ok(Event::Init) | Err(_) => {}
    }
    false
}

/// The versions of a namespace's Runs from the moment of its making.
pub(crate) struct History {
    runs: Api<Run>,
    seen: Seen,
    watch: JoinHandle<()>,
}

impl History {
    /// Begins to watch. No version is left out: a watch from a list's version brings every later one.
    pub(super) async fn begin(runs: Api<Run>) -> Self {
        let seen = Seen::default();
        let mut events = watcher(runs.clone(), Config::default()).boxed();
        while let Some(event) = events.next().await {
            if take(&seen, event) {
                break;
            }
        }
        let taking = Arc::clone(&seen);
        let watch = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if event.is_err() {
                    // An API server that is down for a moment is no reason to stop.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
                take(&taking, event);
            }
        });
        Self { runs, seen, watch }
    }

    /// The versions of one Run seen until now, oldest first.
    pub(crate) fn of(&self, name: &str) -> Vec<Run> {
        let versions = self.seen.lock().unwrap();
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

    /// Waits until the watch has brought the current version of every Run, then checks what must hold
    /// in each version, and from each to the next.
    ///
    /// # Panics
    /// With the version that breaks a promise.
    pub(crate) async fn holds(&self) {
        let now = self.runs.list(&ListParams::default()).await.unwrap();
        eventually("the history is complete", async || {
            let versions = self.seen.lock().unwrap();
            // A version is of one object only.
            let versions: HashSet<_> = versions.iter().map(Run::resource_version).collect();
            let seen = |run: &Run| versions.contains(&run.resource_version());
            let all = now.items.iter().all(seen);
            if all { Ok(()) } else { Err("an older version") }
        })
        .await;
        let versions = self.seen.lock().unwrap();
        assert!(!versions.is_empty(), "no version of any Run was seen");
        let mut last: HashMap<String, Run> = HashMap::new();
        for run in &*versions {
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

/// Checks that hold in each version.
fn check(run: &Run) {
    let Some(status) = run.status.as_ref().filter(|s| s.is_observed()) else {
        return;
    };
    let row = row(run);
    assert!(ROWS.contains(&row.as_str()), "{row} in {run:#?}");
    for condition in &status.conditions {
        let same = condition.observed_generation == status.observed_generation;
        assert!(same, "a condition of another generation in {run:#?}");
        assert!(!condition.message.is_empty(), "no sentence in {run:#?}");
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
        must(old.run_id == new.run_id, "the runID changed");
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
