//! Carries out one effect, and tells memory what it came to. A call to the service is handed to
//! [`calls`].

use std::sync::Arc;

use kube::{Api, ResourceExt};

use crate::api::{
    Intent, Run,
    intent::{End, IntentRecord},
    names,
};
use crate::decide::{Effect, Learned, need::needs_workspace};

use super::{
    calls,
    context::Context,
    objects::{Entry, Hold},
    reconcile::learn,
    registry::{Key, Slot},
    rivals,
    writes::{self, WriteError},
};

/// What is left after an effect.
pub(super) enum Acted {
    /// The object as written.
    Object(Arc<Run>),
    /// Something was learnt; the object is as it was.
    Learned,
    /// A call is under way, or waits for its turn; it wakes the object.
    Awaited,
    /// The object is done with.
    Finished,
}

/// Carries out `effect`. A call is made with the session that policy saw.
pub(super) async fn act(
    ctx: &Arc<Context>,
    entry: &Arc<Entry>,
    api: &Api<Run>,
    run: &Run,
    key: &Key,
    slot: &Slot,
    effect: &Effect,
) -> Result<Acted, WriteError> {
    tracing::debug!(run.uid = %entry.uid, effect = writes::effect_name(effect), "acting");
    match effect {
        Effect::WriteIntent {
            intent,
            finalizer,
            clean,
        } => {
            // Only a first intent takes the key: a mend or a takeover has it.
            let first = intent.epoch == 1 && *clean;
            // A Workspace that is about to go takes nobody; deciding again will say so.
            let base_url = slot.view.place().map(|place| place.base_url.as_str());
            let entered = (!needs_workspace(run, base_url)).then(|| ctx.doors.enter(key));
            if matches!(entered, Some(None)) {
                return Ok(Acted::Learned);
            }
            if first && !rivals::claim(ctx, run) {
                return Ok(Acted::Learned);
            }
            let written = writes::write_intent(api, run, intent, *finalizer).await;
            // A claim without an intent would block the elder Run, and be blocked by it. A write that
            // got no answer may stand.
            let written = written.inspect_err(|error| {
                if first && !error.fate_unknown() {
                    ctx.claims.release(&entry.uid);
                }
            })?;
            learn(
                ctx,
                entry,
                slot,
                Learned::IntentWritten {
                    intent: intent.clone(),
                    clean: *clean,
                },
            );
            Ok(Acted::Object(entry.wrote(written)))
        }
        Effect::Release { end } => {
            let kept = end.as_ref().and_then(|end| with_end(run, entry, end));
            match writes::release(api, run, kept.as_ref()).await {
                Ok(written) => {
                    let last = written.finalizers().is_empty();
                    if last && run.metadata.deletion_timestamp.is_some() {
                        entry.with(|state| state.hold = Hold::Gone);
                        return Ok(Acted::Finished);
                    }
                    entry.with(|state| state.hold = Hold::Released);
                    Ok(Acted::Object(entry.wrote(written)))
                }
                Err(error) => {
                    // Nothing is left to be done for an object that somebody else let go.
                    if matches!(error, WriteError::Gone) {
                        entry.with(|state| state.hold = Hold::Released);
                    }
                    Err(error)
                }
            }
        }
        Effect::Delete => match writes::delete(api, run).await {
            Ok(()) | Err(WriteError::Gone) => Ok(Acted::Finished),
            Err(error) => Err(error),
        },
        Effect::Submit { .. } | Effect::Refresh { .. } | Effect::Cancel { .. } => {
            calls::start(ctx, entry, run, key, slot, effect);
            Ok(Acted::Awaited)
        }
    }
}

/// The intent with how the Run ended, if the object has one.
fn with_end(run: &Run, entry: &Entry, end: &End) -> Option<Intent> {
    let annotation = run
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(names::INTENT_ANNOTATION));
    match IntentRecord::read(annotation.map(String::as_str), &entry.uid) {
        IntentRecord::Own(intent) => Some(Intent {
            end: Some(end.clone()),
            ..*intent
        }),
        IntentRecord::Absent | IntentRecord::Foreign | IntentRecord::Unreadable => None,
    }
}
