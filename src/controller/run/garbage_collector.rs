//! Garbage collector: forgets Runs whose objects are deleted, and cancels the run of an object that was deleted without
//! having been released. A Delete event names its object. After a relist, which names none, the index finds the missing
//! ones.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::ResourceExt;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::Run;
use crate::clock::until;
use crate::controller::{
    apiserver::Maybe, context::Context, state::runs::RunEntry, workspace::finalizer,
};
use crate::decide::tracked_run::Cleanup;

use super::{
    live_read::{self, Found},
    pass::{Pass, PassResult},
};

/// Interval at which all uids are compared with the index. This also repeats a cleanup that could not begin before.
const COMPARE_EVERY: Duration = Duration::from_secs(15);
/// Longest pause between two passes over a deleted object. It also limits the delay before a Workspace that is Ready
/// again is used.
const PAUSE: Duration = Duration::from_secs(5);

/// Handles absent objects until shutdown.
pub(crate) async fn run(ctx: Arc<Context>) {
    let mut ticks = interval(COMPARE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            uids = ctx.absent.due() => uids.iter().for_each(|uid| check(&ctx, uid)),
            _ = ticks.tick() => compare(&ctx),
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// Records the last version of a deleted object.
pub(crate) fn last_seen(ctx: &Context, last: &Maybe<Run>) {
    if let Maybe::Good(run) = last
        && let Some(entry) = run.uid().and_then(|uid| ctx.tracked_runs.get(&uid))
    {
        // The last version may hold a change by its owner that no earlier event carried.
        drop(entry.observe(Arc::clone(run)));
    }
}

fn compare(ctx: &Arc<Context>) {
    let absent = |entry: &Arc<RunEntry>| {
        entry.with(|state| state.run.deleted()) || !ctx.runs.contains(&entry.uid)
    };
    for entry in ctx.tracked_runs.all().into_iter().filter(absent) {
        ctx.absent.mark(&entry.uid);
        check(ctx, &entry.uid);
    }
}

fn check(ctx: &Arc<Context>, uid: &str) {
    let tracked = ctx.tracked_runs.get(uid);
    let Some(entry) = tracked.filter(|entry| !ctx.present(entry)) else {
        ctx.absent.resolve(uid);
        return;
    };
    match entry.with(|state| state.run.cleanup()) {
        // That operation calls this again when it ends.
        Cleanup::Busy => {}
        Cleanup::Done => finish(ctx, &entry),
        Cleanup::Owed(run) => {
            if entry.with(|state| state.run.begin_cleanup()) {
                // Counted as a call: shutdown waits for it while one is in flight.
                ctx.calls.spawn(clean_up(Arc::clone(ctx), entry, run));
            }
        }
    }
}

/// Ends the tracking of a Run that needs no cleanup. While the index still has it, nothing new begins.
fn finish(ctx: &Context, entry: &RunEntry) {
    if ctx.runs.contains(&entry.uid) {
        entry.with(|state| state.run.finish());
        return;
    }
    let last_seen = entry.with(|state| state.run.latest().cloned());
    ctx.tracked_runs.forget(&entry.uid);
    ctx.absent.resolve(&entry.uid);
    if let Some(run) = last_seen {
        finalizer::run_ended(ctx, &run);
    }
}

/// Cancels the run of a deleted object.
async fn clean_up(ctx: Arc<Context>, entry: Arc<RunEntry>, run: Arc<Run>) {
    // 1. A live read: the watch may be behind, and the run of an existing object must not be cancelled.
    if !confirmed(&ctx, &entry).await {
        return;
    }
    entry.close_stream();
    entry.stop_waiting();
    ctx.metrics.vanished.inc();
    tracing::warn!(
        k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
        "a Run was deleted without having been released; cancelling its run"
    );
    // 2. Passes over the last known version, until policy releases it.
    while ctx.may_begin() {
        let again = match pass(&ctx, &entry, &run).await {
            Some(PassResult::Released) => {
                finish(&ctx, &entry);
                tracing::info!(
                    k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                    "cleanup of a deleted Run is done"
                );
                return;
            }
            Some(PassResult::Until(again)) => again,
            Some(PassResult::Call) | None => None,
        };
        let wait = again.map_or(PAUSE, until).min(PAUSE);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = entry.changed.notified() => {}
            () = ctx.shutdown.cancelled() => {}
        }
    }
    tracing::warn!(
        k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
        run.id = run.status.as_ref().and_then(|s| s.run_id.as_deref()),
        "the operator is stopping; the run of a deleted Run was not seen to end"
    );
}

/// Whether the API server confirms the deletion. Asks until it answers or the operator ends.
async fn confirmed(ctx: &Context, entry: &RunEntry) -> bool {
    while !entry.with(|state| state.run.deleted()) && ctx.may_begin() {
        match live_read::read(ctx, entry).await {
            Found::Deleted => entry.with(|state| state.run.confirm_deleted()),
            Found::Exists(_) => {
                tracing::warn!(
                    k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                    "a Run that exists is missing from the watch; waiting for the watch"
                );
                entry.with(|state| state.run.found());
                return false;
            }
            Found::Unknown => tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = ctx.shutdown.cancelled() => {}
            },
        }
    }
    entry.with(|state| state.run.deleted())
}

/// One pass over a deleted object, unless something is in flight for it.
async fn pass(ctx: &Arc<Context>, entry: &Arc<RunEntry>, run: &Arc<Run>) -> Option<PassResult> {
    let (begun, permit) = entry.with(|state| (state.run.begin_reconcile(), state.granted.take()));
    if !begun {
        return None;
    }
    let pass = Pass {
        deleted: true,
        ..Pass::new(ctx, entry, Arc::clone(run), permit)
    };
    let ended = AssertUnwindSafe(pass.run()).catch_unwind().await;
    drop(entry.with(|state| state.run.end_reconcile()));
    // The pass writes nothing, so that no write can fail.
    let rest = if let Ok(rest) = ended {
        rest.ok()
    } else {
        ctx.metrics.panicked("run");
        tracing::error!(
            k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
            "cleanup of a deleted Run panicked; retrying"
        );
        None
    };
    if rest != Some(PassResult::Call) {
        entry.stop_waiting();
    }
    rest
}
