//! Runs for which nothing is left to do before their TTL: they are neither cached nor tracked. What is kept of them is
//! their record in the index and, with a TTL, its time.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Resource;

use crate::api::Run;
use crate::clock::{now, wall};
use crate::controller::{
    apiserver::{
        Maybe, ObjectVersion,
        patch::{self, WriteError},
        scope::Scope,
    },
    context::Context,
    state::{runs::RunEntry, timers::Timers},
};
use crate::decide::{
    Memory, Observed, Stream, WorkspaceView,
    run::{Settled, settled},
    time::later,
};
use crate::util::error_chain;

/// Interval at which the wall clock is read again while something waits for it: it may step.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause before a deletion is tried again that was refused or not answered.
const AGAIN: Duration = Duration::from_mins(1);
/// Objects handled at a time.
const BATCH: usize = 256;
/// Deletions in flight at the same time.
const DELETIONS: usize = 16;

/// Sets the times of an object that the watch has shown. Returns whether it is settled.
pub(crate) fn seen(ctx: &Context, object: &Maybe<Run>) -> bool {
    let run = object.good();
    let Some((run, settled)) = run.and_then(|run| Some((run, of(ctx, run)?))) else {
        forget(ctx, object.meta().uid.as_deref().unwrap_or_default());
        return false;
    };
    let version = ObjectVersion::of(&run.metadata);
    let due = is_due(settled);
    if due {
        begin_ttl(ctx, version, settled);
    } else {
        ctx.expiries.remove(&version.uid);
        ctx.settling.set(settled.from, version);
    }
    due
}

/// Handles the end of whatever was in flight for a Run. Returns whether it is settled and no longer tracked.
pub(crate) fn at_rest(ctx: &Context, entry: &RunEntry) -> bool {
    if !ctx.present(entry) {
        // It was deleted meanwhile, while the garbage collector found it busy.
        ctx.absent.report(&entry.uid);
        return false;
    }
    if ctx.run_index.is_settled(&entry.uid) {
        return ctx.tracked_runs.retire(&entry.uid);
    }
    // By an own write that the watch has shown already; else the watch still has to show it, or that it is deleted.
    let latest = entry.with(|state| state.run.latest().cloned());
    latest.is_some_and(|run| settles(ctx, &run))
}

/// Stops tracking the Runs that a list has shown to be settled.
pub(crate) fn retire_all(ctx: &Context) {
    for entry in ctx.tracked_runs.all() {
        if ctx.run_index.is_settled(&entry.uid) {
            ctx.tracked_runs.retire(&entry.uid);
        }
    }
}

/// Forgets the times of an object that has changed or was deleted.
pub(crate) fn forget(ctx: &Context, uid: &str) {
    ctx.settling.remove(uid);
    ctx.expiries.remove(uid);
}

/// Takes Runs out of the cache once they are settled, until shutdown.
pub(crate) async fn settle(ctx: Arc<Context>) {
    while let Some(due) = next(&ctx, &ctx.settling).await {
        for version in due {
            let object = ctx.cached_run(&version.namespace, &version.name);
            if let Some(run) = object.as_ref().and_then(|object| object.good()) {
                settles(&ctx, run);
            }
        }
    }
}

/// Deletes settled Runs after their TTL, until shutdown.
pub(crate) async fn expire(ctx: Arc<Context>) {
    tokio::select! {
        () = ctx.leading.clone().begun() => {}
        () = ctx.shutdown.cancelled() => return,
    }
    while let Some(due) = next(&ctx, &ctx.expiries).await {
        let deletions = due.into_iter().map(|version| delete(&ctx, version));
        stream::iter(deletions)
            .buffer_unordered(DELETIONS)
            .collect::<()>()
            .await;
    }
}

/// Waits for objects that are due; `None` at shutdown.
async fn next(ctx: &Context, timers: &Timers) -> Option<Vec<ObjectVersion>> {
    loop {
        let due = timers.take(wall(), BATCH);
        if !due.is_empty() {
            return Some(due);
        }
        let wait = timers.next().map(|at| {
            let wait = Duration::try_from(at.duration_since(wall()));
            wait.unwrap_or_default().min(LOOK_EVERY)
        });
        tokio::select! {
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            () = timers.sooner() => {}
            () = ctx.shutdown.cancelled() => return None,
        }
    }
}

/// Deletes one version of an object. A newer version has a time of its own.
async fn delete(ctx: &Context, object: ObjectVersion) {
    if !ctx.may_begin() {
        return;
    }
    tracing::info!(
        k8s.namespace.name = %object.namespace, run.name = %object.name, run.uid = %object.uid,
        "deleting a Run after its TTL"
    );
    let api = Scope::Namespace(object.namespace.to_string()).api::<Run>(ctx.client.clone());
    match patch::delete(&api, &object).await {
        Ok(()) | Err(WriteError::Gone | WriteError::Conflict) => {}
        Err(error) => {
            tracing::warn!(
                k8s.namespace.name = %object.namespace, run.name = %object.name, run.uid = %object.uid,
                error = %error_chain(&error), "failed to delete a Run after its TTL; retrying"
            );
            // Unless it has changed or was deleted meanwhile.
            if ctx.run_index.contains(&object.uid) {
                ctx.expiries.set(later(wall(), AGAIN), object);
            }
        }
    }
}

/// Takes a version out of the cache if it is settled now. False if it isn't, or if another version is there.
fn settles(ctx: &Context, run: &Run) -> bool {
    let Some(settled) = of(ctx, run).filter(|settled| is_due(*settled)) else {
        return false;
    };
    let version = ObjectVersion::of(&run.metadata);
    let uid = Arc::clone(&version.uid);
    if !ctx.evict_run(&version) || !ctx.run_index.settle(&uid) {
        return false;
    }
    begin_ttl(ctx, version, settled);
    ctx.tracked_runs.retire(&uid)
}

/// Starts the TTL of a settled Run, if it has one.
fn begin_ttl(ctx: &Context, version: ObjectVersion, settled: Settled) {
    ctx.settling.remove(&version.uid);
    match settled.expires {
        Some(at) => ctx.expiries.set(at, version),
        None => ctx.expiries.remove(&version.uid),
    }
}

fn is_due(settled: Settled) -> bool {
    settled.from <= wall()
}

/// Asks policy whether a Run is settled, with what this process knows of it.
fn of(ctx: &Context, run: &Run) -> Option<Settled> {
    // Few of the watched versions have ended, and of the others nothing else is asked.
    if !run.ended() {
        return None;
    }
    let ask = |memory: &Memory| {
        settled(&Observed {
            run,
            workspace: &WorkspaceView::Unknown,
            namespace_allowed: None,
            memory,
            key_holder: None,
            vanished: false,
            stream: Stream::Closed,
            call_delay: None,
            contract: &ctx.config.contract,
            settings: &ctx.config.settings,
            now: now(),
            wall: wall(),
        })
    };
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    match ctx.tracked_runs.get(uid) {
        Some(entry) => entry.with(|state| ask(&state.run.memory)),
        None => ask(&Memory::of(run)),
    }
}
