//! Enqueues what a change concerns, by scans of all Runs that take a twentieth of a core at most.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::api::{Run, WorkspaceKey, WorkspaceKind};
use crate::decide::{
    WorkspaceView, claims,
    queue::{Claim, Queues},
};

use super::{
    apiserver::Maybe,
    context::Context,
    state::{
        run_store::{Change, Known, Whose},
        workspaces::{WorkspaceEntry, WorkspaceState},
    },
    workspace::kind,
};

/// Pause after a scan, as a multiple of its duration. With 10,000 Runs that have not ended it takes some milliseconds.
const REST: u32 = 20;

pub(crate) async fn wake_runs(ctx: Arc<Context>) {
    loop {
        let asked = ctx.wakes.next().await;
        let began = Instant::now();
        enqueue_runs(&ctx, |known| {
            let mut changes = known.waits_for().into_iter();
            changes.any(|change| asked.contains(&change))
        });
        tokio::time::sleep(began.elapsed() * REST).await;
    }
}

pub(crate) fn enqueue_runs(ctx: &Context, wanted: impl Fn(&Known) -> bool) {
    ctx.runs.each(|known| {
        if wanted(known) {
            let [uid, namespace, _] = known.identity();
            ctx.enqueue_run(namespace, uid);
        }
    });
}

pub(crate) fn set_state(ctx: &Context, entry: &WorkspaceEntry, state: WorkspaceState) {
    let changed = entry.set(state);
    set_limits(ctx, &entry.key);
    if changed {
        ctx.wakes.ask(Whose::Workspace(entry.key.clone()));
        if entry.key.kind == WorkspaceKind::ClusterWorkspace {
            ctx.wakes.ask(Whose::Undecided);
        }
    }
}

/// Takes in how many Runs of a Workspace may be active now.
pub(crate) fn set_limits(ctx: &Context, key: &WorkspaceKey) {
    ctx.slots(|queues| {
        let state = ctx.workspaces.state(key);
        let session = state.view.session();
        let open = session.is_some_and(|session| session.submissions_blocked.is_none());
        queues.set(key, kind::limits(ctx, key).filter(|_| open))
    });
}

/// Records that a store has its first list. The last one enqueues the Runs that waited until every Workspace is known.
pub(crate) fn store_filled(ctx: &Context) {
    if ctx.unfilled.fetch_sub(1, Ordering::AcqRel) == 1 {
        tracing::info!("caches are in sync; requeueing the waiting Runs");
        ctx.slots(Queues::open);
        ctx.wakes.ask(Whose::All);
    }
}

/// Forgets the Workspaces that the stores lack: a Run that names none may now use another.
pub(crate) fn missing_workspaces(ctx: &Context) {
    ctx.secrets.forget_all_but(|key| ctx.has_workspace(key));
    for entry in ctx.workspaces.all() {
        let key = &entry.key;
        if !ctx.has_workspace(key) {
            set_state(ctx, &entry, WorkspaceState::closed(WorkspaceView::Missing));
            ctx.workspaces.forget(key);
            // Created again meanwhile, and perhaps checked already: the result of that check was just dropped.
            if ctx.has_workspace(key) {
                ctx.enqueue_workspace(key);
            }
        }
    }
    ctx.wakes.ask(Whose::Undecided);
}

pub(crate) fn follow(ctx: &Context, change: &Change) {
    let next_of_key = match &change.new {
        Some(known) => ctx.keys.update(known),
        None => ctx.keys.remove(&change.uid),
    };
    if let Some((namespace, uid)) = next_of_key {
        ctx.enqueue_run(&namespace, &uid);
    }
    // It is being deleted, and perhaps waited for this Run.
    let closed = |key: &WorkspaceKey| {
        let entry = ctx.workspaces.get(key);
        entry.is_some_and(|entry| entry.submissions.is_closed())
    };
    if let Some(key) = change.unneeded().filter(closed) {
        ctx.enqueue_workspace(&key);
    }
    follow_claim(ctx, change);
    if change.new.is_none() {
        unfollow_scheduled(ctx, &change.uid);
    }
    match &change.new {
        Some(Known::Ended(_)) if ctx.tracked_runs.get(&change.uid).is_none() => {}
        // Its memory is forgotten by a reconcile, which may be under way.
        Some(known) => {
            let [uid, namespace, _] = known.identity();
            ctx.enqueue_run(namespace, uid);
        }
        None => {}
    }
}

/// Takes in a Run that a RunSchedule may own.
pub(crate) fn follow_scheduled(ctx: &Context, run: &Maybe<Run>) {
    if let Some((namespace, name)) = ctx.schedules.follow(run) {
        ctx.enqueue_schedule(&namespace, &name);
    }
}

/// Forgets a Run that no longer exists and that a RunSchedule may have owned.
pub(crate) fn unfollow_scheduled(ctx: &Context, uid: &str) {
    if let Some((namespace, name)) = ctx.schedules.remove(uid) {
        ctx.enqueue_schedule(&namespace, &name);
    }
}

/// A Run's decisions take in what it claims of its Workspace's slots; here, what shows without one.
fn follow_claim(ctx: &Context, change: &Change) {
    let uid = &*change.uid;
    match &change.new {
        // Nothing was decided yet, for it or for others before it.
        Some(Known::Active(_)) if !(ctx.leading.holds() && ctx.synced()) => {
            ctx.slots(|queues| queues.expect(uid));
        }
        Some(Known::Active(_) | Known::Gone(_)) => {}
        // What it claimed stays; after a start, what its intent shows.
        Some(Known::Bad(bad)) => {
            let claim = claims::held_by(&bad.metadata);
            let namespace = bad.metadata.namespace.as_deref().unwrap_or_default();
            ctx.slots(|queues| match claim {
                Some(key) => queues.claim((namespace, uid), &key, Claim::Holds),
                None => queues.pass(uid),
            });
        }
        Some(Known::Ended(_)) | None => ctx.slots(|queues| queues.leave(uid)),
    }
}
