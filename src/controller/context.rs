//! State that all parts of the controller share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    core::PartialObjectMeta,
    runtime::{reflector::Store, watcher},
};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::{
    ClusterWorkspace, Contract, Reason, Workspace, WorkspaceKey, workspace_ref::WorkspaceKind,
};
use crate::clock::now;
use crate::decide::{
    Settings, WorkspaceView,
    failure::{Class, FailedCall},
};
use crate::service::{AllowList, HttpPool};

use super::{
    apiserver::{self, Maybe, event_recorder::Recorder, reconciler::Trigger},
    leader::Leading,
    metrics::{Metrics, gauge},
    state::{
        keys::Keys,
        run_store::{RunStore, Wakes},
        runs::TrackedRuns,
        secrets::SecretTable,
        stream_places::StreamPlaces,
        workspaces::{WorkspaceState, Workspaces},
    },
};

/// Reads of Secrets and writes of Workspaces at the same time.
const API_REQUESTS: usize = 32;
/// Workspaces released at the same time: each lists all Runs that could need it.
const REMOVALS: usize = 4;

/// Metadata of a namespace.
pub type NamespaceMeta = Maybe<PartialObjectMeta<Namespace>>;

/// The operator's configuration, fixed at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Base URL of Workspaces that name none.
    pub base_url: Option<String>,
    /// The addresses that tokens may be sent to.
    pub allow_list: AllowList,
    /// The contract in force.
    pub contract: Arc<Contract>,
    /// The namespaces to watch; an empty list means all.
    pub namespaces: Vec<String>,
    /// Whether ClusterWorkspaces are served. If so, all of them and the namespaces are watched.
    pub cluster_workspaces: bool,
    /// Namespace of the Secrets of ClusterWorkspaces.
    pub cluster_resource_namespace: String,
    /// Settings that decisions depend on.
    pub settings: Settings,
    /// Reconciles of Runs at the same time, for each watched scope.
    pub max_concurrent_reconciles: u16,
    /// Event streams open at the same time; further Runs are polled.
    pub max_streams: usize,
    /// Length of a watch of the API server; at most 290 s.
    pub watch_timeout: Duration,
    /// Whether services by plain http are spoken to in HTTP/2.
    pub h2c: bool,
}

impl Config {
    /// The configuration of a watch of all objects.
    pub fn watcher(&self) -> watcher::Config {
        let seconds = u32::try_from(self.watch_timeout.as_secs()).unwrap_or(u32::MAX);
        watcher::Config::default().timeout(seconds)
    }
}

/// Inputs of the context.
pub struct Shared {
    pub client: kube::Client,
    pub config: Config,
    /// Enqueues Runs.
    pub run_trigger: Trigger,
    /// Enqueues Workspaces.
    pub workspace_trigger: Trigger,
    /// Enqueues ClusterWorkspaces.
    pub cluster_workspace_trigger: Trigger,
    /// The Workspaces; one store per watched scope.
    pub own_workspaces: Vec<Store<Maybe<Workspace>>>,
    /// The ClusterWorkspaces; one store, or none if they are not served.
    pub cluster_workspaces: Vec<Store<Maybe<ClusterWorkspace>>>,
    /// The namespaces' labels; one store per watched scope, none without ClusterWorkspaces.
    pub namespaces: Vec<Store<NamespaceMeta>>,
    pub metrics: Arc<Metrics>,
    /// Leadership: nothing is done for an object while another process leads.
    pub leading: Leading,
    /// Cancelled at shutdown: no new call is started.
    pub shutdown: CancellationToken,
}

/// Context shared by all loops and tasks.
pub struct Context {
    shared: Shared,
    /// Stores that have no first list yet.
    unfilled: AtomicUsize,
    /// The tracked Runs.
    pub tracked_runs: TrackedRuns,
    /// Verified Workspaces.
    pub workspaces: Workspaces,
    /// The connections to services.
    pub http: HttpPool,
    /// Limit on requests for Workspaces to the API server at the same time; each takes a connection.
    pub api_requests: Semaphore,
    /// Limit on Workspaces released at the same time.
    pub removals: Semaphore,
    /// The Secrets that Workspaces name.
    pub secrets: SecretTable,
    /// The places for event streams.
    pub streams: Arc<StreamPlaces>,
    /// Publishes Kubernetes Events.
    pub recorder: Arc<Recorder>,
    /// All Runs that the watch has shown.
    pub runs: RunStore,
    /// Runs to be reconciled because something else has changed.
    pub wakes: Wakes,
    /// Holders of idempotency keys.
    pub keys: Keys,
    /// The calls to the service in flight for Runs.
    pub calls: TaskTracker,
}

