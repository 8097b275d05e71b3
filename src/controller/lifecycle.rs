//! Starts the loops, says when they are ready, and ends them in good order.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::{
    Api,
    runtime::reflector::{store, store::Writer},
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::api::{ClusterWorkspace, Run, Workspace};

use super::{
    calls, census,
    context::{Config, Context, Shared},
    handlers,
    leader::Leading,
    loops::Loop,
    metrics::{Format, Metrics, Rendered},
    namespaces::{self, Labelled},
    queue::Queue,
    reaper, reconcile,
    scope::Scope,
    secret_watch, stream_places, wall_clock, workspaces,
};

/// Concurrency of the reconciles of Workspaces, in kube's terms no bound: the calls of their checks are bounded by
/// `check_places`, fairly, and whoever waits there must hold up no other.
const UNBOUNDED: u16 = 0;

/// The controller, ready to run.
pub struct Controller {
    ctx: Arc<Context>,
    scopes: Vec<Scope>,
    runs: Vec<Loop<Run>>,
    workspaces: Vec<Loop<Workspace>>,
    /// One, or none where ClusterWorkspaces are not served; the same of each scope's namespaces.
    cluster_workspaces: Option<Loop<ClusterWorkspace>>,
    namespaces: Vec<(Scope, Writer<Labelled>)>,
}

/// Answers the health server, from whatever thread it runs on.
#[derive(Clone)]
pub struct Probe {
    ctx: Arc<Context>,
    /// Where the controller runs.
    runtime: Handle,
    rendered: Arc<Rendered>,
}

