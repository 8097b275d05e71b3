//! The labels of namespaces: which of them may use a `ClusterWorkspace`.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        reflector::{ObjectRef, Store, reflector, store::Writer},
        watcher::{self, Event},
    },
};

use crate::api::run::WorkspaceKind;

use super::{
    context::{Context, Guarded},
    registry::Key,
    scope::Scope,
    wake, watch,
};

/// What is kept of a namespace.
pub type Labelled = PartialObjectMeta<Namespace>;

/// Follows the labels of the namespaces in `scope` until shutdown, and wakes the Runs that they concern.
pub(super) async fn follow(ctx: Arc<Context>, scope: Scope, writer: Writer<Labelled>) {
    let config = match &scope {
        Scope::All => watcher::Config::default(),
        Scope::Namespace(name) => {
            watcher::Config::default().fields(&format!("metadata.name={name}"))
        }
    };
    let api: Api<Labelled> = Api::all(ctx.client.clone());
    let events = watch::resilient(api, config).map(Ok::<_, watcher::Error>);
    let mut events = Box::pin(reflector(writer, events));
    let mut filled = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = ctx.shutdown.cancelled() => return,
        };
        match event {
            Some(Ok(Event::Apply(namespace))) => {
                wake::tenants(&ctx, Some(&namespace.name_any()));
            }
            Some(Ok(Event::InitDone)) => {
                if !std::mem::replace(&mut filled, true) {
                    ctx.store_filled();
                }
                wake::tenants(&ctx, None);
            }
            Some(Ok(Event::Init | Event::InitApply(_) | Event::Delete(_)) | Err(_)) => {}
            None => return,
        }
    }
}

/// Whether the Runs of `namespace` may be submitted by this Workspace; `None` while the labels of the
/// namespace are not known, which may be a moment later than its first Run.
pub(super) fn allowed(ctx: &Context, key: &Key, namespace: &str) -> Option<bool> {
    if key.kind == WorkspaceKind::Workspace {
        return Some(true);
    }
    let Some(workspace) = ctx
        .cluster_stores
        .iter()
        .find_map(|store| store.get(&ObjectRef::<Guarded<_>>::new(&key.name)))
    else {
        // There is no such Workspace, and that is what is to be said.
        return Some(true);
    };
    let Ok(workspace) = &workspace.0 else {
        return Some(false);
    };
    let found = ctx
        .namespaces
        .iter()
        .find_map(|store: &Store<Labelled>| store.get(&ObjectRef::new(namespace)))?;
    Some(workspace.spec.allows(found.labels()).unwrap_or_else(|error| {
        tracing::warn!(workspace.name = %key.name, error = %error, "failed to read a namespaceSelector; it allows nobody");
        false
    }))
}
