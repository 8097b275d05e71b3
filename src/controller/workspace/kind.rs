//! The two kinds of Workspace in the controller, which namespaces may use one, and one Workspace in its reconcile.

use std::fmt::Debug;
use std::sync::Arc;

use kube::{Api, Resource, ResourceExt, runtime::reflector::Store};
use serde::Serialize;

use crate::api::{AnyWorkspace, ClusterWorkspace, Workspace, WorkspaceKey, WorkspaceKind};
use crate::controller::{
    apiserver::{Maybe, Object, find},
    context::{Context, NamespaceMeta},
    state::workspaces::WorkspaceEntry,
};

pub trait Kind: AnyWorkspace + Object + Debug + Serialize {
    fn api(client: kube::Client, namespace: &str) -> Api<Self>;

    /// The objects of this kind; one store per watched scope.
    fn stores(ctx: &Context) -> &[Store<Maybe<Self>>];

    fn secret_namespace(ctx: &Context, key: &WorkspaceKey) -> String;
}

impl Kind for Workspace {
    fn api(client: kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client, namespace)
    }

    fn stores(ctx: &Context) -> &[Store<Maybe<Self>>] {
        &ctx.caches.workspaces
    }

    fn secret_namespace(_: &Context, key: &WorkspaceKey) -> String {
        key.namespace.clone()
    }
}

impl Kind for ClusterWorkspace {
    fn api(client: kube::Client, _: &str) -> Api<Self> {
        Api::all(client)
    }

    fn stores(ctx: &Context) -> &[Store<Maybe<Self>>] {
        &ctx.caches.cluster_workspaces
    }

    fn secret_namespace(ctx: &Context, _: &WorkspaceKey) -> String {
        ctx.config.cluster_resource_namespace.clone()
    }
}

pub fn key_of<K: Kind>(object: &impl Resource) -> WorkspaceKey {
    WorkspaceKey {
        kind: K::KIND,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

/// `None` while the labels of `namespace` are not known, or if the store lacks the Workspace: its session may exist longer.
pub(crate) fn allowed(ctx: &Context, key: &WorkspaceKey, namespace: &str) -> Option<bool> {
    // If ClusterWorkspaces are not served, their view shows that instead.
    if key.kind == WorkspaceKind::Workspace || ctx.caches.cluster_workspaces.is_empty() {
        return Some(true);
    }
    let workspace = find(&ctx.caches.cluster_workspaces, "", &key.name)?;
    let workspace = workspace.good()?;
    let found = namespace_meta(ctx, namespace)?;
    Some(workspace.spec.allows(found.labels()).unwrap_or_else(|error| {
        tracing::warn!(workspace.name = %key.name, error = %error, "failed to read a namespaceSelector; it allows no namespace");
        false
    }))
}

/// Whether a namespace is known to be terminating: nothing can be created in it. False if namespaces are not watched.
pub(crate) fn terminating(ctx: &Context, namespace: &str) -> bool {
    namespace_meta(ctx, namespace).is_some_and(|found| found.meta().deletion_timestamp.is_some())
}

fn namespace_meta(ctx: &Context, namespace: &str) -> Option<Arc<NamespaceMeta>> {
    find(&ctx.caches.namespaces, "", namespace)
}

pub(crate) struct Subject<'a, K> {
    pub(crate) ctx: &'a Context,
    pub(crate) workspace: &'a K,
    pub(crate) entry: &'a WorkspaceEntry,
}

impl<K: Kind> Subject<'_, K> {
    pub(crate) fn uid(&self) -> String {
        self.workspace.uid().unwrap_or_default()
    }

    pub(crate) fn generation(&self) -> i64 {
        self.workspace.meta().generation.unwrap_or_default()
    }

    pub(crate) fn deleting(&self) -> bool {
        self.workspace.meta().deletion_timestamp.is_some()
    }

    pub(crate) fn api(&self) -> Api<K> {
        K::api(self.ctx.client.clone(), &self.entry.key.namespace)
    }

    /// Its base URL as written, or else the operator's.
    pub(crate) fn base_url(&self) -> Option<&str> {
        let own = self.workspace.common().base_url.as_deref();
        own.or(self.ctx.config.base_url.as_deref())
    }
}
