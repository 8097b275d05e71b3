//! The two kinds of Workspace, as the controller meets them.

use std::fmt::Debug;

use kube::{Api, Resource, ResourceExt};
use serde::Serialize;

use crate::api::{ClusterWorkspace, Workspace, workspace::AnyWorkspace};

use super::{apiserver::Object, context::Context, registry::Key};

/// A kind of Workspace with its place in the cluster.
pub trait Kind: AnyWorkspace + Object + Debug + Serialize {
    /// The kind's API where an object with this key lives.
    fn api(client: kube::Client, namespace: &str) -> Api<Self>;

    /// Where the Secrets of an object with this key are.
    fn secret_namespace(ctx: &Context, key: &Key) -> String;
}

impl Kind for Workspace {
    fn api(client: kube::Client, namespace: &str) -> Api<Self> {
        Api::namespaced(client, namespace)
    }

    fn secret_namespace(_: &Context, key: &Key) -> String {
        key.namespace.clone()
    }
}

impl Kind for ClusterWorkspace {
    fn api(client: kube::Client, _: &str) -> Api<Self> {
        Api::all(client)
    }

    fn secret_namespace(ctx: &Context, _: &Key) -> String {
        ctx.config.cluster_resource_namespace.clone()
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
