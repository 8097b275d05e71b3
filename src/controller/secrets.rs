//! Secrets: read by name, one key at a time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use crate::api::Reason;
use crate::decide::situation::Why;

use super::{
    context::Context,
    namespaces,
    registry::Key,
    secret_table::{Read, SecretName},
    watch::chain,
};

/// A read that takes longer is given up.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// Reads one key of a Secret for a Workspace, freshly, and notes its version, so that the watch's echo of
/// what was read is no news.
pub async fn read(
    ctx: &Context,
    workspace: &Key,
    secret: &SecretName,
    entry: &str,
) -> Result<Vec<u8>, Why> {
    let SecretName { namespace, name } = secret;
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), namespace);
    let note = |read| ctx.secrets.note(workspace, secret, read);
    // The semaphore is never closed.
    let _one = ctx.api_requests.acquire().await.ok();
    let found = match tokio::time::timeout(TIMEOUT, api.get_opt(name)).await {
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
            tracing::warn!(k8s.namespace.name = %namespace, secret.name = %name, error = %chain(&error), "failed to read a Secret");
            return Err(unread(name));
        }
        Err(_) => return Err(unread(name)),
    };
    note(Read::Version(found.metadata.resource_version));
    match found.data.unwrap_or_default().get(entry) {
        Some(value) => Ok(value.0.clone()),
        None => Err(Why::new(
            Reason::SecretKeyNotFound,
            format!(
                "The Secret {name} in namespace {namespace} has no key {entry}; add it, or name another in the Workspace."
            ),
        )),
    }
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
            "The Secret {name} could not be read from the API server; it is read again by itself."
        ),
    )
}
