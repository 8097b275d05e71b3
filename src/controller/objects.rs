//! What this process remembers of each Run, by uid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::api::Run;
use crate::decide::{Memory, Stream};
use kube::ResourceExt;

use super::{context::lock, gate::Gate, streams::Following, turns::Caller};

/// The table of remembered Runs.
#[derive(Default)]
pub struct Objects {
    entries: Mutex<HashMap<String, Arc<Entry>>>,
}

/// One Run of this process's memory.
pub struct Entry {
    /// The object's uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    state: Mutex<State>,
}

/// Whether an object is still held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// As far as this process knows.
    #[default]
    Held,
    /// The finalizer was taken off by this process: nothing is left to be done.
    Released,
    /// It was the last one of a deleted object: that is gone, whatever an older view of it shows.
    Gone,
}

/// What is under way for an entry, one thing at a time: what it comes to is not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// Nothing.
    #[default]
    Nothing,
    /// A reconcile.
    Reconcile,
    /// A call to the service; nothing else begins before it ends.
    Call,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whereabouts {
    /// Where the store says.
    #[default]
    Stored,
    /// The store lacks it, and it is looked for past the store.
    Sought,
    /// The API server says that it is gone, whatever the store still shows.
    Gone,
    /// The same, and its run is being cancelled.
    Settling,
}

/// What changes of an entry. Locked for moments only, never across an await.
#[derive(Default)]
pub struct State {
    /// What policy remembers.
    pub memory: Memory,
    /// The newest version of the object that this process saw: a write's answer is ahead of the watch.
    pub latest: Option<Arc<Run>>,
    /// Whether this process has let the object go.
    pub hold: Hold,
    /// The event stream's task.
    pub stream: Following,
    /// What policy sees of the stream.
    pub streaming: Stream,
    /// The resourceVersion whose reconcile panicked; left alone until it changes.
    pub quarantined: Option<String>,
    /// What is under way.
    pub doing: Doing,
    /// A call taught something that no reconcile has looked at yet.
    pub learnt: bool,
    /// The gate before which a call waits for its turn.
    pub queued_at: Option<Arc<Gate>>,
    /// Where the object is.
    pub whereabouts: Whereabouts,
    /// Failed Kubernetes writes in a row.
    pub write_failures: u32,
    /// Writes in a row that met another version than the one that was seen.
    pub conflicts: u32,
}

/// What is left to be done for an object that is gone.
pub(super) enum Parting {
    /// Something is under way: a POST may bring a runId yet.
    Busy,
    /// Nothing, and nothing begins any more.
    Settled,
    /// Its run may live; this is what was last seen of the object.
    Owes(Arc<Run>),
}

impl State {
    /// The object is gone from the store. Looked at and decided in one step: a reconcile that still has
    /// the object in its hands must not begin a call that nobody would learn of.
    pub(super) fn part(&mut self) -> Parting {
        if self.doing != Doing::Nothing {
            return Parting::Busy;
        }
        let held = self.latest.clone().filter(|_| self.hold == Hold::Held);
        if let Some(run) = held.filter(|run| self.unfinished(run)) {
            return Parting::Owes(run);
        }
        self.hold = Hold::Gone;
        Parting::Settled
    }

    /// Whether a run may be left at the service.
    fn unfinished(&self, run: &Run) -> bool {
        let stored = run.status.as_ref().is_some_and(|s| s.run_id.is_some());
        (stored || self.memory.run_id.is_some()) && !run.ended()
    }

    /// Whether this object, which is gone, still needs its Workspace: its run is to be cancelled, or a call
    /// under way may bring one. Returns what was last seen of it.
    pub(super) fn owes(&self) -> Option<Arc<Run>> {
        let held = self.latest.clone().filter(|_| self.hold == Hold::Held);
        held.filter(|run| self.doing == Doing::Call || self.unfinished(run))
    }

    /// Whether the API server says that the object is gone.
    pub(super) fn departed(&self) -> bool {
        matches!(self.whereabouts, Whereabouts::Gone | Whereabouts::Settling)
    }

    /// It is to be seen to that nothing is left of the object. False: that is under way.
    pub(super) fn vanish(&mut self) -> bool {
        self.whereabouts = match self.whereabouts {
            Whereabouts::Stored => Whereabouts::Sought,
            Whereabouts::Gone => Whereabouts::Settling,
            Whereabouts::Sought | Whereabouts::Settling => return false,
        };
        true
    }

    /// The API server says that the object is gone.
    pub(super) fn depart(&mut self) {
        self.whereabouts = match self.whereabouts {
            Whereabouts::Stored | Whereabouts::Gone => Whereabouts::Gone,
            Whereabouts::Sought | Whereabouts::Settling => Whereabouts::Settling,
        };
    }

    /// A reconcile begins: it looks at all that was learnt.
    pub(super) fn begin(&mut self) {
        self.doing = Doing::Reconcile;
        self.learnt = false;
    }
}

