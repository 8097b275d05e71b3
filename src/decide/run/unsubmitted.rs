//! A Run whose runId is not known: from the first reconcile to the answer of the create.

use crate::api::{
    ConditionType, Intent, Phase, Reason, RunStatus,
    status::{Refusal, ResolvedWorkspace},
};
use crate::decide::{
    claims::{needs_workspace, refusal_is_for_this_epoch},
    conditions::{Conditions, Why},
    decision::{Decision, Effect},
    delays::later,
    events::EventDraft,
    facts::{Known, Observation, moved, release},
    failure::{Call, CallFailures, Class, Repeats},
    inputs::{Session, WorkspaceView},
    messages,
    request::{self, CURRENT_SERIALIZER},
};
use crate::util::sha256;

use super::status::not_shown_yet;

pub(crate) fn decide(f: &Observation<'_>) -> Decision {
    if f.o.vanished {
        // No run is known, and no object is left for the intent of another POST.
        return Decision::act(Effect::Release { end: None });
    }
    if f.deleting() {
        return deleting(f);
    }
    if f.spec().cancelled() && f.not_created() {
        let why = Why::new(
            Reason::Cancelled,
            "Cancelled before it was submitted; no run was made.",
        );
        return Decision::write(f.status_with(&Conditions::Ended {
            phase: Phase::Cancelled,
            why,
        }));
    }
    // Another object's intent never leads to a POST automatically.
    if matches!(f.intent(), Known::Foreign) && !new_run_requested(f) {
        return restored(f);
    }
    if suspended(f) {
        return Decision::write(f.status_with(&Conditions::Suspended));
    }
    if let Some(refusal) = standing_refusal(f) {
        let copied = matches!(f.intent(), Known::Foreign);
        let ends = refusal.reason == Reason::CreateRefused && refusal.not_created && !copied;
        if ends {
            return ended_by(f, refusal);
        }
        if !f.new_retry() {
            return refused(f, refusal);
        }
    }
    with_workspace(f)
}

/// Whether a person requested that a copy of another object be submitted as a new run. False if the status came with the
/// other's runId: it is immutable, and the new run would be mistaken for it.
fn new_run_requested(f: &Observation<'_>) -> bool {
    f.new_retry() && !f.spec().suspended() && f.status().run_id.is_none()
}

/// A copy of another object is not submitted. A retry annotation that was copied with it is not a new one.
fn restored(f: &Observation<'_>) -> Decision {
    let mut status = f.status_with(&Conditions::Blocked(messages::restored(f)));
    if !f.new_retry() {
        status.handled_retry = f.retry_annotation();
    }
    Decision::write(status)
}

/// Whether `suspend` holds the submission. Once there is an intent it is ignored, since the present proof may be unknown
/// after a restart.
fn suspended(f: &Observation<'_>) -> bool {
    matches!(f.intent(), Known::Nothing) && f.spec().suspended()
}

fn deleting(f: &Observation<'_>) -> Decision {
    // Checked before `Orphan`: if no run was made, none is left behind. In doubt the finalizer stays.
    if f.not_created() {
        return release(f, Vec::new());
    }
    if f.orphaned() {
        let key = f.own_intent().map(|i| i.key.as_str());
        return release(f, vec![EventDraft::orphaned(key, None)]);
    }
    with_workspace(f)
}

fn with_workspace(f: &Observation<'_>) -> Decision {
    // Neither followed nor replaced.
    if matches!(f.intent(), Known::Unreadable) {
        return blocked(f, messages::unreadable_intent());
    }
    let doubted = f.own_intent().filter(|_| !f.not_created());
    if let Some(intent) = doubted.filter(|i| f.key_may_be_forgotten(i)) {
        return blocked(f, messages::outcome_unknown(f, intent));
    }
    let forgotten = doubted.map(|i| f.when(f.key_forgotten_at(i)));
    let session = match f.o.workspace {
        WorkspaceView::Unknown => return Decision::quiet(),
        WorkspaceView::Missing if f.deleting() => {
            return blocked(f, messages::workspace_deleted(f));
        }
        WorkspaceView::Missing => return pending(f, messages::workspace_missing(f)),
        _ if f.o.namespace_allowed.is_some() && !namespace_may_post(f) => {
            return Decision {
                requeue_at: forgotten,
                ..blocked(f, messages::namespace_not_allowed(f))
            };
        }
        // No Workspace detail is shown in a namespace before that namespace is known to be allowed. Except a
        // Workspace that can't be read: it doesn't show whom it allows.
        view if f.o.namespace_allowed.is_none() && !invalid(view) => return Decision::quiet(),
        WorkspaceView::NotReady {
            reason,
            message,
            since,
        } => {
            // A Run without any status yet costs no additional write.
            let shown_at = not_shown_yet(f, *since).filter(|_| f.status().phase.is_some());
            let decision = match shown_at {
                Some(_) => Decision::quiet(),
                None => pending(f, messages::workspace_not_ready(f, *reason, message)),
            };
            return Decision {
                requeue_at: forgotten.into_iter().chain(shown_at).min(),
                ..decision
            };
        }
        WorkspaceView::Ready(session) => session,
    };
    if let Some(why) = held_back(f, session) {
        return pending(f, why);
    }
    match f.intent() {
        Known::Own(intent) => submit(f, intent, session),
        Known::Nothing | Known::Foreign | Known::Unreadable => submit_new(f, session),
    }
}

