//! A Workspace outlives the Runs that need it: its finalizer is removed when none is left. No Run can begin in between.

use std::time::Duration;

use kube::Api;

use crate::api::{Run, WorkspaceKey};
use crate::controller::{
    apiserver::{
        self,
        patch::{self, WriteError},
        reconciled::ReconcileError,
        scope::Scope,
    },
    context::Context,
    state::run_store::Known,
};
use crate::decide::workspace::LISTED_RUNS;
use crate::service::BaseUrl;

use super::kind::Kind;

/// Time limit of one page of a list; a list of everything may have thousands of pages.
const A_PAGE: Duration = Duration::from_mins(1);

/// Whether the finalizer of a Workspace that is being deleted was removed.
pub(crate) enum Removal {
    /// It was.
    Removed,
    /// Runs need the Workspace, or may begin to. Retried when one has ended.
    Needed,
}

/// One more than a message names, so that it can show that there are others.
const NAMED: usize = LISTED_RUNS + 1;

/// Sorted names of the first Runs that need this Workspace by the store, also of deleted ones. For a `ClusterWorkspace` with their namespaces. Empty if there are none.
pub(crate) fn needed_by<K: Kind>(ctx: &Context, workspace: &K, key: &WorkspaceKey) -> Vec<String> {
    let base_url = base_url(ctx, workspace);
    ctx.runs.still_needing(key, base_url.as_deref(), NAMED)
}

/// Removes the finalizer of a Workspace that is being deleted, if no Run needs it. The stores are checked first, then a
/// live list, since a store may be behind.
pub(crate) async fn remove_if_unused<K: Kind>(
    ctx: &Context,
    workspace: &K,
    key: &WorkspaceKey,
) -> Result<Removal, ReconcileError> {
    let no_submission = ctx.workspaces.entry(key).close_submissions();
    if !no_submission || !needed_by(ctx, workspace, key).is_empty() {
        return Ok(Removal::Needed);
    }
    // The semaphore is never closed.
    let _one = ctx.removals.acquire().await.ok();
    if needed_live(ctx, key, base_url(ctx, workspace).as_deref()).await? {
        return Ok(Removal::Needed);
    }
    let api = K::api(ctx.client.clone(), &key.namespace);
    match patch::write_finalizer(&api, workspace, false).await {
        Ok(_) | Err(WriteError::Gone) => Ok(Removal::Removed),
        // After a conflict, most likely its status was written a moment ago.
        Err(error) => Err(error.into()),
    }
}

/// The Workspace's base URL, allowed or not, in the form to which Runs are pinned. `None` if neither the Workspace nor
/// the operator names one.
fn base_url<K: Kind>(ctx: &Context, workspace: &K) -> Option<String> {
    let spec = workspace.common();
    let url = spec
        .base_url
        .as_deref()
        .or(ctx.config.base_url.as_deref())?;
    Some(BaseUrl::normalised(url).unwrap_or_else(|| url.to_owned()))
}

async fn needed_live(
    ctx: &Context,
    key: &WorkspaceKey,
    base_url: Option<&str>,
) -> Result<bool, apiserver::ListError> {
    let scopes = if key.namespace.is_empty() {
        Scope::of(&ctx.config.namespaces)
    } else {
        vec![Scope::Namespace(key.namespace.clone())]
    };
    for scope in scopes {
        let api: Api<Run> = scope.api(ctx.client.clone());
        let mut needed = false;
        let list = apiserver::list(&api, None, A_PAGE, |run| {
            needed = Known::from(run).needs(key, base_url);
            needed
        });
        list.await?;
        if needed {
            return Ok(true);
        }
    }
    Ok(false)
}