impl std::ops::Deref for Context {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Context {
    /// A context with empty state.
    pub fn new(shared: Shared) -> Self {
        let streams = gauge(shared.config.max_streams);
        shared.metrics.stream_limit.set(streams);
        Self {
            streams: Arc::new(StreamPlaces::new(shared.config.max_streams)),
            recorder: Arc::new(Recorder::new(
                shared.client.clone(),
                &shared.config.settings.process,
                Arc::clone(&shared.metrics),
            )),
            tracked_runs: TrackedRuns::default(),
            workspaces: Workspaces::default(),
            http: HttpPool::default(),
            api_requests: Semaphore::new(API_REQUESTS),
            removals: Semaphore::new(REMOVALS),
            secrets: SecretTable::default(),
            runs: RunStore::default(),
            wakes: Wakes::default(),
            keys: Keys::default(),
            calls: TaskTracker::new(),
            unfilled: AtomicUsize::new(
                // The Runs' and the Workspaces' of each scope.
                2 * shared.own_workspaces.len()
                    + shared.cluster_workspaces.len()
                    + shared.namespaces.len(),
            ),
            shared,
        }
    }

    /// Whether a Workspace is being deleted and admits no first submission.
    pub fn submissions_closed(&self, key: &WorkspaceKey) -> bool {
        let entry = self.workspaces.get(key);
        entry.is_some_and(|entry| entry.submissions_closed())
    }

    /// Whether a Workspace is in a store.
    pub fn has_workspace(&self, key: &WorkspaceKey) -> bool {
        let WorkspaceKey {
            kind,
            namespace,
            name,
        } = key;
        match kind {
            WorkspaceKind::Workspace => {
                apiserver::find(&self.own_workspaces, namespace, name).is_some()
            }
            WorkspaceKind::ClusterWorkspace => {
                apiserver::find(&self.cluster_workspaces, "", name).is_some()
            }
        }
    }

    /// Whether a new effect may begin: not during shutdown, nor after this process's term as the leader has passed.
    pub fn may_begin(&self) -> bool {
        !self.shutdown.is_cancelled() && self.leading.holds()
    }

    /// Requests a reconcile of a Workspace.
    pub fn enqueue_workspace(&self, key: &WorkspaceKey) {
        let WorkspaceKey {
            kind,
            namespace,
            name,
        } = key;
        match kind {
            WorkspaceKind::Workspace => self.workspace_trigger.enqueue(namespace, name),
            WorkspaceKind::ClusterWorkspace => self.cluster_workspace_trigger.enqueue("", name),
        }
    }

    /// Whether every store has its first list.
    pub fn synced(&self) -> bool {
        self.unfilled.load(Ordering::Acquire) == 0
    }

    /// Counts a store that has its first list. Returns whether it was the last one.
    pub fn store_filled(&self) -> bool {
        self.unfilled.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Handles a failed call with the session `number`: has the Workspace checked if the failure requires it.
    pub fn suspect(&self, key: &WorkspaceKey, number: u64, failed: &FailedCall) {
        if failed.class == Class::NoFile {
            self.metrics.no_file.inc();
        }
        if let Some(suspicion) = failed.class.recheck()
            && let Some(entry) = self.workspaces.get(key)
            && entry.suspect(number, suspicion)
        {
            self.enqueue_workspace(key);
        }
    }

    /// Handles an event stream that reopens after a break: has the Workspace checked soon, once for all streams.
    pub fn reconnects(&self, key: &WorkspaceKey) {
        let entry = self.workspaces.get(key);
        if entry.is_some_and(|entry| entry.checks(|checks| checks.reconnected(now()))) {
            self.enqueue_workspace(key);
        }
    }

    /// State of a Workspace for its Runs. `Missing` only after every store has its first list.
    pub fn workspace_state(&self, key: &WorkspaceKey) -> Arc<WorkspaceState> {
        if key.kind == WorkspaceKind::ClusterWorkspace && !self.config.cluster_workspaces {
            return Arc::new(WorkspaceState::closed(WorkspaceView::NotReady {
                reason: Reason::WorkspaceNotFound,
                message: "this operator was started without ClusterWorkspaces (--cluster-workspaces=false)."
                    .to_owned(),
                since: jiff::Timestamp::MIN,
            }));
        }
        let state = self.workspaces.state(key);
        if state.view == WorkspaceView::Unknown && self.synced() && !self.has_workspace(key) {
            return Arc::new(WorkspaceState::closed(WorkspaceView::Missing));
        }
        state
    }
}
