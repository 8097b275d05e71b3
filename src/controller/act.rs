//! Carries out one effect, and tells memory what it came to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube::{Api, ResourceExt};

use crate::api::{
    Intent, Run,
    intent::{End, IntentRecord},
    names,
};
use crate::decide::{
    Effect, Learned,
    answer::{Failure, FailureKind, RunView},
    need::needs_workspace,
};
use crate::service::{CallError, IdempotencyKey, RunId};

use super::{
    context::Context,
    objects::{Entry, Hold},
    reconcile::learn,
    registry::{Key, Live, Slot},
    rivals,
    writes::{self, WriteError},
};

/// What is left after an effect.
pub(super) enum Acted {
    /// The object as written.
    Object(Arc<Run>),
    /// Something was learnt; the object is as it was.
    Learned,
    /// The Workspace's rate limit allows no call now; come back after this time.
    HeldBack(Duration),
    /// The object is done with.
    Finished,
}

/// Carries out `effect`. A call is made with the session that policy saw.
pub(super) async fn act(
    ctx: &Context,
    entry: &Entry,
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
            let entered = (!needs_workspace(run)).then(|| ctx.doors.enter(key));
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
                    ctx.claims.forget(&entry.uid);
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
            let limiter = slot.live.as_ref().and_then(|live| live.limiter.as_ref());
            if let Some(Err(wait)) = limiter.map(|limiter| limiter.take(&entry.uid)) {
                return Ok(Acted::HeldBack(wait));
            }
            call(ctx, entry, key, slot, effect).await;
            Ok(Acted::Learned)
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

/// Makes one call to the service, and raises a suspicion about the Workspace where the answer calls for
/// it.
pub(super) async fn call(ctx: &Context, entry: &Entry, key: &Key, slot: &Slot, effect: &Effect) {
    let Some(live) = &slot.live else {
        return;
    };
    let (news, failure) = match effect {
        Effect::Submit { key, body } => {
            learn(ctx, entry, slot, Learned::SubmitStarted);
            let answer = create(live, key, body).await;
            (Learned::Submitted(answer.clone()), answer.err())
        }
        Effect::Refresh { run_id } => {
            learn(ctx, entry, slot, Learned::RefreshStarted);
            let answer = with_run(run_id, async |id| {
                live.client.get_run(&live.credentials, id).await
            })
            .await;
            (Learned::Refreshed(answer.clone()), answer.err())
        }
        Effect::Cancel { run_id } => {
            let answer = with_run(run_id, async |id| {
                live.client.cancel_run(&live.credentials, id).await
            })
            .await;
            (Learned::CancelAnswered(answer.clone()), answer.err())
        }
        Effect::WriteIntent { .. } | Effect::Release { .. } | Effect::Delete => return,
    };
    learn(ctx, entry, slot, news);
    if let Some(failure) = failure {
        failed(ctx, entry, key, live, effect, &failure);
    }
}

async fn create(live: &Live, key: &str, body: &[u8]) -> Result<RunView, Failure> {
    let key = IdempotencyKey::parse(key).map_err(|error| not_sent(&error))?;
    let body = Bytes::copy_from_slice(body);
    live.client
        .create_run(&live.credentials, &key, body)
        .await
        .map_err(|error| Failure::from(&error))
}

async fn with_run(
    run_id: &str,
    call: impl AsyncFnOnce(&RunId) -> Result<RunView, CallError>,
) -> Result<RunView, Failure> {
    let run_id = RunId::parse(run_id).map_err(|error| not_sent(&error))?;
    call(&run_id).await.map_err(|error| Failure::from(&error))
}

fn not_sent(error: &dyn std::error::Error) -> Failure {
    Failure {
        kind: FailureKind::NotSent,
        http_status: None,
        code: None,
        request_id: None,
        retryable: None,
        retry_after: None,
        message: error.to_string(),
    }
}

fn failed(
    ctx: &Context,
    entry: &Entry,
    key: &Key,
    live: &Live,
    effect: &Effect,
    failure: &Failure,
) {
    tracing::warn!(
        k8s.namespace.name = %entry.namespace,
        run.name = %entry.name,
        run.uid = %entry.uid,
        call = writes::effect_name(effect),
        http.status = failure.http_status,
        code = failure.code.as_deref(),
        request.id = failure.request_id.as_deref(),
        error = %failure.message,
        "a call to the service failed"
    );
    ctx.suspect(key, live.number, failure);
}
