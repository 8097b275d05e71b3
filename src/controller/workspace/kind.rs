//! The two kinds of Workspace in the controller, which namespaces may use one, and one Workspace in its reconcile.

use std::fmt::Debug;
use std::sync::Arc;

use kube::{Api, Resource, ResourceExt, runtime::reflector::Store};
use serde::Serialize;

use crate::api::{
    AnyWorkspace, ClusterWorkspace, Workspace, WorkspaceKey, WorkspaceKind, WorkspaceSpec,
    workspace::{RunLimits, is_default},
};
use crate::controller::{
    apiserver::{Maybe, Object, find},
    context::{Context, NamespaceMeta},
    state::workspaces::WorkspaceEntry,
};
use crate::decide::choice::{self, Choice};

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
    selects(ctx, workspace.good()?, namespace)
}

fn selects(ctx: &Context, workspace: &ClusterWorkspace, namespace: &str) -> Option<bool> {
    let found = namespace_meta(ctx, namespace)?;
    Some(workspace.spec.allows(found.labels()).unwrap_or_else(|error| {
        tracing::warn!(workspace.name = %workspace.name_any(), error = %error, "failed to read a namespaceSelector; it allows no namespace");
        false
    }))
}

/// The Workspace that a Run of this namespace uses which is bound to none.
pub(crate) fn by_rule(ctx: &Context, namespace: &str) -> Choice {
    let own = ctx.has_workspace(&WorkspaceKey::own_default(namespace));
    if !own && !ctx.synced() {
        return Choice::Unknown;
    }
    let stores = ctx.caches.cluster_workspaces.iter();
    let all: Vec<_> = stores.flat_map(Store::state).collect();
    let defaults = all.iter().filter(|workspace| is_default(&***workspace));
    let defaults = defaults.map(|workspace| {
        let name = workspace.meta().name.as_deref().unwrap_or_default();
        // One that can't be read may allow the namespace: a Run shows it, and goes to no other.
        let allows = |good: &Arc<ClusterWorkspace>| selects(ctx, good, namespace);
        (name, workspace.good().map_or(Some(true), allows))
    });
    choice::by_rule(own, ctx.config.cluster_workspaces.then_some(defaults))
}

/// How many of its Runs may be active; `None` if the store lacks it, or it can't be read.
pub(crate) fn limits(ctx: &Context, key: &WorkspaceKey) -> Option<RunLimits> {
    fn of<K: AnyWorkspace>(found: Option<&Maybe<K>>) -> Option<RunLimits> {
        Some(found?.good()?.limits())
    }
    let (caches, namespace, name) = (&ctx.caches, &key.namespace, &key.name);
    match key.kind {
        WorkspaceKind::Workspace => of(find(&caches.workspaces, namespace, name).as_deref()),
        WorkspaceKind::ClusterWorkspace => {
            of(find(&caches.cluster_workspaces, "", name).as_deref())
        }
    }
}

/// Hands over the spec of a Workspace: none if the store lacks it, or it can't be read.
pub(crate) fn with_rules<T>(
    ctx: &Context,
    key: &WorkspaceKey,
    take: impl FnOnce(Option<&WorkspaceSpec>) -> T,
) -> T {
    fn common<K: AnyWorkspace>(found: Option<&Maybe<K>>) -> Option<&WorkspaceSpec> {
        Some(found?.good()?.common())
    }
    let (caches, namespace, name) = (&ctx.caches, &key.namespace, &key.name);
    match key.kind {
        WorkspaceKind::Workspace => {
            take(common(find(&caches.workspaces, namespace, name).as_deref()))
        }
        WorkspaceKind::ClusterWorkspace => take(common(
            find(&caches.cluster_workspaces, "", name).as_deref(),
        )),
    }
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

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector::store, watcher::Event};
    use rstest::rstest;
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;
    use crate::api::{WorkspaceRef, names};
    use crate::controller::apiserver::{decode, silent};
    use crate::controller::context::Caches;

    fn filled<K: Object>(objects: impl IntoIterator<Item = Value>) -> Vec<Store<Maybe<K>>> {
        let (store, mut writer) = store();
        for object in objects {
            let object = decode::<K>(&to_raw_value(&object).unwrap());
            writer.apply_watcher_event(&Event::Apply(object));
        }
        vec![store]
    }

    fn default(name: &str, spec: &Value) -> Value {
        let annotations = json!({names::IS_DEFAULT_ANNOTATION: "true"});
        json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    }

    fn good() -> Value {
        default("good", &json!({"namespaceSelector": {}}))
    }

    fn leaving() -> Value {
        let mut leaving = default("leaving", &json!({"namespaceSelector": {}}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        leaving
    }

    fn unreadable() -> Value {
        default("unreadable", &json!({"namespaceSelector": "all"}))
    }

    fn one(name: &str) -> Choice {
        Choice::One(WorkspaceRef::shared(name.to_owned()))
    }

    /// Proves: P-default-workspace
    #[rstest]
    #[case::one_beside_one_that_goes(vec![good(), leaving()], one("good"))]
    #[case::one_that_goes(vec![leaving()], Choice::None)]
    #[case::one_beside_one_that_cannot_be_read(vec![good(), unreadable()],
        Choice::Several(vec!["good".to_owned(), "unreadable".to_owned()]))]
    #[case::one_that_cannot_be_read(vec![unreadable()], one("unreadable"))]
    #[tokio::test]
    async fn of_the_defaults_of_a_namespace_there_is(
        #[case] defaults: Vec<Value>,
        #[case] expected: Choice,
    ) {
        let mut ctx = Context::idle(silent());
        ctx.config.cluster_workspaces = true;
        ctx.caches = Caches {
            workspaces: Vec::new(),
            cluster_workspaces: filled(defaults),
            namespaces: filled([json!({"metadata": {"name": "team"}})]),
            schedules: Vec::new(),
            templates: Vec::new(),
        };
        assert_eq!(by_rule(&ctx, "team"), expected);
    }
}