fn invalid(view: &WorkspaceView) -> bool {
    matches!(view, WorkspaceView::NotReady { reason, .. } if *reason == Reason::WorkspaceInvalid)
}

/// Whether a POST may be made from the object's namespace.
///
/// An intent grants nothing: anyone with permission to edit the object can write one. Only a deletion asks once more
/// for the outcome of a POST, and only if this process made the intent itself while the namespace was allowed.
fn namespace_may_post(f: &Observation<'_>) -> bool {
    let asks_once_more = || f.own_intent().is_some_and(|i| f.owned_by_this_process(i));
    f.o.namespace_allowed == Some(true) || f.deleting() && asks_once_more()
}

fn pending(f: &Observation<'_>, why: Why) -> Decision {
    Decision::write(f.status_with(&Conditions::Pending(why)))
}

/// Blocks until a person acts. A retry that can't be carried out now stays unhandled: marked as handled, it would hide
/// the reason from the next reconcile and be lost once the obstacle is removed.
fn blocked(f: &Observation<'_>, why: Why) -> Decision {
    Decision::write(f.status_with(&Conditions::Blocked(why)))
}

/// Reason why a first submission waits, with or without an intent: a version that is not accepted, the Workspace's
/// `suspend` or its deletion. They block nothing else.
fn held_back(f: &Observation<'_>, session: &Session) -> Option<Why> {
    let (reason, message) = session.submissions_blocked.as_ref()?;
    let first = f.not_created();
    let blocks = first && !is_awaited(f, session, *reason);
    blocks.then(|| Why::new(*reason, message.clone()))
}

/// Whether a Workspace that is being deleted waits for this Run and so doesn't block it: the two would wait for
/// each other.
fn is_awaited(f: &Observation<'_>, session: &Session, reason: Reason) -> bool {
    reason == Reason::WorkspaceDeleting
        && needs_workspace(f.o.run, Some(&session.resolved.base_url))
}

/// The decision while a call is due and the Workspace's calls are paused.
fn paused(f: &Observation<'_>) -> Option<Decision> {
    let over = f.pause_over()?;
    Some(Decision {
        status: waiting(f),
        ..Decision::quiet().requeue_at(over)
    })
}

/// The status for a call that waits longer than a moment.
fn waiting(f: &Observation<'_>) -> Option<RunStatus> {
    let why = messages::held_back(f, f.o.call_delay?);
    Some(f.status_with(&Conditions::Pending(why)))
}

fn retrying(f: &Observation<'_>, failed: &CallFailures) -> Decision {
    if failed.repeats() == Repeats::AtOnce {
        // The Workspace's own status is about to show the error of the token.
        return Decision::quiet();
    }
    let requeue_at = Some(f.next_attempt(failed)).filter(|at| *at > f.o.now);
    Decision {
        requeue_at,
        ..pending(f, messages::retrying(f, failed))
    }
}

