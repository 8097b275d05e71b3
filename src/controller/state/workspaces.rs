//! The Workspaces' state for their Runs: verified sessions, in memory only. This state is authoritative, not a
//! Workspace's status: only this process has the service's answer for its exact token.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{Semaphore, watch};

use crate::api::{WorkspaceKey, status::ResolvedWorkspace};
use crate::controller::metrics::Metrics;
use crate::decide::{
    Session, WorkspaceView,
    response::answer::{Failure, FailureKind},
    run::pinning::elsewhere,
};
use crate::service::{Client, Credentials};
use crate::util::lock;

use super::{call_limiter::CallLimiter, probes::Probe};

/// A client and the token that it was verified with.
pub struct ClientSession {
    /// The client for the Workspace's base URL.
    pub client: Client,
    /// The credentials of its calls.
    pub credentials: Credentials,
    /// The session's number.
    pub number: u64,
    /// The limit on its calls.
    pub limiter: Arc<CallLimiter>,
}

/// State of a Workspace, and the session that its Runs use.
#[derive(Clone)]
pub struct WorkspaceState {
    /// View for policy.
    pub view: WorkspaceView,
    /// Session for calls; present only while the view is Ready.
    pub session: Option<Arc<ClientSession>>,
    /// Place of the last verified session, until a check finds that the Workspace has another place or none.
    /// Until then a stream open there stays open, even if no call can be made.
    pub place: Option<Arc<ResolvedWorkspace>>,
}

impl WorkspaceState {
    /// A Workspace with which no call can be made and no stream is kept.
    pub fn closed(view: WorkspaceView) -> Self {
        Self::paused(view, None)
    }

    /// A Workspace with which no call can be made now; the streams of `place` stay open.
    pub fn paused(view: WorkspaceView, place: Option<Arc<ResolvedWorkspace>>) -> Self {
        Self {
            view,
            session: None,
            place,
        }
    }

    /// A verified Workspace.
    pub fn ready(verified: Session, session: Arc<ClientSession>) -> Self {
        Self {
            place: Some(Arc::new(verified.resolved.clone())),
            view: WorkspaceView::Ready(verified),
            session: Some(session),
        }
    }

    /// Whether a stream opened at `place` may stay open, even if the token changes.
    pub fn keeps(&self, place: &ResolvedWorkspace) -> bool {
        let now = self.place.as_ref();
        now.is_some_and(|now| elsewhere(place, now).is_none())
    }
}

/// Reason to suspect a Workspace after a Run's call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTrigger {
    /// 401: the token is no longer valid.
    Unauthorized,
    /// No answer, or a proxy's: the service may be down.
    Outage,
}

impl ProbeTrigger {
    /// The suspicion that a failed call raises.
    pub fn of(failure: &Failure) -> Option<Self> {
        match (failure.kind, failure.http_status) {
            (FailureKind::Transport, _) | (FailureKind::Bare, Some(500..=599)) => {
                Some(Self::Outage)
            }
            (_, Some(401)) => Some(Self::Unauthorized),
            _ => None,
        }
    }
}

/// Calls for the checks of Workspaces at the same time.
const CHECK_CALLS: usize = 32;
/// Of these at one origin (scheme, host and port). A call ends within 10 s (`service::Client`): while at most three
/// origins hang, a check at another one waits for none of them.
const CHECK_CALLS_AT_ORIGIN: usize = 8;

/// The places for the calls of checks.
pub struct CheckPlaces {
    all: Semaphore,
    /// Those of the origins that are being called or waited for.
    origins: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Default for CheckPlaces {
    fn default() -> Self {
        Self {
            all: Semaphore::new(CHECK_CALLS),
            origins: Mutex::default(),
        }
    }
}

impl CheckPlaces {
    /// Makes a call of a check at `origin` as soon as a place is free there and in all.
    pub async fn call<T>(&self, origin: &str, call: impl Future<Output = T>) -> T {
        let places = self.at(origin);
        // The origin's place first: what waits for an origin that hangs takes no place from the others.
        // Neither semaphore is ever closed.
        let _at_origin = places.acquire().await.ok();
        let _in_all = self.all.acquire().await.ok();
        call.await
    }

    fn at(&self, origin: &str) -> Arc<Semaphore> {
        let mut origins = lock(&self.origins);
        origins.retain(|_, places| places.strong_count() > 0);
        let known = origins.get(origin).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let places = Arc::new(Semaphore::new(CHECK_CALLS_AT_ORIGIN));
            origins.insert(origin.to_owned(), Arc::downgrade(&places));
            places
        })
    }
}

/// The table of Workspaces.
#[derive(Default)]
pub struct Workspaces {
    entries: Mutex<HashMap<WorkspaceKey, Arc<WorkspaceEntry>>>,
    sessions: AtomicU64,
    /// The places for the calls of their checks.
    pub check_places: CheckPlaces,
}

/// One Workspace in this process: its state for the Runs, its checks, and its deletion.
pub struct WorkspaceEntry {
    /// Its name.
    pub key: WorkspaceKey,
    state: watch::Sender<Arc<WorkspaceState>>,
    probe: Mutex<Probe>,
    guard: Mutex<DeletionGuard>,
}

/// Prevents first submissions during the deletion of the Workspace.
#[derive(Default)]
struct DeletionGuard {
    closed: bool,
    /// First intents that are being written.
    inside: usize,
}

/// Permit to write a first intent; released when dropped.
pub struct SubmissionPermit(Arc<WorkspaceEntry>);

