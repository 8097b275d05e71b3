//! The Runs that this process tracks, by uid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::api::Run;
use crate::decide::{Memory, Stream, tracked_run::TrackedRun};
use crate::util::lock;

use super::{
    call_limiter::{CallLimiter, CallPermit},
    stream_task::StreamTask,
};

/// A call that waits longer is shown in the status.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(15);

/// The table of tracked Runs.
#[derive(Default)]
pub struct TrackedRuns {
    entries: Mutex<HashMap<String, Arc<RunEntry>>>,
}

/// One tracked Run.
pub struct RunEntry {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Ends the pause of the garbage collector's cleanup of this Run.
    pub changed: Notify,
    /// Ends the pause of the stream's task.
    pub hurry: Notify,
    state: Mutex<State>,
}

/// The mutable state of an entry. Locked briefly, never across an await.
pub struct State {
    /// The Run's memory and what is in flight for it.
    pub run: TrackedRun<Run>,
    /// The event stream's task.
    pub stream: StreamTask,
    /// The stream's state for policy.
    pub streaming: Stream,
    /// The resourceVersion whose reconcile panicked; it is not reconciled again.
    pub quarantined: Option<String>,
    /// The task that waits for the permit of a call.
    pub waiting: Option<Waiting>,
    /// The permit granted while a reconcile was in flight.
    pub granted: Option<CallPermit>,
    /// Failed Kubernetes writes in a row.
    pub write_failures: u32,
    /// Writes in a row that met a conflict or a missing object.
    pub conflicts: u32,
    /// The Run is settled and this entry is no longer in the table; a later reconcile has an entry of its own.
    pub retired: bool,
}

/// A task parked on the permit of a call. Dropping this aborts the task.
pub struct Waiting {
    /// The limiter of the permit.
    pub limiter: Arc<CallLimiter>,
    /// Start of the wait.
    pub since: Instant,
    /// Handle that aborts it.
    pub task: AbortHandle,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Events from the tasks of calls to the manager.
pub enum CallEvent {
    /// The permit that a Run waited for was granted.
    Granted {
        /// The Run of the call.
        entry: Arc<RunEntry>,
        /// The permit.
        permit: CallPermit,
    },
    /// A call ended after the loops were asked to end: no loop reconciles its Run.
    Ended {
        /// The Run of the call.
        entry: Arc<RunEntry>,
        /// Counts as a call until the outcome is written.
        counted: TaskTrackerToken,
    },
}

impl TrackedRuns {
    /// The entry of an object; created if missing.
    pub fn entry(&self, run: &Run) -> Arc<RunEntry> {
        let uid = run.uid().unwrap_or_default();
        let mut entries = lock(&self.entries);
        let entry = entries.entry(uid.clone()).or_insert_with(|| {
            let state = State {
                run: TrackedRun::new(Memory::of(run)),
                stream: StreamTask::default(),
                streaming: Stream::Closed,
                quarantined: None,
                waiting: None,
                granted: None,
                write_failures: 0,
                conflicts: 0,
                retired: false,
            };
            Arc::new(RunEntry {
                uid,
                namespace: run.namespace().unwrap_or_default(),
                name: run.name_any(),
                changed: Notify::new(),
                hurry: Notify::new(),
                state: Mutex::new(state),
            })
        });
        Arc::clone(entry)
    }

    /// The entry of an object, if there is one.
    pub fn get(&self, uid: &str) -> Option<Arc<RunEntry>> {
        lock(&self.entries).get(uid).cloned()
    }

    /// Every entry.
    pub fn all(&self) -> Vec<Arc<RunEntry>> {
        lock(&self.entries).values().cloned().collect()
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        lock(&self.entries).len()
    }

    /// Stops tracking a settled Run. False while something is in flight for it.
    pub fn retire(&self, uid: &str) -> bool {
        let mut entries = lock(&self.entries);
        // Under the table's lock: whoever finds an entry retired finds another one, or none, in the table.
        if !entries
            .get(uid)
            .is_none_or(|entry| entry.with(State::retire))
        {
            return false;
        }
        let entry = entries.remove(uid);
        drop(entries);
        end_tasks(entry);
        true
    }

