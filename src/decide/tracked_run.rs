//! A process's record of one Run, and its changes with the results of effects. Shared by the controller and by the
//! models that prove it.

use std::sync::Arc;

use crate::api::{Intent, Run, RunStatus};

use super::{
    failure::{Call, Failure, RunView},
    memory::{Learned, Learning, Memory},
};

/// A version of an object.
pub trait Version {
    /// The object.
    fn run(&self) -> &Run;

    /// Whether this version is newer than another of the same object.
    fn newer_than(&self, other: &Self) -> bool;
}

impl Version for Run {
    fn run(&self) -> &Run {
        self
    }

    fn newer_than(&self, other: &Self) -> bool {
        resource_version(self) > resource_version(other)
    }
}

/// The resourceVersion as a number: documented as one since Kubernetes 1.35 (KEP-5504), and a number before that on
/// every server that stores in etcd. 0 if it is none; then the watch is trusted.
fn resource_version(run: &Run) -> u64 {
    run.metadata
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or_default()
}

/// Holds the memory of one Run.
pub trait Remembers {
    /// The memory.
    fn memory(&self) -> &Memory;

    /// Changes the memory.
    fn change<T>(&mut self, change: impl FnOnce(&mut Memory) -> T) -> T;
}

impl Remembers for Memory {
    fn memory(&self) -> &Memory {
        self
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self)
    }
}

/// Presence of the object, and the cleanup that it still needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Present, as far as this process knows.
    #[default]
    Present,
    /// Present, and this process removed the finalizer: no cleanup is needed.
    Released,
    /// Missing from the watch's cache: a live read decides if it is deleted.
    Missing,
    /// Deleted by the API server's answer, without having been released.
    Deleted,
    /// The same, and its run is being cancelled.
    Cancelling,
    /// Deleted, and no further cleanup is needed, whatever an older view of it shows.
    Done,
}

/// The operation in flight for a Run; at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Nothing.
    #[default]
    Idle,
    /// A reconcile.
    Reconcile,
    /// A call to the service; no other operation begins before it ends.
    Call,
}

/// Cleanup for an object that the watch's cache lacks.
#[derive(Clone, Debug, PartialEq)]
pub enum Cleanup<V> {
    /// An operation is in flight: a POST may still return a runId. The check is repeated when it ends.
    Busy,
    /// None, and no further operation begins.
    Done,
    /// Its run may be alive; this is the last known version of the object.
    Owed(Arc<V>),
}

/// Failure of a write to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The object is deleted.
    Deleted,
    /// It was refused, or its outcome is unknown.
    Other,
}

/// One Run as this process tracks it.
#[derive(Clone, Debug, PartialEq)]
pub struct TrackedRun<V, M = Memory> {
    /// The memory of policy.
    pub memory: M,
    latest: Option<Arc<V>>,
    presence: Presence,
    activity: Activity,
    /// A call has a result that no reconcile has processed yet.
    unprocessed: bool,
    /// The version for which a reconcile was requested while one was in flight.
    requested: Option<Arc<V>>,
}

impl<V: Version, M: Remembers> TrackedRun<V, M> {
    /// A Run of which nothing is known yet.
    pub fn new(memory: M) -> Self {
        Self {
            memory,
            latest: None,
            presence: Presence::Present,
            activity: Activity::Idle,
            unprocessed: false,
            requested: None,
        }
    }

    /// The newest version that this process saw: a write's answer is ahead of the watch.
    pub fn latest(&self) -> Option<&Arc<V>> {
        self.latest.as_ref()
    }

    /// Presence of the object.
    pub fn presence(&self) -> Presence {
        self.presence
    }

    /// The operation in flight.
    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// Whether a call has a result that no reconcile has processed yet.
    pub fn unprocessed(&self) -> bool {
        self.unprocessed
    }

    /// Records a version that was read, and returns the newest. A status written by another writer withdraws this
    /// process's earlier readings.
    pub fn observe(&mut self, seen: Arc<V>) -> Arc<V> {
        let newest = match self.latest.take() {
            Some(own) if own.newer_than(&seen) => own,
            Some(own) if own.run().status != seen.run().status => {
                let none = RunStatus::default();
                let status = seen.run().status.as_ref().unwrap_or(&none);
                self.memory.change(|memory| memory.overtaken(status));
                seen
            }
            _ => seen,
        };
        self.latest = Some(Arc::clone(&newest));
        newest
    }

    /// Records a write that was answered with this version.
    pub fn wrote(&mut self, written: Arc<V>) {
        self.latest = Some(written);
    }

    /// Records that the status was written, with so many of the service's events in it.
    pub fn status_written(&mut self, events: usize, with: Learning<'_>) {
        self.memory.change(|memory| {
            memory.learn(Learned::StatusWritten, with);
            memory.event_buffer.written(events);
        });
    }

    /// Records that the intent was written. `clean`: no POST before it can have made a run.
    pub fn intent_written(&mut self, intent: Intent, clean: bool, with: Learning<'_>) {
        self.learn(Learned::IntentWritten { intent, clean }, with);
    }

    /// Records that the call is sent.
    pub fn call_sent(&mut self, call: Call, with: Learning<'_>) {
        let learned = match call {
            Call::Create => Learned::SubmitStarted,
            Call::Get => Learned::RefreshStarted,
            Call::Cancel | Call::Version | Call::Workspace => return,
        };
        self.learn(learned, with);
    }