impl Drop for SubmissionPermit {
    fn drop(&mut self) {
        let mut guard = lock(&self.0.guard);
        guard.inside = guard.inside.saturating_sub(1);
    }
}

impl Workspaces {
    /// The entry of a Workspace; created if missing.
    pub fn entry(&self, key: &WorkspaceKey) -> Arc<WorkspaceEntry> {
        Arc::clone(entry(&mut lock(&self.entries), key))
    }

    /// The entry of a Workspace, if there is one.
    pub fn get(&self, key: &WorkspaceKey) -> Option<Arc<WorkspaceEntry>> {
        lock(&self.entries).get(key).cloned()
    }

    /// The state of a Workspace; `Unknown` before its first check.
    pub fn state(&self, key: &WorkspaceKey) -> Arc<WorkspaceState> {
        self.get(key).map_or_else(
            || Arc::new(WorkspaceState::closed(WorkspaceView::Unknown)),
            |entry| entry.state(),
        )
    }

    /// Subscribes to the state of a Workspace.
    pub fn subscribe(&self, key: &WorkspaceKey) -> watch::Receiver<Arc<WorkspaceState>> {
        // Under the lock: an entry with a subscriber is not forgotten.
        entry(&mut lock(&self.entries), key).state.subscribe()
    }

    /// Begins a first submission; `None` if the Workspace is being deleted.
    pub fn begin_submission(&self, key: &WorkspaceKey) -> Option<SubmissionPermit> {
        // Under the lock: an entry with a submission is not forgotten.
        let mut entries = lock(&self.entries);
        let entry = entry(&mut entries, key);
        let mut guard = lock(&entry.guard);
        if guard.closed {
            return None;
        }
        guard.inside += 1;
        Some(SubmissionPermit(Arc::clone(entry)))
    }

    /// Number for a new session, larger than all earlier ones.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Every Workspace with an entry.
    pub fn all(&self) -> Vec<Arc<WorkspaceEntry>> {
        lock(&self.entries).values().cloned().collect()
    }

    /// Forgets a deleted Workspace, unless a stream waits for one of its name, or a first intent is being written.
    pub fn forget(&self, key: &WorkspaceKey) {
        let mut entries = lock(&self.entries);
        let Some(entry) = entries.get(key) else {
            return;
        };
        *lock(&entry.probe) = Probe::default();
        let mut guard = lock(&entry.guard);
        guard.closed = false;
        let wanted = guard.inside > 0 || entry.state.receiver_count() > 0;
        drop(guard);
        if !wanted {
            entries.remove(key);
        }
    }
}

fn entry<'a>(
    entries: &'a mut HashMap<WorkspaceKey, Arc<WorkspaceEntry>>,
    key: &WorkspaceKey,
) -> &'a Arc<WorkspaceEntry> {
    entries.entry(key.clone()).or_insert_with(|| {
        Arc::new(WorkspaceEntry {
            key: key.clone(),
            state: watch::Sender::new(Arc::new(WorkspaceState::closed(WorkspaceView::Unknown))),
            probe: Mutex::default(),
            guard: Mutex::default(),
        })
    })
}

impl WorkspaceEntry {
    /// The state for its Runs.
    pub fn state(&self) -> Arc<WorkspaceState> {
        Arc::clone(&self.state.borrow())
    }

    /// Sets the state for its Runs. Returns whether it changed.
    pub fn set(&self, state: WorkspaceState) -> bool {
        self.state.send_if_modified(|current| {
            let same = current.view == state.view && current.place == state.place;
            *current = Arc::new(state);
            !same
        })
    }

    /// The limit on its calls.
    pub fn limiter(&self, metrics: &Arc<Metrics>) -> Arc<CallLimiter> {
        let new = || CallLimiter::new(self.key.clone(), Arc::clone(metrics));
        self.probe(|probe| probe.limiter(new))
    }

    /// Reads or changes its checks. Must not be nested.
    pub fn probe<T>(&self, f: impl FnOnce(&mut Probe) -> T) -> T {
        f(&mut lock(&self.probe))
    }

    /// Records a suspicion about the session `number`, raised by a Run's call. Returns whether it requires a check of
    /// the Workspace. A rejected token is used for no call until a check succeeds; open streams stay open.
    pub fn suspect(&self, number: u64, suspicion: ProbeTrigger) -> bool {
        let meant =
            |state: &WorkspaceState| state.session.as_ref().is_some_and(|s| s.number == number);
        let current = match suspicion {
            // In one step: the result of a check that has just succeeded must not be undone.
            ProbeTrigger::Unauthorized => self.state.send_if_modified(|state| {
                let meant = meant(state);
                if meant {
                    let place = state.place.clone();
                    *state = Arc::new(WorkspaceState::paused(WorkspaceView::Unknown, place));
                }
                meant
            }),
            ProbeTrigger::Outage => meant(&self.state.borrow()),
        };
        current && self.probe(Probe::suspect)
    }

    /// Stops admitting first submissions. Returns whether none is in flight.
    pub fn close_submissions(&self) -> bool {
        let mut guard = lock(&self.guard);
        guard.closed = true;
        guard.inside == 0
    }

    /// Admits first submissions: the Workspace is not being deleted.
    pub fn open_submissions(&self) {
        lock(&self.guard).closed = false;
    }

    /// Whether first submissions are not admitted.
    pub fn submissions_closed(&self) -> bool {
        lock(&self.guard).closed
    }
}

#[cfg(test)]
mod tests;