    /// Forgets an object and ends its tasks.
    pub fn forget(&self, uid: &str) {
        let entry = lock(&self.entries).remove(uid);
        end_tasks(entry);
    }
}

/// Ends the tasks of an entry that has left the table.
fn end_tasks(entry: Option<Arc<RunEntry>>) {
    if let Some(entry) = entry {
        entry.close_stream();
        entry.stop_waiting();
    }
}

impl State {
    /// Retires the entry, unless it is in use.
    fn retire(&mut self) -> bool {
        let waits = self.waiting.is_some() || self.granted.is_some();
        self.retired |= self.run.idle() && !waits;
        self.retired
    }
}

impl RunEntry {
    /// Reads or changes the entry. Must not be nested.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut lock(&self.state))
    }

    /// The newer of `seen` and the newest version that this process knows.
    pub fn observe(&self, seen: Arc<Run>) -> Arc<Run> {
        self.with(|state| state.run.observe(seen))
    }

    /// The newest version that this process knows. `deleted`: the version in which the watch has shown the deletion; it may
    /// hold a change by its owner that no earlier event carried.
    pub fn last_version(&self, deleted: Option<&Arc<Run>>) -> Option<Arc<Run>> {
        self.with(|state| {
            if let Some(run) = deleted {
                state.run.observe(Arc::clone(run));
            }
            state.run.latest().cloned()
        })
    }

    /// Records the version that a write returned.
    pub fn wrote(&self, mut run: Arc<Run>) -> Arc<Run> {
        self.with(|state| {
            if let Some(older) = state.run.latest()
                && let Some(run) = Arc::get_mut(&mut run)
            {
                run.spec.workload.share(&older.spec.workload);
            }
            state.run.wrote(Arc::clone(&run));
            state.write_failures = 0;
            state.conflicts = 0;
            run
        })
    }

    /// Whether a call has waited so long that the status should show it.
    pub fn waits_long(&self) -> bool {
        let since = self.with(|state| state.waiting.as_ref().map(|waiting| waiting.since));
        since.is_some_and(|since| since.elapsed() >= LONG_WAIT)
    }

    /// Ends the wait for a call, and releases a granted permit.
    pub fn stop_waiting(&self) {
        // Both are dropped outside the lock: the limiter may need it.
        let unwanted = self.with(|state| (state.waiting.take(), state.granted.take()));
        drop(unwanted);
    }

    /// Ends the stream's task, if there is one.
    pub fn close_stream(&self) {
        let handle = self.with(|state| {
            state.streaming = Stream::Closed;
            state.stream.close()
        });
        if let Some(handle) = handle {
            handle.abort();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
mod tests {
    use super::*;

    fn run() -> Run {
        let run = serde_json::json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "spec": {"workload": {"image": "i"}},
        });
        serde_json::from_value(run).unwrap()
    }

    /// Proves: B-ended
    #[test]
    fn an_entry_in_use_is_not_retired_and_the_next_is_another() {
        let table = TrackedRuns::default();
        let entry = table.entry(&run());
        assert!(entry.with(|state| state.run.begin_reconcile()));
        assert!(!table.retire("u"));
        entry.with(|state| state.run.begin_call());
        assert!(!table.retire("u") && !entry.with(|state| state.retired));
        entry.with(|state| state.run.end_call());
        assert!(table.retire("u") && entry.with(|state| state.retired));
        assert!(table.get("u").is_none());
        let next = table.entry(&run());
        assert!(!Arc::ptr_eq(&entry, &next) && !next.with(|state| state.retired));
    }

    /// Proves: D-vanished
    #[test]
    fn an_entry_whose_cleanup_has_begun_is_not_retired() {
        let table = TrackedRuns::default();
        let entry = table.entry(&run());
        assert!(entry.with(|state| state.run.begin_cleanup()));
        assert!(!table.retire("u"));
    }
}
