//! What every part of the controller shares.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{
    Resource,
    runtime::reflector::{Lookup, ObjectRef, Store},
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::{
    ClusterWorkspace, Contract, Reason, Run, Workspace, run::WorkspaceKind, workspace::RateLimit,
};
use crate::decide::{
    Settings, WorkspaceView,
    answer::{Failure, FailureKind},
};
use crate::service::{AllowList, HttpPool};

pub use super::apiserver::Guarded;
pub use crate::clock::{now, wall};

use super::{
    absent::Absent,
    check_places::CheckPlaces,
    checks::Checks,
    departure::Doors,
    gate::Gate,
    index::{RunIndex, WorkspaceIndex},
    leader::Leading,
    metrics::Metrics,
    namespaces::Labelled,
    notes::Recorder,
    objects::Objects,
    queue::{Queue, reference},
    registry::{Key, Registry, Slot, Suspicion},
    rivals::Claims,
    secret_table::SecretTable,
    stream_places::Places,
    versions::Versions,
    wake,
};

/// Reads of Secrets, and writes of Workspaces, at the same time.
const API_REQUESTS: usize = 32;

/// What the operator was told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Base URL of Workspaces that name none.
    pub base_url: Option<String>,
    /// The addresses that tokens may be sent to.
    pub allow_list: AllowList,
    /// The contract in force.
    pub contract: Arc<Contract>,
    /// The namespaces to watch; none means all.
    pub namespaces: Vec<String>,
    /// Whether ClusterWorkspaces are served, for which all of them and the namespaces are watched.
    pub cluster_workspaces: bool,
    /// Where the Secrets of ClusterWorkspaces are.
    pub cluster_resource_namespace: String,
    /// What decisions depend on.
    pub settings: Settings,
    /// Reconciles at the same time, for each watched scope.
    pub max_concurrent_reconciles: u16,
    /// Event streams open at the same time; Runs beyond it are polled.
    pub max_streams: usize,
    /// How long a watch of the API server lasts; at most 290 s.
    pub watch_timeout: Duration,
}

/// What the context is made from.
pub struct Shared {
    /// The Kubernetes client.
    pub client: kube::Client,
    /// What the operator was told.
    pub config: Config,
    /// Wakes Runs.
    pub runs: Queue<Guarded<Run>>,
    /// Wakes Workspaces.
    pub workspaces: Queue<Guarded<Workspace>>,
    /// Wakes ClusterWorkspaces.
    pub cluster_workspace_queue: Queue<Guarded<ClusterWorkspace>>,
    /// The Runs, a store for each watched scope.
    pub run_stores: Vec<Store<Guarded<Run>>>,
    /// The Workspaces, a store for each watched scope.
    pub workspace_stores: Vec<Store<Guarded<Workspace>>>,
    /// The ClusterWorkspaces: one store, or none where they are not served.
    pub cluster_stores: Vec<Store<Guarded<ClusterWorkspace>>>,
    /// The namespaces' labels, a store for each watched scope; none without ClusterWorkspaces.
    pub namespaces: Vec<Store<Labelled>>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Nothing is done for an object while another operator leads.
    pub leading: Leading,
    /// Cancelled when the process is asked to end: no new call is started.
    pub shutdown: CancellationToken,
}

/// Shared by everything that runs.
pub struct Context {
    shared: Shared,
    /// Stores that wait for their first list.
    unfilled: AtomicUsize,
    /// What this process remembers, by Run.
    pub objects: Objects,
    /// Who has the right to a key.
    pub claims: Claims,
    /// Verified Workspaces.
    pub registry: Registry,
    /// Where first intents are written.
    pub doors: Doors,
    /// When Workspaces are checked.
    pub checks: Checks,
    /// Who may make a call for a check.
    pub places: Arc<CheckPlaces>,
    /// The services' versions, as they are asked for.
    pub versions: Versions,
    /// The connections to services.
    pub http: HttpPool,
    /// Bounds the requests for Workspaces to the API server at the same time, each a connection.
    pub api_requests: Semaphore,
    /// The Secrets that Workspaces name.
    pub secrets: SecretTable,
    /// The places for event streams.
    pub streams: Arc<Places>,
    /// Publishes Kubernetes Events.
    pub recorder: Arc<Recorder>,
    /// Remembered Runs whose object is absent, or may be.
    pub absent: Absent,
    /// What is known of every Run in the stores.
    pub run_index: RunIndex,
    /// The same of Workspaces, and of ClusterWorkspaces.
    workspace_indexes: [WorkspaceIndex; 2],
    /// The calls to the service that are under way for Runs.
    pub calls: TaskTracker,
}

impl std::ops::Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Context {
    /// A context that remembers nothing yet.
    pub fn new(shared: Shared) -> Self {
        Self {
            streams: Arc::new(Places::new(
                shared.config.max_streams,
                shared.metrics.stream_limit.clone(),
            )),
            recorder: Arc::new(Recorder::new(
                shared.client.clone(),
                &shared.config.settings.process,
                Arc::clone(&shared.metrics),
            )),
            objects: Objects::default(),
            claims: Claims::default(),
            registry: Registry::default(),
            doors: Doors::default(),
            checks: Checks::default(),
            places: Arc::default(),
            versions: Versions::default(),
            http: HttpPool::default(),
            api_requests: Semaphore::new(API_REQUESTS),
            secrets: SecretTable::default(),
            absent: Absent::default(),
            run_index: RunIndex::default(),
            workspace_indexes: Default::default(),
            calls: TaskTracker::new(),
            unfilled: AtomicUsize::new(
                shared.run_stores.len()
                    + shared.workspace_stores.len()
                    + shared.cluster_stores.len()
                    + shared.namespaces.len(),
            ),
            shared,
        }
    }

