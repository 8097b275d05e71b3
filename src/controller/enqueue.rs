//! Enqueues Runs when the state of their Workspace or key has changed.

use crate::api::WorkspaceKey;
use crate::decide::WorkspaceView;

use super::{
    context::Context,
    state::{
        index::RunRef,
        workspaces::{WorkspaceEntry, WorkspaceState},
    },
};

/// Enqueues the Runs of the Workspace that have not ended or are being deleted.
pub(crate) fn runs_of(ctx: &Context, key: &WorkspaceKey) {
    all(ctx, &ctx.run_index.of_workspace(key));
}

/// Sets the state of a Workspace, and enqueues its Runs if it changed.
pub(crate) fn set_state(ctx: &Context, entry: &WorkspaceEntry, state: WorkspaceState) {
    if entry.set(state) {
        runs_of(ctx, &entry.key);
    }
}

/// Enqueues the Runs of ClusterWorkspaces that have not ended or are being deleted: all, or those of one namespace.
pub(crate) fn tenants(ctx: &Context, of: Option<&str>) {
    all(ctx, &ctx.run_index.tenants(of));
}

/// Records that a store has its first list. The last one enqueues the Runs that waited until every Workspace is known.
pub(crate) fn store_filled(ctx: &Context) {
    if ctx.store_filled() {
        tracing::info!("caches are in sync; requeueing the waiting Runs");
        all(ctx, &ctx.run_index.waiting());
    }
}

/// Enqueues the next of the Runs that share an idempotency key, after its holder has released it. Enqueueing the others
/// would only make them write a new holder; they are requeued later.
pub(crate) fn sharing(ctx: &Context, namespace: &str, key: &str) {
    if let Some(name) = ctx.run_index.next_of_key(namespace, key) {
        ctx.run_trigger.enqueue(namespace, &name);
    }
}

fn all(ctx: &Context, runs: &[RunRef]) {
    for (namespace, name) in runs {
        ctx.run_trigger.enqueue(namespace, name);
    }
}

/// Finds Workspaces that no longer exist, after a deletion or a relist, and enqueues their Runs.
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
}
