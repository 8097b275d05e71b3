//! Wakes the Runs of a Workspace when what they may do has changed.

use crate::decide::WorkspaceView;

use super::{
    context::Context,
    index::RunRef,
    registry::{Key, Slot},
};

/// Wakes every Run that refers to the Workspace and has not ended.
pub(super) fn runs_of(ctx: &Context, key: &Key) {
    all(ctx, &ctx.run_index.of_workspace(key));
}

/// Wakes the Runs that use a ClusterWorkspace and have not ended: all, or those of one namespace.
pub(super) fn tenants(ctx: &Context, of: Option<&str>) {
    all(ctx, &ctx.run_index.tenants(of));
}

/// Wakes every Run that has not ended.
pub(super) fn waiting(ctx: &Context) {
    all(ctx, &ctx.run_index.waiting());
}

/// Wakes the Runs that share an idempotency key: the one that held it holds it no more.
pub(super) fn sharing(ctx: &Context, namespace: &str, key: &str) {
    for name in ctx.run_index.of_key(namespace, key) {
        ctx.runs.wake(namespace, &name);
    }
}

fn all(ctx: &Context, runs: &[RunRef]) {
    for (namespace, name) in runs {
        ctx.runs.wake(namespace, name);
    }
}

/// Finds out which Workspaces are gone, after a deletion or a relist, and tells their Runs.
pub(super) fn missing_workspaces(ctx: &Context) {
    ctx.secrets.forget_all_but(|key| ctx.has_workspace(key));
    for key in ctx.registry.keys() {
        if !ctx.has_workspace(&key) {
            ctx.checks.forget(&key);
            ctx.doors.open(&key);
            if ctx.registry.set(&key, Slot::closed(WorkspaceView::Missing)) {
                runs_of(ctx, &key);
            }
            ctx.registry.forget(&key);
            // Created anew meanwhile, and perhaps checked already: what that said was just forgotten.
            if ctx.has_workspace(&key) {
                ctx.wake_workspace(&key);
            }
        }
    }
}
