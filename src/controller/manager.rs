//! Starts the loops, reports when they are ready, and shuts them down in order.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use kube::{Api, runtime::reflector::store};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{
    apiserver::Scope,
    context::{Caches, Config, Context},
    enqueue,
    leader::Leading,
    metrics::{Metrics, Rendered, gauge},
    object_metrics, run, schedule, watch_events,
    workspace::secrets,
};

pub struct Controller {
    ctx: Arc<Context>,
    run_loops: Vec<BoxFuture<'static, ()>>,
    loops: Vec<BoxFuture<'static, ()>>,
}

#[derive(Clone)]
pub struct Probe {
    ctx: Arc<Context>,
    runtime: Handle,
    rendered: Arc<Rendered>,
}

impl Controller {
    /// Before it leads it only fills its caches, so that a takeover begins with filled ones.
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
        let (cluster, labelled) = if config.cluster_workspaces {
            (vec![Scope::All], scopes.clone())
        } else {
            (Vec::new(), Vec::new())
        };
        let (own, workspaces): (_, Vec<_>) = scopes.iter().map(|_| store()).unzip();
        let (shared, cluster_workspaces): (_, Vec<_>) = cluster.iter().map(|_| store()).unzip();
        let (labels, namespaces): (_, Vec<_>) = labelled.iter().map(|_| store()).unzip();
        let scheduled = if config.schedules {
            metrics.set_max_workers("runschedule", each * scopes.len());
            scopes.clone()
        } else {
            Vec::new()
        };
        let (served, schedule_writers): (_, Vec<_>) = scheduled.iter().map(|_| store()).unzip();
        let (templates, template_writers): (_, Vec<_>) = scheduled.iter().map(|_| store()).unzip();
        let caches = Caches {
            schedules: served,
            templates,
            workspaces: own,
            cluster_workspaces: shared,
            namespaces: labels,
        };
        let ctx = Context::new(client, config, metrics, leading, shutdown, &scopes, caches);
        let ctx = Arc::new(ctx);
        let host = || Arc::clone(&ctx);
        let until_shutdown = |task: BoxFuture<'static, ()>| {
            let shutdown = ctx.shutdown.clone();
            shutdown.run_until_cancelled_owned(task).map(drop).boxed()
        };
        let runs = ctx.triggers.runs.reconcilers();
        let run_loops = runs.map(|reconciler| watch_events::runs(host(), reconciler).boxed());
        let mut loops = vec![
            until_shutdown(secrets::watch_named(host()).boxed()),
            until_shutdown(secrets::read_unwatched(host()).boxed()),
            until_shutdown(enqueue::wake_runs(host()).boxed()),
            until_shutdown(run::settled::delete_expired(host()).boxed()),
        ];
        let own = ctx.triggers.workspaces.reconcilers();
        for (reconciler, writer) in own.zip(workspaces) {
            let api = reconciler.scope.api(ctx.client.clone());
            loops.push(watch_events::workspaces(host(), reconciler, api, writer).boxed());
        }
        let shared = ctx.triggers.cluster_workspaces.reconcilers();
        for (reconciler, writer) in shared.zip(cluster_workspaces) {
            let api = Api::all(ctx.client.clone());
            loops.push(watch_events::workspaces(host(), reconciler, api, writer).boxed());
        }
        for (scope, writer) in labelled.into_iter().zip(namespaces) {
            let labels = watch_events::namespaces(host(), scope, writer);
            loops.push(until_shutdown(labels.boxed()));
        }
        let reconcilers = ctx.triggers.schedules.reconcilers();
        for (reconciler, writer) in reconcilers.zip(schedule_writers) {
            loops.push(watch_events::schedules(host(), reconciler, writer).boxed());
        }
        for (scope, writer) in scheduled.into_iter().zip(template_writers) {
            let templates = watch_events::templates(host(), scope, writer);
            loops.push(until_shutdown(templates.boxed()));
        }
        if ctx.config.schedules {
            let due = schedule::reconcile::enqueue_due(host());
            loops.push(until_shutdown(due.boxed()));
        }
        Self {
            run_loops: run_loops.collect(),
            loops,
            ctx,
        }
    }

    /// Must be called on the controller's runtime.
    pub fn probe(&self) -> Probe {
        Probe {
            ctx: Arc::clone(&self.ctx),
            runtime: Handle::current(),
            rendered: Arc::default(),
        }
    }

    /// Returns whether shutdown was requested. A loop that ends early shuts down the others.
    pub async fn run(self) -> bool {
        let (ctx, asked) = (&self.ctx, &self.ctx.shutdown);
        let delivery = tokio::spawn(Arc::clone(&ctx.recorder).deliver());
        // What no call's task has written, is written once no reconcile is in flight.
        let runs = async {
            let early = all(self.run_loops, asked).await;
            run::reconcile::finish(ctx).await;
            early
        };
        let (runs_early, early) = tokio::join!(runs, all(self.loops, asked));
        for entry in ctx.tracked_runs.all() {
            entry.close_stream();
        }
        ctx.recorder.close(delivery).await;
        !(runs_early || early)
    }
}

