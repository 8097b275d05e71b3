//! The two kinds of Workspace, as the controller meets them.

use std::fmt::Debug;

use kube::{Api, Resource, ResourceExt, runtime::reflector::Store};
use serde::{Serialize, de::DeserializeOwned};

use crate::api::{ClusterWorkspace, Workspace, workspace::AnyWorkspace};

use super::{
    context::{Context, Guarded},
    registry::Key,
    scope::Scope,
};

/// A kind of Workspace with its place in the cluster.
pub trait Kind:
    AnyWorkspace + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The kind's API where an object with this key lives.
    fn api(client: kube::Client, namespace: &str) -> Api<Self>;

    /// The stores of this kind.
    fn stores(ctx: &Context) -> &[Store<Guarded<Self>>];

    /// Where the Secrets of an object with this key are.
    fn secret_namespace(ctx: &Context, key: &Key) -> String;

    /// The reach of the watch for a Secret of an object with this key.
    fn secret_scope(ctx: &Context, key: &Key) -> Scope;
}

impl Kind for Workspace {
    fn api(client: kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client, namespace)
    }

    fn stores(ctx: &Context) -> &[Store<Guarded<Self>>] {
        &ctx.workspace_stores
    }

    fn secret_namespace(_: &Context, key: &Key) -> String {
        key.namespace.clone()
    }

    /// Under a cluster-wide watch one filtered watch serves all namespaces.
    fn secret_scope(ctx: &Context, key: &Key) -> Scope {
        if ctx.config.namespaces.is_empty() {
            Scope::All
        } else {
            Scope::Namespace(key.namespace.clone())
        }
    }
}

impl Kind for ClusterWorkspace {
    fn api(client: kube::Client, _: &str) -> Api<Self> {
        Api::all(client)
    }

    fn stores(ctx: &Context) -> &[Store<Guarded<Self>>] {
        &ctx.cluster_stores
    }

    fn secret_namespace(ctx: &Context, _: &Key) -> String {
        ctx.config.cluster_resource_namespace.clone()
    }

    fn secret_scope(ctx: &Context, key: &Key) -> Scope {
        Scope::Namespace(Self::secret_namespace(ctx, key))
    }
}

/// The key of an object of this kind.
pub fn key_of<K: Kind>(object: &impl Resource) -> Key {
    Key {
        kind: K::KIND,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}
