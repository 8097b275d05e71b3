//! The Workspaces: their state for their Runs, when each is checked and what its checks keep, and its deletion. Verified
//! sessions are in memory only, and count more than a status: only this process has the answer for its exact token.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

use crate::api::{WorkspaceKey, status::ResolvedWorkspace};
use crate::controller::metrics::Metrics;
use crate::decide::{
    Session, WorkspaceView, delays::later, elsewhere, failure::ProbeTrigger, workspace::Verified,
};
use crate::service::{BaseUrl, Client, Credentials, HttpPool, Token};
use crate::util::lock;

use super::call_limiter::CallLimiter;

pub struct ClientSession {
    pub client: Client,
    pub credentials: Credentials,
    pub number: u64,
    pub limiter: Arc<CallLimiter>,
}

#[derive(Clone)]
pub struct WorkspaceState {
    pub view: WorkspaceView,
    /// Session for calls; present only while the view is Ready.
    pub session: Option<Arc<ClientSession>>,
    /// Place of the last verified session: its streams stay open until a check finds another place or none.
    pub place: Option<Arc<ResolvedWorkspace>>,
}

impl WorkspaceState {
    pub fn closed(view: WorkspaceView) -> Self {
        Self::paused(view, None)
    }

    /// No call can be made now; the streams of `place` stay open.
    pub fn paused(view: WorkspaceView, place: Option<Arc<ResolvedWorkspace>>) -> Self {
        Self {
            view,
            session: None,
            place,
        }
    }

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

const CHECK_CALLS: usize = 32;
/// Of these at one origin (scheme, host and port). A call ends within 10 s (`service::Client`): while at most three
/// origins hang, a check at another one waits for none of them.
const CHECK_CALLS_AT_ORIGIN: usize = 8;
/// Reads of Secrets and writes of Workspaces at the same time; each takes a connection to the API server.
const API_REQUESTS: usize = 32;
/// Workspaces released at the same time: each lists all Runs that could need it.
const REMOVALS: usize = 4;

pub struct CheckPlaces {
    all: Semaphore,
    origins: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl CheckPlaces {
    pub async fn call<T>(&self, origin: &str, call: impl Future<Output = T>) -> T {
        let places = {
            let mut origins = lock(&self.origins);
            origins.retain(|_, places| places.strong_count() > 0);
            let known = origins.get(origin).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let places = Arc::new(Semaphore::new(CHECK_CALLS_AT_ORIGIN));
                origins.insert(origin.to_owned(), Arc::downgrade(&places));
                places
            })
        };
        // The origin's place first: what waits for an origin that hangs takes no place from the others.
        // Neither semaphore is ever closed.
        let _at_origin = places.acquire().await.ok();
        let _in_all = self.all.acquire().await.ok();
        call.await
    }
}

pub struct Workspaces {
    entries: Mutex<HashMap<WorkspaceKey, Arc<WorkspaceEntry>>>,
    sessions: AtomicU64,
    pub http: HttpPool,
    pub check_places: CheckPlaces,
    pub api_requests: Semaphore,
    pub removals: Semaphore,
}

impl Default for Workspaces {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            sessions: AtomicU64::default(),
            http: HttpPool::default(),
            check_places: CheckPlaces {
                all: Semaphore::new(CHECK_CALLS),
                origins: Mutex::default(),
            },
            api_requests: Semaphore::new(API_REQUESTS),
            removals: Semaphore::new(REMOVALS),
        }
    }
}

pub struct WorkspaceEntry {
    pub key: WorkspaceKey,
    state: watch::Sender<Arc<WorkspaceState>>,
    checks: Mutex<Checks>,
    /// The first intents that are being written. Closed during its deletion: none begins.
    pub submissions: TaskTracker,
}

impl Workspaces {
    pub fn entry(&self, key: &WorkspaceKey) -> Arc<WorkspaceEntry> {
        Arc::clone(entry(&mut lock(&self.entries), key))
    }

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

    pub fn subscribe(&self, key: &WorkspaceKey) -> watch::Receiver<Arc<WorkspaceState>> {
        // Under the lock: an entry with a subscriber is not forgotten.
        entry(&mut lock(&self.entries), key).state.subscribe()
    }

    /// Begins a first submission, which lasts until the permit is dropped; `None` if the Workspace is being deleted.
    pub fn begin_submission(&self, key: &WorkspaceKey) -> Option<TaskTrackerToken> {
        // Under the lock: an entry with a submission is not forgotten.
        let mut entries = lock(&self.entries);
        let submissions = &entry(&mut entries, key).submissions;
        // In this order: who closes them after the look sees this one.
        let permit = submissions.token();
        (!submissions.is_closed()).then_some(permit)
    }

    /// Number for a new session, larger than all earlier ones.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn all(&self) -> Vec<Arc<WorkspaceEntry>> {
        lock(&self.entries).values().cloned().collect()
    }

    /// Forgets a deleted Workspace, unless a stream waits for one of its name, or a first intent is being written.
    pub fn forget(&self, key: &WorkspaceKey) {
        let mut entries = lock(&self.entries);
        let Some(entry) = entries.get(key) else {
            return;
        };
        *lock(&entry.checks) = Checks::default();
        entry.submissions.reopen();
        if entry.submissions.is_empty() && entry.state.receiver_count() == 0 {
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
            checks: Mutex::default(),
            submissions: TaskTracker::new(),
        })
    })
}

impl WorkspaceEntry {
    pub fn state(&self) -> Arc<WorkspaceState> {
        Arc::clone(&self.state.borrow())
    }

