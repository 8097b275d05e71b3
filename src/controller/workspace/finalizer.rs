//! A Workspace outlives the Runs that need it: its finalizer is removed when none is left. No Run can begin in between.

use std::time::Duration;

use kube::Api;

use crate::api::Run;
use crate::controller::{
    apiserver::{
        self, Scope,
        patch::{self, WriteError},
        reconciler::ReconcileError,
    },
    state::run_store::Known,
};
use crate::decide::workspace::LISTED_RUNS;
use crate::service::BaseUrl;

use super::kind::{Kind, Subject};

/// Time limit of one page of a list; a list of everything may have thousands of pages.
const A_PAGE: Duration = Duration::from_mins(1);
/// One more than a message names, so that it can show that there are others.
const NAMED: usize = LISTED_RUNS + 1;

impl<K: Kind> Subject<'_, K> {
    /// Sorted names of the first Runs that need this Workspace by the store, also of deleted ones. For a
    /// `ClusterWorkspace` with their namespaces. Empty if there are none.
    pub(crate) fn needed_by(&self) -> Vec<String> {
        let base_url = self.pinned_base_url();
        let (runs, key) = (&self.ctx.runs, &self.entry.key);
        runs.still_needing(key, base_url.as_deref(), NAMED)
    }

    /// Removes the finalizer of a Workspace that is being deleted, if no Run needs it. The stores are checked first, then
    /// a live list, since a store may be behind. Returns whether it was removed; else Runs need the Workspace, or may
    /// begin to, and it is tried again when one has ended.
    pub(crate) async fn release_if_unused(&self) -> Result<bool, ReconcileError> {
        let no_submission = self.entry.close_submissions();
        if !no_submission || !self.needed_by().is_empty() {
            return Ok(false);
        }
        // The semaphore is never closed.
        let _one = self.ctx.workspaces.removals.acquire().await.ok();
        if self.needed_live().await? {
            return Ok(false);
        }
        match patch::write_finalizer(&self.api(), self.workspace, false).await {
            Ok(_) | Err(WriteError::Gone) => Ok(true),
            // After a conflict, most likely its status was written a moment ago.
            Err(error) => Err(error.into()),
        }
    }

    /// The Workspace's base URL, allowed or not, in the form to which Runs are pinned. `None` if neither the Workspace
    /// nor the operator names one.
    fn pinned_base_url(&self) -> Option<String> {
        let url = self.base_url()?;
        Some(BaseUrl::normalised(url).unwrap_or_else(|| url.to_owned()))
    }

    async fn needed_live(&self) -> Result<bool, apiserver::ListError> {
        let (key, base_url) = (&self.entry.key, self.pinned_base_url());
        let scopes = if key.namespace.is_empty() {
            Scope::of(&self.ctx.config.namespaces)
        } else {
            vec![Scope::Namespace(key.namespace.clone())]
        };
        let mut needed = false;
        for scope in scopes {
            let api: Api<Run> = scope.api(self.ctx.client.clone());
            let list = apiserver::list(&api, None, A_PAGE, |run| {
                needed = Known::from(run).needs(key, base_url.as_deref());
                needed
            });
            list.await?;
            if needed {
                break;
            }
        }
        Ok(needed)
    }
}
