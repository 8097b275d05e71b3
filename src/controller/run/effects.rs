//! Carries out one effect and records its outcome. A call to the service is handed to [`calls`].

use std::sync::Arc;

use kube::ResourceExt;

use crate::api::{Intent, Run, WorkspaceKey, intent::End};
use crate::controller::{
    apiserver::{
        ObjectVersion,
        patch::{self, WriteError},
    },
    state::workspaces::WorkspaceState,
};
use crate::decide::{
    Effect, metadata_change::MetadataChange, tracked_run::WriteFailure,
    workspace::in_use::begins_submission,
};

use super::{calls, pass::Pass, policy};

/// Outcome of an effect.
pub(crate) enum EffectResult {
    /// The object as written.
    Object(Arc<Run>),
    /// The memory changed, or policy must decide again; the object is unchanged.
    Learned,
    /// A call is in flight or waits for its permit.
    Call,
    /// The object is released.
    Released,
}

/// Carries out `effect`. A call uses the session that policy saw.
pub(crate) async fn carry_out(
    pass: &mut Pass<'_>,
    key: &WorkspaceKey,
    workspace: &WorkspaceState,
    effect: &Effect,
) -> Result<EffectResult, WriteError> {
    tracing::debug!(run.uid = %pass.entry.uid, effect = effect.name(), "acting");
    match effect {
        Effect::WriteIntent {
            intent,
            finalizer,
            clean,
        } => {
            // A Workspace about to be deleted permits no submission; the next decision shows that.
            let base_url = workspace.view.place().map(|place| place.base_url.as_str());
            let begins = begins_submission(effect, &pass.run, base_url);
            let permit = begins.then(|| pass.ctx.workspaces.begin_submission(key));
            if matches!(permit, Some(None)) {
                return Ok(EffectResult::Learned);
            }
            let claims = effect.claims_key();
            write_intent(pass, workspace, (intent, *finalizer, *clean), claims).await
        }
        // The object is deleted: nothing can be written.
        Effect::Release { .. } if pass.deleted => Ok(EffectResult::Released),
        Effect::Release { end } => release(pass, end.as_ref()).await,
        Effect::Delete => {
            let version = ObjectVersion::of(&pass.run.metadata);
            match patch::delete(&pass.api(), &version).await {
                Ok(()) | Err(WriteError::Gone) => Ok(EffectResult::Released),
                Err(error) => Err(error),
            }
        }
        Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. } => {
            calls::start(pass, key, workspace, effect);
            Ok(EffectResult::Call)
        }
    }
}

async fn write_intent(
    pass: &mut Pass<'_>,
    workspace: &WorkspaceState,
    (intent, finalizer, clean): (&Intent, bool, bool),
    claims: bool,
) -> Result<EffectResult, WriteError> {
    let api = pass.api();
    let Pass {
        ctx, entry, run, ..
    } = pass;
    let change = MetadataChange::write_intent(run, intent, finalizer);
    let change = change.map_err(WriteError::Serialize)?;
    if claims && !ctx.keys.claim(run) {
        return Ok(EffectResult::Learned);
    }
    let written = patch::write_metadata(&api, &**run, &change).await;
    // A claim without an intent would block other Runs. After a write without an answer the intent may be stored. So it may
    // after a conflict: the write may have been sent twice on the way and have met its own first copy.
    let written = written.inspect_err(|error| {
        if claims && error.not_written() {
            ctx.keys.unclaim(&entry.uid);
        }
    })?;
    let with = policy::learning(ctx, entry, workspace);
    entry.with(|state| state.run.intent_written(intent.clone(), clean, with));
    Ok(EffectResult::Object(entry.wrote(written)))
}

/// Removes the finalizer; the intent keeps the Run's end.
async fn release(pass: &Pass<'_>, end: Option<&End>) -> Result<EffectResult, WriteError> {
    let Pass { entry, run, .. } = pass;
    let change = MetadataChange::release(run, end).map_err(WriteError::Serialize)?;
    let answer = patch::write_metadata(&pass.api(), &**run, &change).await;
    let last = |written: &Run| {
        written.finalizers().is_empty() && run.metadata.deletion_timestamp.is_some()
    };
    let known = match &answer {
        Ok(written) => Ok(last(written)),
        Err(WriteError::Gone) => Err(WriteFailure::Deleted),
        Err(_) => Err(WriteFailure::Other),
    };
    entry.with(|state| state.run.release_answered(known));
    let written = answer?;
    Ok(match known {
        Ok(true) => EffectResult::Released,
        _ => EffectResult::Object(entry.wrote(written)),
    })
}
