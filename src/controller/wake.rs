//! Wakes the Runs of a Workspace when what they may do has changed.

use kube::{ResourceExt, runtime::reflector::Store};

use crate::api::{Run, run::WorkspaceKind};
use crate::decide::WorkspaceView;

use super::{
    context::Context,
    registry::{Key, Slot},
};

/// Wakes every Run that refers to the Workspace and has not ended.
pub(super) fn runs_of(ctx: &Context, key: &Key) {
    waiting(ctx, |run, namespace| {
        Key::of(&run.spec.workspace_ref(), namespace) == *key
    });
}

/// Wakes the Runs that use a ClusterWorkspace and have not ended: all, or those of one namespace.
pub(super) fn tenants(ctx: &Context, of: Option<&str>) {
    waiting(ctx, |run, namespace| {
        let kind = run.spec.workspace_ref().kind();
        kind == WorkspaceKind::ClusterWorkspace && of.is_none_or(|of| of == namespace)
    });
}

fn waiting(ctx: &Context, concerns: impl Fn(&Run, &str) -> bool) {
    for run in ctx.run_stores().flat_map(Store::state) {
        let Ok(run) = &run.0 else {
            continue;
        };
        let namespace = run.namespace().unwrap_or_default();
        let waits = !run.ended() || run.metadata.deletion_timestamp.is_some();
        if waits && concerns(run, &namespace) {
            ctx.runs.wake(&namespace, &run.name_any());
        }
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
