//! Wakes the Runs of a Workspace when what they may do has changed.

use kube::ResourceExt;

use crate::api::run::WorkspaceKind;
use crate::decide::WorkspaceView;

use super::{
    context::Context,
    registry::{Key, Slot},
    secret_watch,
};

/// Wakes every Run that refers to the Workspace and has not ended.
pub(super) fn runs_of(ctx: &Context, key: &Key) {
    for store in ctx.run_stores() {
        for run in store.state() {
            let Ok(run) = &run.0 else {
                continue;
            };
            let namespace = run.namespace().unwrap_or_default();
            let waits = !run.ended() || run.metadata.deletion_timestamp.is_some();
            if waits && Key::of(&run.spec.workspace_ref(), &namespace) == *key {
                ctx.runs.wake(&namespace, &run.name_any());
            }
        }
    }
}

/// Finds out which Workspaces are gone, after a deletion or a relist, and tells their Runs.
pub(super) fn missing_workspaces(ctx: &Context) {
    for key in ctx.registry.keys() {
        if key.kind == WorkspaceKind::Workspace && !ctx.has_workspace(&key) {
            ctx.checks.forget(&key);
            secret_watch::forget(ctx, &key);
            if ctx.registry.set(
                &key,
                Slot {
                    view: WorkspaceView::Missing,
                    live: None,
                },
            ) {
                runs_of(ctx, &key);
            }
        }
    }
}