impl Objects {
    /// The entry of an object, made if it is new.
    pub fn entry(&self, run: &Run) -> Arc<Entry> {
        let uid = run.uid().unwrap_or_default();
        let mut entries = lock(&self.entries);
        let entry = entries.entry(uid.clone()).or_insert_with(|| {
            let mut state = State::default();
            if let Some(status) = &run.status {
                state.memory.feed.remember(status);
            }
            Arc::new(Entry {
                uid,
                namespace: run.namespace().unwrap_or_default(),
                name: run.name_any(),
                state: Mutex::new(state),
            })
        });
        Arc::clone(entry)
    }

    /// The entry of an object, if there is one.
    pub fn get(&self, uid: &str) -> Option<Arc<Entry>> {
        lock(&self.entries).get(uid).cloned()
    }

    /// Every entry.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        lock(&self.entries).values().cloned().collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.entries).len()
    }

    /// Forgets an object and ends its stream.
    pub fn forget(&self, uid: &str) {
        let entry = lock(&self.entries).remove(uid);
        if let Some(entry) = entry {
            entry.close_stream();
            entry.leave_queue();
        }
    }
}

impl Entry {
    /// Looks into or changes the entry. Never call it within itself.
    pub fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut lock(&self.state))
    }

    /// The newer of the watch's view and this process's own last write.
    pub fn newest(&self, seen: Arc<Run>) -> Arc<Run> {
        self.with(|state| {
            let newest = match state.latest.take() {
                Some(own) if version(&own) > version(&seen) => own,
                Some(own) if own.status != seen.status => {
                    state.memory.overtaken();
                    seen
                }
                _ => seen,
            };
            state.latest = Some(Arc::clone(&newest));
            newest
        })
    }

    /// A write was answered with this version.
    pub fn wrote(&self, mut run: Run) -> Arc<Run> {
        self.with(|state| {
            if let Some(older) = &state.latest {
                run.spec.workload.share(&older.spec.workload);
            }
            let run = Arc::new(run);
            state.latest = Some(Arc::clone(&run));
            state.write_failures = 0;
            state.conflicts = 0;
            run
        })
    }

    /// How it waits at a gate.
    pub(super) fn caller(&self) -> Caller {
        Caller {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// No call is wanted: others may have its turn.
    pub fn leave_queue(&self) {
        if let Some(gate) = self.with(|state| state.queued_at.take()) {
            gate.pass(&self.uid);
        }
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

/// The resourceVersion as a number: since Kubernetes 1.35 (KEP-5504) it is documented to be one, and
/// every server before it that stores in etcd gave one too. 0 where it is not, which trusts the watch.
fn version(run: &Run) -> u64 {
    run.metadata
        .resource_version
        .as_deref()
        .and_then(|v| v.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(status: &serde_json::Value) -> Arc<Run> {
        let run = json!({
            "apiVersion": "run-operator.dev/v1alpha1", "kind": "Run",
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "spec": {"workload": {"image": "i"}}, "status": status,
        });
        Arc::new(serde_json::from_value(run).unwrap())
    }

    #[test]
    fn of_an_object_that_is_gone_nothing_begins_any_more_and_what_is_under_way_ends_first() {
        let mut state = State {
            latest: Some(run(&json!({}))),
            ..State::default()
        };
        for doing in [Doing::Reconcile, Doing::Call] {
            state.doing = doing;
            assert!(matches!(state.part(), Parting::Busy));
            assert_eq!(state.hold, Hold::Held);
        }
        state.doing = Doing::Nothing;
        assert!(matches!(state.part(), Parting::Settled));
        assert_eq!(state.hold, Hold::Gone, "a reconcile leaves it alone");
    }

    #[test]
    fn an_object_is_looked_for_and_settled_once_however_it_was_missed() {
        // Missed by the store.
        let mut state = State::default();
        assert!(state.vanish() && !state.vanish() && !state.departed());
        state.depart();
        assert_eq!(state.whereabouts, Whereabouts::Settling);
        assert!(!state.vanish());
        // Missed by a write.
        let mut state = State::default();
        state.depart();
        assert!(state.departed() && state.vanish());
        assert!(state.departed() && !state.vanish());
    }

    #[test]
    fn an_object_that_vanished_needs_its_workspace_until_its_run_is_settled() {
        let mut state = State {
            latest: Some(run(&json!({"runId": "r"}))),
            ..State::default()
        };
        assert!(matches!(state.part(), Parting::Owes(_)));
        assert!(state.owes().is_some());
        state.hold = Hold::Released;
        assert!(state.owes().is_none(), "it was let go in good order");
        let mut posting = State {
            latest: Some(run(&json!({}))),
            ..State::default()
        };
        assert!(posting.owes().is_none());
        posting.doing = Doing::Call;
        assert!(posting.owes().is_some(), "the POST may bring a runId");
    }
}