    pub fn set(&self, state: WorkspaceState) -> bool {
        self.state.send_if_modified(|current| {
            let same = current.view == state.view && current.place == state.place;
            *current = Arc::new(state);
            !same
        })
    }

    /// The limit on its calls: always the same one, so that a check resets nothing.
    pub fn limiter(&self, metrics: &Arc<Metrics>) -> Arc<CallLimiter> {
        let new = || Arc::new(CallLimiter::new(self.key.clone(), Arc::clone(metrics)));
        self.checks(|checks| Arc::clone(checks.limiter.get_or_insert_with(new)))
    }

    /// Reads or changes its checks. Must not be nested.
    pub fn checks<T>(&self, f: impl FnOnce(&mut Checks) -> T) -> T {
        f(&mut lock(&self.checks))
    }

    /// Returns whether a check is required. A rejected token is used for no call until one succeeds; streams stay open.
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
        current && self.checks(Checks::suspect)
    }

    /// Returns whether none is in flight.
    pub fn close_submissions(&self) -> bool {
        self.submissions.close();
        self.submissions.is_empty()
    }
}

/// A suspicion triggers a check at most this often, however many Runs raise it.
const SUSPICIONS_APART: Duration = Duration::from_secs(1);
/// Reconnecting event streams trigger a check at most this often, however many they are.
const RECONNECTS_APART: Duration = Duration::from_secs(30);

pub struct LastCheck {
    pub uid: String,
    pub generation: i64,
    /// It had its finalizer, or needed none.
    pub held: bool,
    pub ready: bool,
    pub failure_ignored: bool,
    pub at: Timestamp,
    pub next: Timestamp,
}

#[derive(Default)]
pub struct Checks {
    last: Option<LastCheck>,
    /// A call raised a suspicion that no check has cleared yet.
    suspected: bool,
    /// A check is due at once: a Secret that the Workspace names has changed, or the last check had no result.
    pub due_at_once: bool,
    pub failures: u32,
    /// Time since which no call can be made, by the checks.
    trouble: Option<Timestamp>,
    pub failed_writes: u32,
    /// With the CA bundle that it was made with.
    client: Option<(Option<Vec<u8>>, Client)>,
    limiter: Option<Arc<CallLimiter>>,
    last_good: Option<LastGood>,
}

/// Kept after the Secrets are deleted: runs are still cancelled in a namespace whose deletion removes the Secrets first.
#[derive(Clone)]
pub struct LastGood {
    pub verified: Verified,
    pub token: Token,
    pub ca_pem: Option<Vec<u8>>,
}

impl Checks {
    /// Time of the next check, if later than `now`, for an unchanged spec. `held`: it has its finalizer, or needs none.
    pub fn due_later(
        &self,
        uid: &str,
        generation: i64,
        held: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let last = self.last.as_ref().filter(|_| !self.due_at_once)?;
        if (&*last.uid, last.generation, last.held) != (uid, generation, held) {
            return None;
        }
        let suspicion = later(last.at, SUSPICIONS_APART);
        let at = if self.suspected {
            last.next.min(suspicion)
        } else {
            last.next
        };
        (at > now).then_some(at)
    }

    pub fn suspect(&mut self) -> bool {
        !std::mem::replace(&mut self.suspected, true)
    }

    /// Records the start of a check: a suspicion, or a change of a Secret, from now on is a new one.
    pub fn begin(&mut self) {
        self.suspected = false;
        self.due_at_once = false;
    }

    /// Records the end of a check. Returns whether it was the first of this spec: other fields may have changed, too.
    pub fn done(&mut self, checked: LastCheck) -> bool {
        self.failures = if checked.ready {
            0
        } else {
            self.failures.saturating_add(1)
        };
        let same = self
            .last
            .as_ref()
            .is_some_and(|last| (&last.uid, last.generation) == (&checked.uid, checked.generation));
        self.last = Some(checked);
        !same
    }

    /// An upgraded service drops its streams: the next check is now, or 30 s after the last. Returns whether that is new.
    pub fn reconnected(&mut self, now: Timestamp) -> bool {
        let Some(last) = &mut self.last else {
            return false;
        };
        let soonest = later(last.at, RECONNECTS_APART).max(now);
        let sooner = soonest < last.next;
        last.next = last.next.min(soonest);
        sooner
    }

    pub fn failure_ignored(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.failure_ignored)
    }

    pub fn no_calls_since(&mut self, now: Timestamp) -> Timestamp {
        *self.trouble.get_or_insert(now)
    }

    pub fn last_good(&self, verified: &Verified) -> Option<LastGood> {
        let last = self.last_good.as_ref()?;
        (last.verified == *verified).then(|| last.clone())
    }

    pub fn verified(&mut self, good: LastGood) {
        self.last_good = Some(good);
        self.trouble = None;
    }

    pub fn client<E>(
        &mut self,
        base_url: BaseUrl,
        ca_pem: Option<&[u8]>,
        make: impl FnOnce(BaseUrl) -> Result<Client, E>,
    ) -> Result<Client, E> {
        if let Some((ca, client)) = &self.client
            && client.base_url().as_str() == base_url.as_str()
            && ca.as_deref() == ca_pem
        {
            return Ok(client.clone());
        }
        let client = make(base_url)?;
        self.client = Some((ca_pem.map(<[u8]>::to_vec), client.clone()));
        Ok(client)
    }
}

#[cfg(test)]
mod tests;
