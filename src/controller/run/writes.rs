//! Changes one Run's object, and reads it live where a write found another version or none.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;

use crate::api::{Run, RunStatus, WorkspaceKey};
use crate::controller::{
    apiserver::{
        ObjectVersion,
        patch::{self, WriteError},
    },
    context::Context,
    state::{runs::RunEntry, workspaces::WorkspaceState},
};
use crate::decide::{
    Effect,
    claims::begins_submission,
    delays,
    turn::{Outcome, Step},
};

use super::live_read::{self, Found};

/// Pause after a first conflict; usually the watch delivers the newer object earlier. If it doesn't, pauses grow up to
/// `AFTER_REFUSAL`.
const AFTER_CONFLICT: Duration = Duration::from_millis(500);
/// Number of conflicts in a row from which the object is read live.
const CONFLICTS: u32 = 2;
/// Pause after the API server refused a write.
const AFTER_REFUSAL: Duration = Duration::from_mins(1);

/// The object that is written, and its Workspace.
pub(crate) struct Target<'a> {
    pub(crate) ctx: &'a Context,
    pub(crate) entry: &'a RunEntry,
    /// The version that policy decided on.
    pub(crate) run: &'a Arc<Run>,
    pub(crate) key: &'a WorkspaceKey,
    pub(crate) workspace: &'a WorkspaceState,
}

impl Target<'_> {
    fn api(&self) -> Api<Run> {
        Api::namespaced(self.ctx.client.clone(), &self.entry.namespace)
    }

    fn took(&self, step: &Step, outcome: Outcome<Run>) {
        let session = self.workspace.session.as_ref();
        let session = session.map_or(0, |session| session.number);
        let with = self.entry.learning(&self.ctx.config.contract, session);
        self.entry.took(step, outcome, with);
    }

    /// Writes the status of a step.
    pub(crate) async fn status(&self, step: &Step, status: &RunStatus) -> Result<(), WriteError> {
        let written = patch::write_status(&self.api(), self.run, status).await?;
        self.took(step, Outcome::Written(written));
        Ok(())
    }

    /// Carries out the effect of a step on the object.
    pub(crate) async fn change(&self, step: &Step, effect: &Effect) -> Result<(), WriteError> {
        let Self {
            ctx,
            entry,
            run,
            key,
            workspace,
        } = self;
        // A Workspace about to be deleted permits no submission; the next decision shows that.
        let base_url = workspace.view.place().map(|place| place.base_url.as_str());
        let begins = begins_submission(effect, run, base_url);
        let permit = begins.then(|| ctx.workspaces.begin_submission(key));
        if matches!(permit, Some(None)) {
            return Ok(());
        }
        let change = effect.metadata_change(run).map_err(WriteError::Serialize)?;
        let claims = effect.claims_key();
        if claims && !ctx.keys.claim(run) {
            return Ok(());
        }
        let written = match change {
            Some(change) => patch::write_metadata(&self.api(), &***run, &change)
                .await
                .map(Outcome::Written),
            None => match patch::delete(&self.api(), &ObjectVersion::of(&run.metadata)).await {
                Ok(()) | Err(WriteError::Gone) => Ok(Outcome::Removed),
                Err(error) => Err(error),
            },
        };
        // A claim without an intent would block other Runs. After a write without an answer the intent may be stored. So it
        // may after a conflict: the write may have been sent twice on the way and have met its own first copy.
        if claims && written.as_ref().is_err_and(WriteError::not_written) {
            ctx.keys.unclaim(&entry.uid);
        }
        match written {
            Ok(outcome) => self.took(step, outcome),
            Err(error) => {
                if matches!(error, WriteError::Gone) {
                    self.took(step, Outcome::Gone);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Reads the object live, and records whether it exists.
pub(crate) async fn read_live(ctx: &Context, entry: &RunEntry) -> Found {
    let found = live_read::read(ctx, entry).await;
    match &found {
        Found::Exists(Some(run)) => drop(entry.observe(Arc::clone(run))),
        Found::Exists(None) | Found::Unknown => {}
        Found::Deleted => {
            let new = !entry.with(|state| state.run.deleted());
            let with = entry.learning(&ctx.config.contract, 0);
            entry.took(&Step::ReadLive, Outcome::Gone, with);
            entry.close_stream();
            if new && entry.with(|state| state.run.owes()) {
                ctx.metrics.vanished.inc();
                tracing::warn!(
                    k8s.namespace.name = %entry.namespace, run.name = %entry.name, run.uid = %entry.uid,
                    "a Run was deleted without having been released; cancelling its run"
                );
            }
        }
    }
    found
}

/// Handles a failed write. After one that met another version of the object, or none, the watch is behind. Usually it catches
/// up at once; if it doesn't, the object is read live. Returns the pause before the next reconcile.
pub(crate) async fn failed(ctx: &Context, entry: &RunEntry, error: &WriteError) -> Duration {
    let conflict = matches!(error, WriteError::Conflict | WriteError::Gone);
    let n = entry.with(|state| {
        let counter = if conflict {
            &mut state.conflicts
        } else {
            &mut state.write_failures
        };
        *counter = counter.saturating_add(1);
        *counter
    });
    if matches!(error, WriteError::Gone) || conflict && n >= CONFLICTS {
        read_live(ctx, entry).await;
    }
    let delay = || delays::backoff(n, None, delays::seed(&entry.uid, n));
    match error {
        WriteError::Conflict | WriteError::Gone if n == 1 => AFTER_CONFLICT,
        WriteError::Conflict | WriteError::Gone => delay().min(AFTER_REFUSAL),
        WriteError::Failed(_) | WriteError::Timeout => delay(),
        WriteError::Refused(_) | WriteError::Serialize(_) => AFTER_REFUSAL,
    }
}
