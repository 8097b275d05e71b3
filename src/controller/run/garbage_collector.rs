//! Garbage collector: forgets Runs whose objects are deleted, and cancels the run of an object that was deleted without
//! having been released.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube::ResourceExt;

use crate::api::Run;
use crate::clock::until;
use crate::controller::{
    apiserver::reconciled::Action, context::Context, enqueue, state::runs::RunEntry,
};
use crate::decide::tracked_run::Cleanup;

use super::{
    live_read::{self, Found},
    pass::{Pass, PassResult},
};

/// Pause before a Run that the watch lacks is looked at again. The API server may have said that it exists.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Longest pause between two passes over a deleted object. It also limits the delay before a Workspace that is Ready
/// again is used.
const PAUSE: Duration = Duration::from_secs(5);

/// Handles a Run that the watch lacks. Returns when it is looked at again.
pub(crate) fn collect(ctx: &Arc<Context>, run: &Run) -> Action {
    let uid = run.uid().unwrap_or_default();
    let Some(entry) = ctx.tracked_runs.get(&uid) else {
        forget(ctx, &uid);
        return Action::await_change();
    };
    let mut owed = None;
    let over = || match entry.with(|state| state.run.cleanup()) {
        // That operation requests this again when it ends.
        Cleanup::Busy => false,
        Cleanup::Done => {
            ctx.tracked_runs.forget(&uid);
            true
        }
        Cleanup::Owed(run) => {
            owed = Some(run);
            false
        }
    };
    if let Some(change) = ctx.runs.forget(&uid, over) {
        enqueue::follow(ctx, &change);
        return Action::await_change();
    }
    if let Some(run) = owed {
        begin(ctx, &entry, run);
    }
    Action::requeue(LOOK_AGAIN)
}

/// Handles a Run that the API server reports as deleted, while the watch still shows it.
pub(crate) fn clean_up_after(ctx: &Arc<Context>, entry: &Arc<RunEntry>) -> Action {
    if let Cleanup::Owed(run) = entry.with(|state| state.run.cleanup()) {
        begin(ctx, entry, run);
    }
    Action::await_change()
}

fn begin(ctx: &Arc<Context>, entry: &Arc<RunEntry>, run: Arc<Run>) {
    if entry.with(|state| state.run.begin_cleanup()) {
        // Counted as a call: shutdown waits for it while one is in flight.
        ctx.calls
            .spawn(clean_up(Arc::clone(ctx), Arc::clone(entry), run));
    }
}

/// Ends the tracking of a Run that needs no cleanup. While the watch still shows it, nothing new begins.
fn finish(ctx: &Context, entry: &RunEntry) {
    entry.with(|state| state.run.finish());
    forget(ctx, &entry.uid);
}

/// Forgets a Run for which nothing is left to do, unless the watch shows it.
fn forget(ctx: &Context, uid: &str) {
    let over = || {
        ctx.tracked_runs.forget(uid);
        true
    };
    if let Some(change) = ctx.runs.forget(uid, over) {
        enqueue::follow(ctx, &change);
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
