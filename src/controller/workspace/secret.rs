//! Secrets: read by name, one key at a time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use crate::api::{Reason, WorkspaceKey};
use crate::controller::{
    apiserver,
    context::Context,
    state::secrets::{Read, SecretName},
};
use crate::decide::conditions::Why;
use crate::util::error_chain;

use super::namespaces;

/// Time limit of a read.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

/// Reads one key of a Secret live for a Workspace, and records its version. The watch's event for that version then
/// causes no new check.
pub async fn read(
    ctx: &Context,
    workspace: &WorkspaceKey,
    secret: &SecretName,
    entry: &str,
) -> Result<Vec<u8>, Why> {
    let SecretName { namespace, name } = secret;
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let note = |read| ctx.secrets.note(workspace, secret, read);
    // The semaphore is never closed.
    let _one = ctx.api_requests.acquire().await.ok();
    let reading = apiserver::read_entry(&api, name, entry);
    let found = match tokio::time::timeout(TIMEOUT, reading).await {
        Ok(Ok(Some(found))) => found,
        Ok(Ok(None)) => {
            note(Read::Version(None));
            return Err(not_found(ctx, secret, entry));
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            note(Read::Unread);
            return Err(Why::new(
                Reason::SecretForbidden,
                format!(
                    "The operator may not read the Secret {name} in namespace {namespace}; allow this name in the operator's RBAC."
                ),
            ));
        }
        Ok(Err(error)) => {
            tracing::warn!(k8s.namespace.name = %namespace, secret.name = %name, error = %error_chain(&error), "failed to read a Secret");
            return Err(unread(name));
        }
        Err(_) => return Err(unread(name)),
    };
    note(Read::Version(found.version));
    found.value.ok_or_else(|| {
        Why::new(
            Reason::SecretKeyNotFound,
            format!(
                "The Secret {name} in namespace {namespace} has no key {entry}; add it, or name another in the Workspace."
            ),
        )
    })
}

fn not_found(ctx: &Context, secret: &SecretName, entry: &str) -> Why {
    let SecretName { namespace, name } = secret;
    let message = if namespaces::terminating(ctx, namespace) {
        format!(
            "The Secret {name} doesn't exist in namespace {namespace}, which is being deleted, so that it can't be created there."
        )
    } else {
        format!(
            "The Secret {name} doesn't exist in namespace {namespace}; create it with the key {entry}."
        )
    };
    Why::new(Reason::SecretNotFound, message)
}

fn unread(name: &str) -> Why {
    Why::new(
        Reason::Checking,
        format!(
            "The Secret {name} could not be read from the API server; the read is retried automatically."
        ),
    )
}
