//! Labels of namespaces: they determine which namespaces may use a `ClusterWorkspace`.

use crate::api::{WorkspaceKey, WorkspaceKind};
use crate::controller::{
    apiserver,
    context::{Context, NamespaceMeta},
};

use std::sync::Arc;

use kube::{Resource, ResourceExt};

/// Whether the Runs of `namespace` may be submitted by this Workspace. `None` while the namespace's labels are not
/// known, which may be a moment later than its first Run. `None` also if the store has no such Workspace: its session
/// may exist a moment longer, and must not be used.
pub(crate) fn allowed(ctx: &Context, key: &WorkspaceKey, namespace: &str) -> Option<bool> {
    // If ClusterWorkspaces are not served, their view shows that instead.
    if key.kind == WorkspaceKind::Workspace || ctx.caches.cluster_workspaces.is_empty() {
        return Some(true);
    }
    let workspace = apiserver::find(&ctx.caches.cluster_workspaces, "", &key.name)?;
    let workspace = workspace.good()?;
    let found = known(ctx, namespace)?;
    Some(workspace.spec.allows(found.labels()).unwrap_or_else(|error| {
        tracing::warn!(workspace.name = %key.name, error = %error, "failed to read a namespaceSelector; it allows no namespace");
        false
    }))
}

/// Whether a namespace is known to be terminating: nothing can be created in it. False if namespaces are not watched.
pub(crate) fn terminating(ctx: &Context, namespace: &str) -> bool {
    known(ctx, namespace).is_some_and(|found| found.meta().deletion_timestamp.is_some())
}

fn known(ctx: &Context, namespace: &str) -> Option<Arc<NamespaceMeta>> {
    apiserver::find(&ctx.caches.namespaces, "", namespace)
}