/// If one ends early, all are shut down: a restart is better than objects that no loop serves. Returns whether one did.
async fn all(tasks: Vec<BoxFuture<'static, ()>>, shutdown: &CancellationToken) -> bool {
    let watched = tasks.into_iter().map(|task| async move {
        let ended = tokio::spawn(task).await;
        let early = !shutdown.is_cancelled();
        if early {
            tracing::error!(
                panicked = ended.is_err(),
                "a loop ended unexpectedly; shutting down"
            );
            shutdown.cancel();
        }
        early
    });
    join_all(watched).await.contains(&true)
}

impl Probe {
    /// Whether the caches are in sync. The service's state doesn't count: restarting the operator would not help.
    pub fn ready(&self) -> bool {
        self.ctx.synced()
    }

    /// Waits until the controller's own runtime has run a task.
    pub async fn alive(&self) -> bool {
        self.runtime.spawn(async {}).await.is_ok()
    }

    /// The metrics as Prometheus scrapes them, at most a second old.
    pub fn metrics(&self) -> Result<Bytes, std::fmt::Error> {
        self.rendered.text(Instant::now(), || {
            // Counted only by the leader, so that the sum over all operators is correct.
            if self.ctx.leading.holds() {
                object_metrics::take(&self.ctx);
            }
            object_metrics::take_reconciles(&self.ctx);
            let metrics = &self.ctx.metrics;
            metrics.in_sync.set(i64::from(self.ready()));
            let tasks = self.runtime.metrics().num_alive_tasks();
            metrics.tasks.set(gauge(tasks));
            metrics.encode()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::apiserver::silent;

    /// Its runtime runs tasks only while it is blocked on.
    fn idle() -> (tokio::runtime::Runtime, Probe) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let probe = runtime.block_on(async {
            let (metrics, shutdown) = (Arc::new(Metrics::new()), CancellationToken::new());
            Controller::new(
                silent(),
                Config::idle(),
                metrics,
                Leading::always(),
                shutdown,
            )
            .probe()
        });
        (runtime, probe)
    }

    /// Proves: P-health
    #[test]
    fn it_is_alive_only_once_its_runtime_has_run_a_task() {
        let (runtime, probe) = idle();
        assert_eq!(probe.alive().now_or_never(), None, "no task is run");
        assert!(runtime.block_on(probe.alive()));
        drop(runtime);
        assert_eq!(probe.alive().now_or_never(), Some(false), "it has ended");
    }

    /// Proves: P-metrics
    #[test]
    fn caches_without_their_first_list_are_counted_as_not_in_sync() {
        let (_runtime, probe) = idle();
        let text = probe.metrics().unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(text.contains("\nrun_operator_in_sync 0\n"), "{text}");
    }
}
