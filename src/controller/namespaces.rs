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
    apiserver::{self, Source},
    context::{Context, Guarded},
    registry::Key,
    scope::Scope,
    wake,
};

/// What is kept of a namespace.
pub type Labelled = PartialObjectMeta<Namespace>;

/// Follows the labels of the namespaces in `scope` until shutdown, and wakes the Runs that they concern.
pub(super) async fn follow(ctx: Arc<Context>, scope: Scope, writer: Writer<Labelled>) {
    let api: Api<Labelled> = Api::all(ctx.client.clone());
    let source = Source::new(&api, ctx.config.watch_timeout);
    let source = match &scope {
        Scope::All => source,
        Scope::Namespace(name) => source.fields(format!("metadata.name={name}")),
    };
    // Nothing in it can be undecodable: it is metadata alone.
    let events = apiserver::watch(source).filter_map(|event| std::future::ready(readable(event)));
    let events = events.map(Ok::<_, watcher::Error>);
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
/// namespace are not known, which may be a moment later than its first Run, and where the Workspace is
/// not: a session of it may be known for a moment longer, and is not to be used.
pub(super) fn allowed(ctx: &Context, key: &Key, namespace: &str) -> Option<bool> {
    // Where ClusterWorkspaces are not served, that is what is to be said.
    if key.kind == WorkspaceKind::Workspace || ctx.cluster_stores.is_empty() {
        return Some(true);
    }
    let workspace = ctx
        .cluster_stores
        .iter()
        .find_map(|store| store.get(&ObjectRef::<Guarded<_>>::new(&key.name)))?;
    let workspace = workspace.0.as_ref().ok()?;
    let found = known(ctx, namespace)?;
    Some(workspace.spec.allows(found.labels()).unwrap_or_else(|error| {
        tracing::warn!(workspace.name = %key.name, error = %error, "failed to read a namespaceSelector; it allows nobody");
        false
    }))
}

/// Whether a namespace is known to be going: nothing can be created in it any more. Where namespaces are
/// not watched it isn't known.
pub(super) fn terminating(ctx: &Context, namespace: &str) -> bool {
    known(ctx, namespace).is_some_and(|found| found.metadata.deletion_timestamp.is_some())
}

fn known(ctx: &Context, namespace: &str) -> Option<Arc<Labelled>> {
    let mut stores = ctx.namespaces.iter();
    stores.find_map(|store: &Store<Labelled>| store.get(&ObjectRef::new(namespace)))
}

/// An event without the mark of one that can't be decoded.
fn readable(event: Event<Guarded<Labelled>>) -> Option<Event<Labelled>> {
    Some(match event {
        Event::Apply(item) => Event::Apply(item.0.ok()?),
        Event::Delete(item) => Event::Delete(item.0.ok()?),
        Event::InitApply(item) => Event::InitApply(item.0.ok()?),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    })
}