    /// The stores of Runs, one a scope.
    pub fn run_stores(&self) -> impl Iterator<Item = &Store<Guarded<Run>>> {
        self.shared.run_stores.iter()
    }

    /// This very Run, as a store has it.
    pub fn run(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<Guarded<Run>>> {
        let object = ObjectRef::new(name).within(namespace);
        self.run_stores()
            .filter_map(|s| s.get(&object))
            .find(|run| run.meta().uid.as_deref() == Some(uid))
    }

    /// Whether this very Run is in a store.
    pub fn has_run(&self, namespace: &str, name: &str, uid: &str) -> bool {
        self.run(namespace, name, uid).is_some()
    }

    /// The gate of a Workspace, with this rate limit.
    pub fn gate(&self, key: &Key, limit: Option<RateLimit>) -> Arc<Gate> {
        self.checks.gate(key, limit, || {
            let runs = self.runs.clone();
            let wake = move |namespace: &str, name: &str| runs.wake(namespace, name);
            Gate::new(key.clone(), Box::new(wake), Arc::clone(&self.metrics))
        })
    }

    /// The index of the Workspaces of a kind.
    pub fn workspace_index(&self, kind: WorkspaceKind) -> &WorkspaceIndex {
        let [own, shared] = &self.workspace_indexes;
        match kind {
            WorkspaceKind::Workspace => own,
            WorkspaceKind::ClusterWorkspace => shared,
        }
    }

    /// Whether a Workspace is in a store.
    pub fn has_workspace(&self, key: &Key) -> bool {
        match key.kind {
            WorkspaceKind::Workspace => holds(&self.workspace_stores, key),
            WorkspaceKind::ClusterWorkspace => holds(&self.cluster_stores, key),
        }
    }

    /// Whether something new may be begun: not when the process is asked to end, nor when its term as the
    /// leader has passed.
    pub fn may_begin(&self) -> bool {
        !self.shutdown.is_cancelled() && self.leading.holds()
    }

    /// Asks for a reconcile of a Workspace.
    pub fn wake_workspace(&self, key: &Key) {
        match key.kind {
            WorkspaceKind::Workspace => self.workspaces.wake(&key.namespace, &key.name),
            WorkspaceKind::ClusterWorkspace => self.cluster_workspace_queue.wake("", &key.name),
        }
    }

    /// Whether every store is filled.
    pub fn synced(&self) -> bool {
        self.unfilled.load(Ordering::Acquire) == 0
    }

    /// A store has its first list. With the last one, the Runs that were held until every Workspace is
    /// known are woken. (kube's `wait_until_ready` wakes one waiter alone, and its own loop is one.)
    pub fn store_filled(&self) {
        if self.unfilled.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        tracing::info!("caches are in sync");
        wake::waiting(self);
    }

    /// A call with the session `number` failed: has the Workspace checked where that calls for it.
    pub fn suspect(&self, key: &Key, number: u64, failure: &Failure) {
        if failure.kind == FailureKind::NoFile {
            self.short_of_files();
        }
        if let Some(suspicion) = Suspicion::of(failure)
            && self.registry.suspect(key, number, suspicion)
        {
            self.wake_workspace(key);
        }
    }

    /// A call failed because this process may open no more files: that is nobody's outage. There are fewer
    /// streams for a while.
    pub fn short_of_files(&self) {
        self.metrics.no_file.inc();
        if let Some(streams) = self.streams.short_of_files() {
            tracing::warn!(
                streams,
                "no file was left for a call to a service; fewer event streams are kept open for a while"
            );
        }
    }

    /// An event stream is opened anew after a break: has the Workspace checked soon, once for all streams.
    pub fn reconnects(&self, key: &Key) {
        if self.checks.reconnected(key, now()) {
            self.wake_workspace(key);
        }
    }

    /// What a Run may do. Missing is said only when every Workspace is known.
    pub fn slot(&self, key: &Key) -> Slot {
        if key.kind == WorkspaceKind::ClusterWorkspace && !self.config.cluster_workspaces {
            return Slot::closed(WorkspaceView::NotReady {
                reason: Reason::WorkspaceNotFound,
                message: "this operator was started without ClusterWorkspaces (--cluster-workspaces=false)."
                    .to_owned(),
                since: jiff::Timestamp::MIN,
            });
        }
        let slot = self.registry.slot(key);
        if slot.view == WorkspaceView::Unknown && self.synced() && !self.has_workspace(key) {
            return Slot::closed(WorkspaceView::Missing);
        }
        slot
    }
}

fn holds<K>(stores: &[Store<K>], key: &Key) -> bool
where
    K: Lookup<DynamicType = ()> + Clone + 'static,
{
    let object = reference(&key.namespace, &key.name);
    stores.iter().any(|store| store.get(&object).is_some())
}

/// Locks a mutex whose holder never leaves it half-changed, so that a panic elsewhere doesn't spread.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
