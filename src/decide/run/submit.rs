//! The submission: its intent, the bytes and the key, and the POST.

use crate::api::Intent;
use crate::decide::{
    Decision, Effect, Session,
    failure::{Call, CallFailures},
    messages,
    observation::Observation,
    request::body::{self, CURRENT_SERIALIZER},
    time::later,
};

use super::{
    intent::next_epoch,
    pinning,
    waiting::{blocked, paused, retrying, waiting},
};

/// Writes a new intent, pinned to the present session. Called only if no earlier POST can have made a run.
pub(crate) fn submit_new(f: &Observation<'_>, session: &Session) -> Decision {
    if let Some(holder) = f.o.key_holder {
        return blocked(f, messages::key_in_use(f, holder))
            .requeue_at(later(f.o.now, f.o.settings.poll_max));
    }
    if let Some(paused) = paused(f) {
        // As long as there is no intent, the Run can still be suspended.
        return paused;
    }
    let body = body::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    let intent = Intent {
        uid: f.uid.to_owned(),
        workspace: session.resolved.clone(),
        key: f.key(),
        sha256: body::sha256(&body),
        serializer: CURRENT_SERIALIZER,
        time: f.o.wall,
        owner: f.o.settings.process.clone(),
        epoch: next_epoch(f),
        retry: f.retry_annotation(),
        end: None,
    };
    write_intent(f, intent, true)
}

fn write_intent(f: &Observation<'_>, intent: Intent, clean: bool) -> Decision {
    Decision::act(Effect::WriteIntent {
        intent: Box::new(intent),
        finalizer: finalizer_required(f),
        clean,
    })
}

/// Whether the intent is written together with its finalizer, so that no object is deleted while a POST for it may be
/// sent. An object that is being deleted accepts no new finalizer.
fn finalizer_required(f: &Observation<'_>) -> bool {
    !f.deleting()
}

pub(crate) fn submit(f: &Observation<'_>, intent: &Intent, session: &Session) -> Decision {
    let retry = f.new_retry();
    if f.not_created() && (retry || f.key_may_be_forgotten(intent)) {
        return submit_new(f, session);
    }
    if let Some((reason, pinned)) = pinning::moved(f, session) {
        let why = messages::elsewhere(f, reason, pinned, session);
        let forgotten = (!f.not_created()).then(|| f.when(f.key_forgotten_at(intent)));
        return Decision {
            requeue_at: forgotten,
            ..blocked(f, why)
        };
    }
    let body = body::body(f.spec(), intent.serializer)
        .filter(|body| body::sha256(body) == intent.sha256 && f.key() == intent.key);
    let Some(body) = body else {
        return blocked(f, messages::body_changed(f));
    };
    let unheld = finalizer_required(f) && !f.has_finalizer();
    if retry || unheld || !f.owned_by_this_process(intent) {
        return take_over(f, intent);
    }
    match waits_for_retry(f) {
        Some(failed) => retrying(f, failed),
        None => paused(f).unwrap_or_else(|| Decision {
            status: waiting(f),
            ..Decision::act(Effect::Submit {
                key: intent.key.clone(),
                body,
            })
        }),
    }
}

/// Writes the same submission under a new epoch, which withdraws the proof of an earlier one; or the same intent once
/// more if only the finalizer is missing. An intent that was removed by an edit is written back as a takeover, too:
/// another process may have been the owner meanwhile.
fn take_over(f: &Observation<'_>, intent: &Intent) -> Decision {
    let kept = f.owned_by_this_process(intent) && !f.new_retry();
    let next = Intent {
        owner: f.o.settings.process.clone(),
        epoch: if kept { intent.epoch } else { next_epoch(f) },
        retry: f.retry_annotation(),
        ..intent.clone()
    };
    write_intent(f, next, kept && f.not_created())
}

/// The failure of the create, if its next attempt is not due yet.
fn waits_for_retry<'a>(f: &Observation<'a>) -> Option<&'a CallFailures> {
    f.failures_of(Call::Create)
        .filter(|failed| f.next_attempt(failed) > f.o.now || f.awaits_another_session())
}