    /// Records the answer to the call, or its failure.
    pub fn call_answered(
        &mut self,
        call: Call,
        answer: Result<RunView, Failure>,
        with: Learning<'_>,
    ) {
        let learned = match call {
            Call::Create => Learned::Submitted(answer),
            Call::Get => Learned::Refreshed(answer),
            Call::Cancel => Learned::CancelAnswered(answer),
            Call::Version | Call::Workspace => return,
        };
        self.learn(learned, with);
    }

    fn learn(&mut self, learned: Learned, with: Learning<'_>) {
        self.memory.change(|memory| memory.learn(learned, with));
    }

    /// Records the answer to the removal of the finalizer; `true`: the object is deleted by it.
    pub fn release_answered(&mut self, answer: Result<bool, WriteFailure>) {
        self.presence = match answer {
            Ok(true) => Presence::Done,
            // An object that another process released needs no cleanup.
            Ok(false) | Err(WriteFailure::Deleted) => Presence::Released,
            Err(WriteFailure::Other) => return,
        };
    }

    /// Whether nothing is in flight for it, and no cleanup has begun.
    pub fn idle(&self) -> bool {
        let present = matches!(self.presence, Presence::Present | Presence::Released);
        present && self.activity == Activity::Idle
    }

    /// Whether a reconcile of the watched object may begin.
    pub fn reconcilable(&self) -> bool {
        matches!(
            self.presence,
            Presence::Present | Presence::Released | Presence::Missing
        )
    }

    /// Begins a reconcile, which processes all results so far. False while another is in flight, or a call, which
    /// requests a reconcile when it ends.
    pub fn begin_reconcile(&mut self) -> bool {
        if self.activity != Activity::Idle {
            return false;
        }
        self.activity = Activity::Reconcile;
        self.unprocessed = false;
        self.requested = None;
        true
    }

    /// Begins a reconcile of a version that was read; returns the newest. The version is recorded only if the reconcile
    /// begins: the answer of a call in flight may be older than it. If another reconcile is in flight, one more follows
    /// it.
    pub fn begin_reconcile_of(&mut self, seen: Arc<V>) -> Option<Arc<V>> {
        if self.begin_reconcile() {
            return Some(self.observe(seen));
        }
        if self.activity == Activity::Reconcile {
            self.requested = Some(seen);
        }
        None
    }

    /// Records the end of the reconcile; a call that it began stays in flight. Returns the version for which another
    /// reconcile was requested meanwhile.
    pub fn end_reconcile(&mut self) -> Option<Arc<V>> {
        if self.activity == Activity::Reconcile {
            self.activity = Activity::Idle;
        }
        self.requested.take()
    }

    /// Records the start of a call.
    pub fn begin_call(&mut self) {
        self.activity = Activity::Call;
    }

    /// Records the end of the call; its result must be processed.
    pub fn end_call(&mut self) {
        self.activity = Activity::Idle;
        self.unprocessed = true;
    }

    /// Records that the call was not begun after all.
    pub fn drop_call(&mut self) {
        self.activity = Activity::Idle;
    }

    /// Called when the watch's cache lacks the object. Decided in one step: a reconcile that still has the
    /// object must not begin a call whose answer would be lost.
    pub fn cleanup(&mut self) -> Cleanup<V> {
        if self.activity != Activity::Idle {
            return Cleanup::Busy;
        }
        if let Some(run) = self.unreleased().filter(|run| self.unfinished(run.run())) {
            return Cleanup::Owed(run);
        }
        self.presence = Presence::Done;
        Cleanup::Done
    }

    /// The last known version of a deleted object that still needs its Workspace: its run must be cancelled, or a call
    /// in flight may return one.
    pub fn owed(&self) -> Option<Arc<V>> {
        let calling = self.activity == Activity::Call;
        self.unreleased()
            .filter(|run| calling || self.unfinished(run.run()))
    }

    /// The latest version of an object that was not released.
    fn unreleased(&self) -> Option<Arc<V>> {
        let released = matches!(self.presence, Presence::Released | Presence::Done);
        self.latest.clone().filter(|_| !released)
    }

    /// Whether a run may be left at the service.
    fn unfinished(&self, run: &Run) -> bool {
        let stored = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
        (stored || self.memory.memory().run_id.is_some()) && !run.ended()
    }

    /// Whether the API server reports the object as deleted and cleanup is not finished.
    pub fn deleted(&self) -> bool {
        matches!(self.presence, Presence::Deleted | Presence::Cancelling)
    }

    /// Starts cleanup; false if it is already running.
    pub fn begin_cleanup(&mut self) -> bool {
        self.presence = match self.presence {
            Presence::Present => Presence::Missing,
            Presence::Deleted => Presence::Cancelling,
            Presence::Released | Presence::Missing | Presence::Cancelling | Presence::Done => {
                return false;
            }
        };
        true
    }

    /// Records a live read that shows that the object exists.
    pub fn found(&mut self) {
        if self.presence == Presence::Missing {
            self.presence = Presence::Present;
        }
    }

    /// Records that the API server reports the object as deleted.
    pub fn confirm_deleted(&mut self) {
        self.presence = match self.presence {
            Presence::Present => Presence::Deleted,
            Presence::Missing => Presence::Cancelling,
            Presence::Released => Presence::Done,
            deleted @ (Presence::Deleted | Presence::Cancelling | Presence::Done) => deleted,
        };
    }

    /// Records that no further cleanup is needed.
    pub fn finish(&mut self) {
        self.presence = Presence::Done;
    }
}

#[cfg(test)]
mod tests;
