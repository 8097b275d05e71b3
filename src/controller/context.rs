//! State that all parts of the controller share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    core::PartialObjectMeta,
    runtime::{reflector::Store, watcher},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::api::{
    ClusterWorkspace, Contract, Reason, RunSchedule, RunTemplate, Workspace, WorkspaceKey,
    WorkspaceKind,
};
use crate::clock::now;
use crate::decide::{
    Settings, WorkspaceView,
    failure::{Class, FailedCall},
    queue::{Queues, RunRef},
};
use crate::service::{AllowList, ServiceProxy};
use crate::util::lock;

use super::{
    apiserver::{Maybe, Scope, event_recorder::Recorder, find, reconciler::Trigger},
    leader::Leading,
    metrics::{Metrics, gauge},
    state::{
        keys::Keys,
        places::StreamPlaces,
        run_store::{RunStore, Wakes},
        runs::TrackedRuns,
        schedules::Schedules,
        secrets::SecretTable,
        workspaces::{WorkspaceState, Workspaces},
    },
};

pub type NamespaceMeta = Maybe<PartialObjectMeta<Namespace>>;

#[derive(Clone, Debug)]
pub struct Config {
    /// Base URL of Workspaces that name none.
    pub base_url: Option<String>,
    /// The addresses that tokens may be sent to.
    pub allow_list: AllowList,
    pub contract: Arc<Contract>,
    /// The namespaces to watch; an empty list means all.
    pub namespaces: Vec<String>,
    /// Whether ClusterWorkspaces are served. If so, all of them and the namespaces are watched.
    pub cluster_workspaces: bool,
    /// Whether RunSchedules are served. If so, they and the RunTemplates are watched.
    pub schedules: bool,
    /// Namespace of the Secrets of ClusterWorkspaces.
    pub cluster_resource_namespace: String,
    pub settings: Settings,
    /// Reconciles of Runs at the same time, for each watched scope.
    pub max_concurrent_reconciles: u16,
    /// Event streams open at the same time; further Runs are polled.
    pub max_streams: usize,
    /// Length of a watch of the API server; at most 290 s.
    pub watch_timeout: Duration,
    /// Whether services by plain http are spoken to in HTTP/2.
    pub h2c: bool,
    /// To services by https.
    pub service_proxy: Option<ServiceProxy>,
}

impl Config {
    pub fn watcher(&self) -> watcher::Config {
        let seconds = u32::try_from(self.watch_timeout.as_secs()).unwrap_or(u32::MAX);
        watcher::Config::default().timeout(seconds)
    }

    /// That of a process that watches nothing.
    #[cfg(test)]
    pub(crate) fn idle() -> Self {
        Self {
            base_url: None,
            allow_list: AllowList::default(),
            contract: Arc::new(Contract::builtin().unwrap()),
            namespaces: Vec::new(),
            cluster_workspaces: false,
            schedules: false,
            cluster_resource_namespace: "run-operator".to_owned(),
            settings: Settings {
                process: "me".to_owned(),
                poll_min: Duration::from_secs(2),
                poll_max: Duration::from_mins(1),
                service_events: false,
                console_origins: crate::decide::console::ConsoleOrigins::default(),
            },
            max_concurrent_reconciles: 1,
            max_streams: 1,
            watch_timeout: Duration::from_mins(2),
            h2c: false,
            service_proxy: None,
        }
    }
}

/// The watched objects other than Runs: for each a store per watched scope.
pub struct Caches {
    pub workspaces: Vec<Store<Maybe<Workspace>>>,
    /// One store, or none if they are not served.
    pub cluster_workspaces: Vec<Store<Maybe<ClusterWorkspace>>>,
    /// None without ClusterWorkspaces.
    pub namespaces: Vec<Store<NamespaceMeta>>,
    /// None if RunSchedules are not served, as of the RunTemplates.
    pub schedules: Vec<Store<Maybe<RunSchedule>>>,
    pub templates: Vec<Store<Maybe<RunTemplate>>>,
}

pub struct Triggers {
    /// By namespace and uid.
    pub runs: Trigger,
    pub workspaces: Trigger,
    pub cluster_workspaces: Trigger,
    pub schedules: Trigger,
}

pub struct Context {
    pub client: kube::Client,
    pub config: Config,
    pub metrics: Arc<Metrics>,
    pub recorder: Arc<Recorder>,
    pub leading: Leading,
    pub shutdown: CancellationToken,
    pub triggers: Triggers,
    pub caches: Caches,
    /// Stores that have no first list yet, those of the Runs included. No Run waits for those of the schedules.
    pub unfilled: AtomicUsize,
    pub runs: RunStore,
    pub tracked_runs: TrackedRuns,
    pub wakes: Wakes,
    pub keys: Keys,
    queues: Mutex<Queues>,
    pub workspaces: Workspaces,
    pub secrets: SecretTable,
    pub schedules: Schedules,
    pub streams: Arc<StreamPlaces>,
    pub calls: TaskTracker,
}

