//! Secrets: read by name, and watched by name where RBAC allows; the watch sees metadata alone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    core::PartialObjectMeta,
    runtime::{
        reflector::Store,
        watcher::{self, Event},
    },
};

use crate::api::{ClusterWorkspace, Reason, Workspace};
use crate::decide::situation::Why;

use super::{
    context::{Context, lock},
    kinds::{Kind, key_of},
    scope::Scope,
    watch::{self, chain},
};

/// A read that takes longer is given up.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The watches under way, so that each name is watched once a scope.
#[derive(Default)]
pub struct SecretWatches {
    watched: Mutex<HashSet<(Scope, String)>>,
    read: Mutex<HashMap<(String, String), Option<String>>>,
}

impl SecretWatches {
    fn note(&self, namespace: &str, name: &str, version: Option<String>) {
        lock(&self.read).insert((namespace.to_owned(), name.to_owned()), version);
    }

    fn is_news(&self, namespace: &str, name: &str, version: Option<&String>) -> bool {
        let read = lock(&self.read);
        let last = read.get(&(namespace.to_owned(), name.to_owned()));
        last.is_none_or(|last| last.as_ref() != version)
    }
}

/// Reads one key of a Secret, freshly, and notes its version, so that the watch's echo of what was read
/// is no news.
pub async fn read(ctx: &Context, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, Why> {
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let secret = match tokio::time::timeout(TIMEOUT, api.get_opt(name)).await {
        Ok(Ok(Some(secret))) => secret,
        Ok(Ok(None)) => {
            return Err(Why::new(
                Reason::SecretNotFound,
                format!(
                    "The Secret {name} doesn't exist in namespace {namespace}; create it with the key {key}."
                ),
            ));
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            return Err(Why::new(
                Reason::SecretForbidden,
                format!(
                    "The operator may not read the Secret {name} in namespace {namespace}; allow this name in the operator's RBAC."
                ),
            ));
        }
        Ok(Err(error)) => {
            tracing::warn!(k8s.namespace.name = namespace, secret.name = name, error = %chain(&error), "failed to read a Secret");
            return Err(unread(name));
        }
        Err(_) => return Err(unread(name)),
    };
    ctx.secret_watches
        .note(namespace, name, secret.metadata.resource_version.clone());
    let data = secret.data.unwrap_or_default();
    match data.get(key) {
        Some(value) => Ok(value.0.clone()),
        None => Err(Why::new(
            Reason::SecretKeyNotFound,
            format!(
                "The Secret {name} in namespace {namespace} has no key {key}; add it, or name another in the Workspace."
            ),
        )),
    }
}

fn unread(name: &str) -> Why {
    Why::new(
        Reason::Checking,
        format!(
            "The Secret {name} could not be read from the API server; it is read again by itself."
        ),
    )
}

/// Watches the Secrets that a Workspace names, so that a rotation is seen at once. Where RBAC forbids it
/// the regular re-check is what is left.
pub fn watch(ctx: &Arc<Context>, scope: &Scope, name: &str) {
    let key = (scope.clone(), name.to_owned());
    if !lock(&ctx.secret_watches.watched).insert(key) {
        return;
    }
    let ctx = Arc::clone(ctx);
    let (scope, name) = (scope.clone(), name.to_owned());
    tokio::spawn(async move {
        let api: Api<PartialObjectMeta<Secret>> = match &scope {
            Scope::All => Api::all(ctx.client.clone()),
            Scope::Namespace(namespace) => Api::namespaced(ctx.client.clone(), namespace),
        };
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = Box::pin(watch::resilient(api, config));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = ctx.shutdown.cancelled() => return,
            };
            let (secret, gone) = match event {
                Some(Event::Apply(secret) | Event::InitApply(secret)) => (secret, false),
                Some(Event::Delete(secret)) => (secret, true),
                Some(Event::Init | Event::InitDone) => continue,
                None => return,
            };
            let namespace = secret.namespace().unwrap_or_default();
            let version = secret.metadata.resource_version.as_ref().filter(|_| !gone);
            if ctx.secret_watches.is_news(&namespace, &name, version) {
                changed(&ctx, &namespace, &name);
            }
        }
    });
}

/// Wakes the Workspaces that name this Secret.
fn changed(ctx: &Context, namespace: &str, name: &str) {
    changed_for::<Workspace>(ctx, namespace, name);
    changed_for::<ClusterWorkspace>(ctx, namespace, name);
}

fn changed_for<K: Kind>(ctx: &Context, namespace: &str, name: &str) {
    for workspace in K::stores(ctx).iter().flat_map(Store::state) {
        let Ok(workspace) = &workspace.0 else {
            continue;
        };
        let key = key_of::<K>(workspace);
        let spec = workspace.common();
        let named =
            spec.token_secret().0 == name || spec.ca_secret().is_some_and(|ca| ca.0 == name);
        if named && K::secret_namespace(ctx, &key) == namespace {
            ctx.checks.secret_changed(&key);
            ctx.wake_workspace(&key);
        }
    }
}