impl Controller {
    /// Sets everything up; nothing runs before [`Controller::run`]. `shutdown` ends it. Until `leading` it fills
    /// its caches, so that a takeover begins with what is known, and does nothing for any object.
    pub fn new(
        client: kube::Client,
        config: Config,
        metrics: Arc<Metrics>,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> Self {
        let scopes = Scope::of(&config.namespaces);
        let each = usize::from(config.max_concurrent_reconciles);
        metrics.set_max_workers("run", each * scopes.len());
        let (run_queue, run_wakes) = Queue::new(&scopes);
        let (workspace_queue, workspace_wakes) = Queue::new(&scopes);
        let runs: Vec<_> = (scopes.iter().cloned().zip(run_wakes))
            .map(|(scope, wakes)| Loop::new("run", scope, wakes))
            .collect();
        let workspaces: Vec<_> = (scopes.iter().cloned().zip(workspace_wakes))
            .map(|(scope, wakes)| Loop::new("workspace", scope, wakes))
            .collect();
        let served = config.cluster_workspaces;
        let (cluster_workspace_queue, cluster_wakes) = Queue::new(&[Scope::All]);
        let cluster_workspaces = cluster_wakes
            .into_iter()
            .next()
            .filter(|_| served)
            .map(|wakes| Loop::new("clusterworkspace", Scope::All, wakes));
        let (labels, namespaces): (Vec<_>, Vec<_>) = scopes
            .iter()
            .filter(|_| served)
            .map(|scope| {
                let (reader, writer) = store();
                (reader, (scope.clone(), writer))
            })
            .unzip();
        let shared = Shared {
            client,
            config,
            runs: run_queue,
            workspaces: workspace_queue,
            cluster_workspace_queue,
            cluster_stores: cluster_workspaces
                .iter()
                .map(|l| l.reader.clone())
                .collect(),
            namespaces: labels,
            run_stores: runs.iter().map(|l| l.reader.clone()).collect(),
            workspace_stores: workspaces.iter().map(|l| l.reader.clone()).collect(),
            metrics,
            leading,
            shutdown,
        };
        let ctx = Arc::new(Context::new(shared));
        Self {
            ctx,
            scopes,
            runs,
            workspaces,
            cluster_workspaces,
            namespaces,
        }
    }

    /// Answers for the health server. To be called on the runtime that the controller is to run on.
    pub fn probe(&self) -> Probe {
        Probe {
            ctx: Arc::clone(&self.ctx),
            runtime: Handle::current(),
            rendered: Arc::default(),
        }
    }

    /// Runs until shutdown, then until the reconciles and calls under way have ended. Returns whether that was
    /// asked for; a loop that ends by itself brings the others down too.
    pub async fn run(self) -> bool {
        let Self {
            ctx,
            scopes,
            runs,
            workspaces,
            cluster_workspaces,
            namespaces,
        } = self;
        let concurrency = ctx.config.max_concurrent_reconciles;
        let mut run_loops: Vec<BoxFuture<'static, ()>> = Vec::new();
        let mut tasks: Vec<BoxFuture<'static, ()>> = Vec::new();
        for (scope, (run_loop, workspace_loop)) in
            scopes.iter().zip(runs.into_iter().zip(workspaces))
        {
            let api = scope.api::<Run>(ctx.client.clone());
            let served = run_loop.serve(
                api,
                Arc::clone(&ctx),
                concurrency,
                reconcile::reconcile,
                handlers::runs,
            );
            run_loops.push(served.boxed());
            let api = scope.api::<Workspace>(ctx.client.clone());
            let served = workspace_loop.serve(
                api,
                Arc::clone(&ctx),
                UNBOUNDED,
                workspaces::reconcile,
                handlers::workspaces,
            );
            tasks.push(served.boxed());
        }
        if let Some(cluster_workspaces) = cluster_workspaces {
            let served = cluster_workspaces.serve(
                Api::all(ctx.client.clone()),
                Arc::clone(&ctx),
                UNBOUNDED,
                workspaces::reconcile,
                handlers::workspaces,
            );
            tasks.push(served.boxed());
        }
        for (scope, writer) in namespaces {
            tasks.push(namespaces::follow(Arc::clone(&ctx), scope, writer).boxed());
        }
        let delivery = tokio::spawn(Arc::clone(&ctx.recorder).deliver());
        tasks.push(reaper::run(Arc::clone(&ctx)).boxed());
        tasks.push(stream_places::run(Arc::clone(&ctx)).boxed());
        tasks.push(secret_watch::run(Arc::clone(&ctx)).boxed());
        tasks.push(wall_clock::run(Arc::clone(&ctx)).boxed());
        let shutdown = &ctx.shutdown;
        // What the calls taught is written as soon as no reconcile is under way, whatever the check of a
        // Workspace still waits for.
        let runs = async {
            let early = all(run_loops, shutdown).await;
            calls::end(&ctx).await;
            early
        };
        let (runs_early, early) = tokio::join!(runs, all(tasks, shutdown));
        for entry in ctx.objects.all() {
            entry.close_stream();
        }
        ctx.recorder.close(delivery).await;
        !(runs_early || early)
    }
}

/// Runs these until they have ended, and all else with them: a loop that is gone would leave its objects
/// to nobody, and it is better to start anew. Returns whether one ended by itself.
async fn all(tasks: Vec<BoxFuture<'static, ()>>, shutdown: &CancellationToken) -> bool {
    let watched = tasks.into_iter().map(|task| async move {
        let ended = tokio::spawn(task).await;
        let early = !shutdown.is_cancelled();
        if early {
            tracing::error!(
                panicked = ended.is_err(),
                "a loop ended by itself; shutting down"
            );
            shutdown.cancel();
        }
        early
    });
    join_all(watched).await.contains(&true)
}

impl Probe {
    /// Whether the caches are in sync. Whether the service is up is no part of it: restarting the
    /// operator would not help.
    pub fn ready(&self) -> bool {
        self.ctx.synced()
    }

    /// Waits until the controller's own runtime has run a task: the process does not only listen.
    pub async fn alive(&self) -> bool {
        self.runtime.spawn(async {}).await.is_ok()
    }

    /// The metrics as Prometheus scrapes them, at most a second old.
    pub fn metrics(&self, format: Format) -> Result<Bytes, std::fmt::Error> {
        self.rendered.text(format, Instant::now(), || {
            // Counted by the leader alone: the sum over all operators is then what there is.
            if self.ctx.leading.holds() {
                census::take(&self.ctx);
            }
            let metrics = &self.ctx.metrics;
            metrics.in_sync.set(i64::from(self.ready()));
            metrics.set_tasks(self.runtime.metrics().num_alive_tasks());
            metrics.encode(format)
        })
    }
}
