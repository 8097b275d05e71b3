//! The Runs that this process tracks, by uid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use tokio::{sync::Notify, task::AbortHandle};

use crate::api::{Contract, Run};
use crate::clock::{now, wall};
use crate::decide::{
    Memory, Report, ReportContext, Stream,
    turn::{Outcome, Step, TrackedRun},
};
use crate::util::lock;

use super::{call_limiter::CallPermit, places::Queued};

/// A call that waits longer is shown in the status.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(15);

#[derive(Default)]
pub struct TrackedRuns(Mutex<HashMap<String, Arc<RunEntry>>>);

pub struct RunEntry {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Wakes the stream's task from its reconnect backoff.
    pub wake_stream: Notify,
    state: Mutex<State>,
}

/// The mutable state of an entry. Locked briefly, never across an await.
pub struct State {
    pub run: TrackedRun<Run>,
    pub stream: StreamTask,
    pub streaming: Stream,
    /// The resourceVersion whose reconcile panicked; it is not reconciled again.
    pub panicked_at_version: Option<String>,
    /// The place in the queue for a call, or the permit that was granted for it.
    pub place: Option<Queued<CallPermit>>,
    /// Time since which it waits for a slot of its Workspace.
    pub queued_since: Option<Timestamp>,
    pub write_failures: u32,
    /// Writes in a row that met a conflict or a missing object.
    pub conflicts: u32,
}

#[derive(Default)]
pub struct StreamTask {
    number: u64,
    running: Option<AbortHandle>,
    /// Tasks in a row that ended unasked.
    pub(crate) ended: u32,
}

impl StreamTask {
    pub(crate) fn start(&mut self, spawn: impl FnOnce(u64) -> AbortHandle) -> bool {
        let starts = self.running.is_none();
        if starts {
            self.number += 1;
            self.running = Some(spawn(self.number));
        }
        starts
    }

    /// Records the end of the task with this number. Returns whether it ended unasked.
    pub(crate) fn end(&mut self, number: u64) -> bool {
        let unasked = self.number == number && self.running.take().is_some();
        if unasked {
            self.ended = self.ended.saturating_add(1);
        }
        unasked
    }
}

impl TrackedRuns {
    pub fn entry(&self, run: &Run) -> Arc<RunEntry> {
        let uid = run.uid().unwrap_or_default();
        let mut entries = lock(&self.0);
        let entry = entries.entry(uid.clone()).or_insert_with(|| {
            let state = State {
                run: TrackedRun::new(Memory::of(run)),
                stream: StreamTask::default(),
                streaming: Stream::Closed,
                panicked_at_version: None,
                place: None,
                queued_since: None,
                write_failures: 0,
                conflicts: 0,
            };
            Arc::new(RunEntry {
                uid,
                namespace: run.namespace().unwrap_or_default(),
                name: run.name_any(),
                wake_stream: Notify::new(),
                state: Mutex::new(state),
            })
        });
        Arc::clone(entry)
    }

    pub fn get(&self, uid: &str) -> Option<Arc<RunEntry>> {
        lock(&self.0).get(uid).cloned()
    }

    pub fn all(&self) -> Vec<Arc<RunEntry>> {
        lock(&self.0).values().cloned().collect()
    }

    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    pub fn forget(&self, uid: &str) {
        let entry = lock(&self.0).remove(uid);
        if let Some(entry) = entry {
            entry.close_stream();
            entry.stop_waiting();
        }
    }
}

impl RunEntry {
    /// Reads or changes the entry. Must not be nested.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut lock(&self.state))
    }

    pub fn observe(&self, seen: Arc<Run>) -> Arc<Run> {
        self.with(|state| state.run.observe(seen))
    }

    /// `deleted`: the version in which the watch has shown the deletion; it may hold a change that no earlier event carried.
    pub fn last_version(&self, deleted: Option<&Arc<Run>>) -> Option<Arc<Run>> {
        self.with(|state| {
            if let Some(run) = deleted {
                state.run.observe(Arc::clone(run));
            }
            state.run.latest().cloned()
        })
    }

    pub fn took(&self, step: &Step, mut outcome: Outcome<Run>, with: ReportContext<'_>) {
        self.with(|state| {
            if let Outcome::Written(run) = &mut outcome {
                if let Some(older) = state.run.latest()
                    && let Some(run) = Arc::get_mut(run)
                {
                    run.spec.workload.share(&older.spec.workload);
                }
                state.conflicts = 0;
                // A status that is written says nothing of the metadata, whose writes are refused.
                let metadata = matches!(step, Step::Act(_));
                if metadata || state.run.memory.refused_write.is_none() {
                    state.write_failures = 0;
                }
            }
            state.run.took(step, outcome, with);
        });
    }

    pub fn record(&self, contract: &Contract, report: Report) {
        let with = self.report_context(contract, 0);
        self.with(|state| state.run.memory.record(report, with));
    }

    /// Inputs for recording something about this Run in memory now. `session`: the number of the one it was learnt in.
    pub fn report_context<'a>(&'a self, contract: &'a Contract, session: u64) -> ReportContext<'a> {
        ReportContext {
            contract,
            uid: &self.uid,
            session,
            now: now(),
            wall: wall(),
        }
    }

    /// The permit for the call that waited, if it is granted. Its place in the queue is left with it.
    pub fn take_permit(&self) -> Option<CallPermit> {
        let (permit, left) = self.with(|state| {
            let permit = state.place.as_mut().and_then(Queued::try_given);
            let left = state.place.take_if(|_| permit.is_some());
            (permit, left)
        });
        drop(left);
        permit
    }

    pub fn waits_long(&self) -> bool {
        self.with(|state| {
            let since = state.place.as_ref().map(|place| place.since);
            since.is_some_and(|since| since.elapsed() >= LONG_WAIT)
        })
    }

    pub fn stop_waiting(&self) {
        // Dropped outside the lock: others are granted permits then.
        let unwanted = self.with(|state| state.place.take());
        drop(unwanted);
    }

    pub fn close_stream(&self) {
        let unwanted = self.with(|state| {
            state.streaming = Stream::Closed;
            state.stream.running.take()
        });
        if let Some(task) = unwanted {
            task.abort();
        }
    }
}