impl Context {
    /// A context with empty state. `scopes` are those of the Runs and Workspaces.
    pub fn new(
        client: kube::Client,
        config: Config,
        metrics: Arc<Metrics>,
        leading: Leading,
        shutdown: CancellationToken,
        scopes: &[Scope],
        caches: Caches,
    ) -> Self {
        metrics.stream_limit.set(gauge(config.max_streams));
        let process = &config.settings.process;
        let cluster = vec![Scope::All; caches.cluster_workspaces.len()];
        let trigger = |controller, scopes: &[Scope]| Trigger::new(controller, scopes, &metrics);
        Self {
            recorder: Arc::new(Recorder::new(client.clone(), process, Arc::clone(&metrics))),
            triggers: Triggers {
                runs: trigger("run", scopes),
                workspaces: trigger("workspace", scopes),
                cluster_workspaces: trigger("clusterworkspace", &cluster),
                schedules: trigger("runschedule", scopes),
            },
            unfilled: AtomicUsize::new(2 * scopes.len() + cluster.len() + caches.namespaces.len()),
            caches,
            runs: RunStore::default(),
            tracked_runs: TrackedRuns::default(),
            wakes: Wakes::default(),
            keys: Keys::default(),
            queues: Mutex::default(),
            workspaces: Workspaces::default(),
            secrets: SecretTable::default(),
            schedules: Schedules::default(),
            streams: Arc::new(StreamPlaces::new(config.max_streams)),
            calls: TaskTracker::new(),
            client,
            config,
            metrics,
            leading,
            shutdown,
        }
    }

    /// One of a process that watches nothing.
    #[cfg(test)]
    pub(crate) fn idle(client: kube::Client) -> Self {
        let caches = Caches {
            workspaces: Vec::new(),
            cluster_workspaces: Vec::new(),
            namespaces: Vec::new(),
            schedules: Vec::new(),
            templates: Vec::new(),
        };
        let (metrics, shutdown) = (Arc::new(Metrics::new()), CancellationToken::new());
        Self::new(
            client,
            Config::idle(),
            metrics,
            Leading::always(),
            shutdown,
            &[],
            caches,
        )
    }

    /// Whether a new effect may begin: not during shutdown, nor after this process's term as the leader has passed.
    pub fn may_begin(&self) -> bool {
        !self.shutdown.is_cancelled() && self.leading.holds()
    }

    pub fn enqueue_run(&self, namespace: &str, uid: &str) {
        self.triggers.runs.enqueue(namespace, uid);
    }

    pub fn enqueue_schedule(&self, namespace: &str, name: &str) {
        self.triggers.schedules.enqueue(namespace, name);
    }

    /// Whether a Run has a slot of its Workspace.
    pub fn has_slot(&self, uid: &str, workspace: &WorkspaceKey) -> bool {
        lock(&self.queues).has_slot(uid, workspace)
    }

    /// Changes what Runs claim, or the limits, and enqueues the Runs that have got a slot by it.
    pub fn slots(&self, change: impl FnOnce(&mut Queues) -> Vec<RunRef>) {
        let granted = change(&mut lock(&self.queues));
        for (namespace, uid) in granted {
            self.enqueue_run(&namespace, &uid);
        }
    }

    pub fn show_slots(&self) {
        self.metrics.set_slots(lock(&self.queues).usage());
    }

    pub fn enqueue_workspace(&self, key: &WorkspaceKey) {
        let trigger = match key.kind {
            WorkspaceKind::Workspace => &self.triggers.workspaces,
            WorkspaceKind::ClusterWorkspace => &self.triggers.cluster_workspaces,
        };
        trigger.enqueue(&key.namespace, &key.name);
    }

    pub fn has_workspace(&self, key: &WorkspaceKey) -> bool {
        let (caches, namespace, name) = (&self.caches, &key.namespace, &key.name);
        match key.kind {
            WorkspaceKind::Workspace => find(&caches.workspaces, namespace, name).is_some(),
            WorkspaceKind::ClusterWorkspace => {
                find(&caches.cluster_workspaces, namespace, name).is_some()
            }
        }
    }

    /// Whether a RunSchedule can be decided: also its Runs and its template are known.
    pub fn schedules_synced(&self) -> bool {
        let caches = &self.caches;
        self.synced() && caches.schedules.iter().all(filled) && caches.templates.iter().all(filled)
    }

    pub fn synced(&self) -> bool {
        self.unfilled.load(Ordering::Acquire) == 0
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

/// Whether a store has its first list.
fn filled<K>(store: &Store<K>) -> bool
where
    K: kube::runtime::reflector::Lookup<DynamicType = ()> + Clone + 'static,
{
    let ready = store.wait_until_ready().now_or_never();
    ready.is_some_and(|ready| ready.is_ok())
}
