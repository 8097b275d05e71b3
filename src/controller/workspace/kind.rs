//! The two kinds of Workspace in the controller.

use std::fmt::Debug;

use kube::{Api, Resource, ResourceExt, runtime::reflector::Store};
use serde::Serialize;

use crate::api::{AnyWorkspace, ClusterWorkspace, Workspace, WorkspaceKey};
use crate::controller::{
    apiserver::{Maybe, Object},
    context::Context,
};

/// A kind of Workspace, with its API and the namespace of its Secrets.
pub trait Kind: AnyWorkspace + Object + Debug + Serialize {
    /// The API for an object of this kind in this namespace.
    fn api(client: kube::Client, namespace: &str) -> Api<Self>;

    /// The objects of this kind; one store per watched scope.
    fn stores(ctx: &Context) -> &[Store<Maybe<Self>>];

    /// Namespace of the Secrets of an object with this key.
    fn secret_namespace(ctx: &Context, key: &WorkspaceKey) -> String;
}

impl Kind for Workspace {
    fn api(client: kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client, namespace)
    }

    fn stores(ctx: &Context) -> &[Store<Maybe<Self>>] {
        &ctx.own_workspaces
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
        &ctx.cluster_workspaces
    }

    fn secret_namespace(ctx: &Context, _: &WorkspaceKey) -> String {
        ctx.config.cluster_resource_namespace.clone()
    }
}

/// The key of an object of this kind.
pub fn key_of<K: Kind>(object: &impl Resource) -> WorkspaceKey {
    WorkspaceKey {
        kind: K::KIND,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}
