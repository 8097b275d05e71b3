//! Labels of namespaces: they determine which namespaces may use a `ClusterWorkspace`.

use crate::api::{WorkspaceKey, workspace_ref::WorkspaceKind};
use crate::controller::{
    apiserver::{self, scope::Scope},
    context::{Context, NamespaceMeta},
    enqueue,
};

use std::sync::Arc;

use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        reflector::{ObjectRef, Store, reflector, store::Writer},
        watcher::{self, Event},
    },
};

/// Follows the labels of the namespaces in `scope` until shutdown, and enqueues the Runs concerned.
pub(crate) async fn follow(ctx: Arc<Context>, scope: Scope, writer: Writer<NamespaceMeta>) {
    let api: Api<NamespaceMeta> = Api::all(ctx.client.clone());
    let config = ctx.config.watcher();
    let config = match &scope {
        Scope::All => config,
        Scope::Namespace(name) => config.fields(&format!("metadata.name={name}")),
    };
    let events = apiserver::watch(api, config).map(Ok::<_, watcher::Error>);
    let mut events = Box::pin(reflector(writer, events));
    let mut filled = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = ctx.shutdown.cancelled() => return,
        };
        match event {
            Some(Ok(Event::Apply(namespace))) => {
                enqueue::tenants(&ctx, Some(&namespace.name_any()));
            }
            Some(Ok(Event::InitDone)) => {
                if !std::mem::replace(&mut filled, true) {
                    enqueue::store_filled(&ctx);
                }
                enqueue::tenants(&ctx, None);
            }
            Some(Ok(Event::Init | Event::InitApply(_) | Event::Delete(_)) | Err(_)) => {}
            None => return,
        }
    }
}

/// Whether the Runs of `namespace` may be submitted by this Workspace. `None` while the namespace's labels are not
/// known, which may be a moment later than its first Run. `None` also if the store has no such Workspace: its session
/// may exist a moment longer, and must not be used.
pub(crate) fn allowed(ctx: &Context, key: &WorkspaceKey, namespace: &str) -> Option<bool> {
    // If ClusterWorkspaces are not served, their view shows that instead.
    if key.kind == WorkspaceKind::Workspace || ctx.cluster_workspaces.is_empty() {
        return Some(true);
    }
    let mut caches = ctx.cluster_workspaces.iter();
    let workspace = caches.find_map(|cache| cache.get("", &key.name))?;
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
    let mut stores = ctx.namespaces.iter();
    stores.find_map(|store: &Store<NamespaceMeta>| store.get(&ObjectRef::new(namespace)))
}