/// Writes a new intent, pinned to the present session. Called only if no earlier POST can have made a run.
fn submit_new(f: &Observation<'_>, session: &Session) -> Decision {
    if let Some(holder) = f.o.key_holder {
        return blocked(f, messages::key_in_use(f, holder))
            .requeue_at(later(f.o.now, f.o.settings.poll_max));
    }
    if let Some(paused) = paused(f) {
        // As long as there is no intent, the Run can still be suspended.
        return paused;
    }
    let body = request::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    let intent = Intent {
        uid: f.uid.to_owned(),
        workspace: session.resolved.clone(),
        key: f.key(),
        sha256: sha256(&body),
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

fn submit(f: &Observation<'_>, intent: &Intent, session: &Session) -> Decision {
    let retry = f.new_retry();
    if f.not_created() && (retry || f.key_may_be_forgotten(intent)) {
        return submit_new(f, session);
    }
    if let Some((reason, pinned)) = moved(f, session) {
        let why = messages::elsewhere(f, reason, pinned, session);
        let forgotten = (!f.not_created()).then(|| f.when(f.key_forgotten_at(intent)));
        return Decision {
            requeue_at: forgotten,
            ..blocked(f, why)
        };
    }
    let body = request::body(f.spec(), intent.serializer)
        .filter(|body| sha256(body) == intent.sha256 && f.key() == intent.key);
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

/// Epoch of the intent that is written now. An earlier epoch proves nothing about it: a takeover or a retry withdraws
/// the proof. A refusal may outlive its intent, so its epoch counts too.
pub(crate) fn next_epoch(f: &Observation<'_>) -> i64 {
    let refused = f.status().refusal.as_ref().map_or(0, |r| r.epoch);
    let latest = f.own_intent().map_or(refused, |i| i.epoch.max(refused));
    latest.saturating_add(1)
}

/// Intent for a Run at the service whose own intent was lost.
pub(crate) fn rebuilt_intent(f: &Observation<'_>, workspace: &ResolvedWorkspace) -> Intent {
    let body = request::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    Intent {
        uid: f.uid.to_owned(),
        workspace: workspace.clone(),
        key: f
            .status()
            .idempotency_key
            .clone()
            .unwrap_or_else(|| f.key()),
        sha256: sha256(&body),
        serializer: CURRENT_SERIALIZER,
        time: f
            .status()
            .submission_time
            .as_ref()
            .map_or(f.o.wall, |t| t.0),
        owner: f.o.settings.process.clone(),
        epoch: 1,
        retry: f.status().handled_retry.clone(),
        end: None,
    }
}

/// Unreadable answers to the POST before the Run stalls for a person: enough for a rolling upgrade of the service, few
/// enough not to hide a wrong base URL.
const VIOLATIONS: u32 = 5;

/// The answer that ended the submission: the one just received, or the one in the status, which survives a restart.
fn standing_refusal(f: &Observation<'_>) -> Option<Refusal> {
    let intent = match f.intent() {
        Known::Own(intent) => intent,
        // The intent was removed by an edit: the refusal in the status still counts.
        Known::Nothing | Known::Foreign => return f.status().refusal.clone(),
        Known::Unreadable => return None,
    };
    if f.owned_by_this_process(intent)
        && let Some(failed) = f.failures_of(Call::Create)
    {
        let refusal = judge(f, intent, failed)?;
        return Some(Refusal {
            epoch: intent.epoch,
            ..refusal
        });
    }
    let stored = f.status().refusal.clone();
    stored.filter(|refusal| refusal_is_for_this_epoch(refusal, intent))
}

/// Returns the refusal if the last answer ends the submission.
fn judge(f: &Observation<'_>, intent: &Intent, failed: &CallFailures) -> Option<Refusal> {
    let ends = match (failed.last.class, failed.last.class.refusal()) {
        (Class::Unreadable, _) => (failed.count >= VIOLATIONS).then_some(Reason::ContractViolation),
        // In doubt too, it is repeated only for a deletion or a retry.
        (_, Some(Reason::ServerError)) => Some(Reason::ServerError),
        (_, Some(reason)) => {
            // In doubt a refusal answers only its own request, and the same POST is repeated.
            let ends = f.not_created() || is_lone_conflict(f, intent, failed);
            ends.then_some(reason)
        }
        (_, None) => None,
    };
    ends.map(|reason| Refusal {
        reason,
        not_created: f.not_created(),
        epoch: 0,
    })
}

/// Whether this is a lone idempotency conflict, which is final.
///
/// It is no proof: a request that was duplicated in transit conflicts with itself. It is final all the same as the
/// first answer of all, and as the first answer to a retry of one. Any other refusal of such a retry leaves the doubt
/// as it was.
fn is_lone_conflict(f: &Observation<'_>, intent: &Intent, failed: &CallFailures) -> bool {
    let submission = &f.memory().submission;
    (submission.sole || repeats_conflict(f, intent))
        && submission.attempts == 1
        && failed.last.class == Class::Refused(Reason::IdempotencyConflict)
}

/// Whether the epoch before this one ended with an idempotency conflict, which only a lone conflict does, and this
/// epoch has no other refusal yet.
fn repeats_conflict(f: &Observation<'_>, intent: &Intent) -> bool {
    f.status().refusal.as_ref().is_some_and(|refusal| {
        let this_or_before = [refusal.epoch, refusal.epoch.saturating_add(1)];
        refusal.reason == Reason::IdempotencyConflict && this_or_before.contains(&intent.epoch)
    })
}

fn refused(f: &Observation<'_>, refusal: Refusal) -> Decision {
    let conditions = Conditions::Blocked(why_refused(f, &refusal));
    write_refusal(f, &conditions, refusal)
}

/// Ends the Run: the service refused these bytes, and they can't change. A retry would get the same answer.
fn ended_by(f: &Observation<'_>, refusal: Refusal) -> Decision {
    let conditions = Conditions::Ended {
        phase: Phase::Failed,
        why: why_refused(f, &refusal),
    };
    write_refusal(f, &conditions, refusal)
}

fn write_refusal(f: &Observation<'_>, conditions: &Conditions, refusal: Refusal) -> Decision {
    let mut status = f.status_with(conditions);
    // Its proof must outlive this process.
    status.refusal = Some(refusal);
    Decision::write(status)
}

fn why_refused(f: &Observation<'_>, refusal: &Refusal) -> Why {
    f.failures_of(Call::Create)
        .map(|t| messages::refused(f, refusal, t))
        .or_else(|| {
            messages::as_shown(f, ConditionType::Stalled, "True")
                .filter(|why| why.reason == refusal.reason)
        })
        .unwrap_or_else(|| messages::refused_before(refusal))
}
