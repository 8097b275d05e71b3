//! A Run whose runID is not known: from the first reconcile to the answer of the create.

use crate::api::{
    ConditionType, Intent, Phase, Reason, RunStatus,
    intent::IntentRecord,
    limits::MAX_OBJECT,
    status::{Refusal, ResolvedWorkspace},
    workspace::RunLimits,
};
use crate::decide::{
    choice::Choice,
    claims::{needs_workspace, refusal_is_for_this_epoch},
    conditions::{Conditions, Why},
    decision::{Decision, Effect},
    delays::later,
    events::EventDraft,
    facts::{Facts, moved, release},
    failure::{Call, CallFailures, Class},
    inputs::{Session, WorkspaceView},
    messages,
    request::{self, CURRENT_SERIALIZER},
    rules::Breach,
};
use crate::util::sha256;

use super::status::not_shown_yet;

pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    if facts.deleted_without_release {
        // No run is known, and no object is left for the intent of another POST.
        return Decision::act(Effect::Release { end: None });
    }
    if facts.deleting() {
        return deleting(facts);
    }
    if facts.spec().cancelled() && facts.not_created() {
        let message = "Cancelled before it was submitted; no run was made.";
        let why = Why::new(Reason::Cancelled, message);
        let phase = Phase::Cancelled;
        return Decision::write(facts.status_with(&Conditions::Ended { phase, why }));
    }
    // Another object's intent leads to a POST only if a person wants it, and never with its runID, which is immutable.
    let foreign_run = facts.status().run_id.is_some();
    let new_run = facts.new_retry() && !facts.spec().suspended() && !foreign_run;
    if facts.is_copy() && !new_run {
        return restored(facts);
    }
    // Ignored once there is an intent: its proof may be unknown after a restart.
    if facts.intent == IntentRecord::Absent && facts.spec().suspended() {
        return Decision::write(facts.status_with(&Conditions::Suspended));
    }
    if let Some(refusal) = standing_refusal(facts) {
        let final_answer = refusal.reason == Reason::CreateRefused && refusal.not_created;
        let why = why_refused(facts, &refusal);
        if final_answer && !facts.is_copy() {
            // These bytes can't change: a retry would get the same answer.
            let phase = Phase::Failed;
            return refused(facts, &Conditions::Ended { phase, why }, refusal);
        }
        if !facts.new_retry() {
            return refused(facts, &Conditions::Blocked(why), refusal);
        }
    }
    with_workspace(facts)
}

/// A copy of another object is not submitted. A retry annotation that was copied with it is not a new one.
fn restored(facts: &Facts<'_>) -> Decision {
    let mut status = facts.status_with(&Conditions::Blocked(messages::restored(facts)));
    if !facts.new_retry() {
        status.handled_retry = facts.retry_annotation();
    }
    Decision::write(status)
}

fn deleting(facts: &Facts<'_>) -> Decision {
    // Checked before `Orphan`: if no run was made, none is left behind. In doubt the finalizer stays.
    if facts.not_created() {
        return release(facts, Vec::new());
    }
    if facts.orphaned() {
        let key = facts.own_intent().map(|i| i.key.as_str());
        return release(facts, vec![EventDraft::orphaned(key, None)]);
    }
    with_workspace(facts)
}

fn with_workspace(facts: &Facts<'_>) -> Decision {
    // Neither followed nor replaced.
    if facts.intent == IntentRecord::Unreadable {
        return blocked(facts, messages::unreadable_intent());
    }
    let doubted = facts.own_intent().filter(|_| !facts.not_created());
    if let Some(intent) = doubted.filter(|i| facts.key_may_be_forgotten(i)) {
        return blocked(facts, messages::outcome_unknown(facts, intent));
    }
    let forgotten = doubted.map(|i| facts.when(facts.key_forgotten_at(i)));
    if let Choice::Several(names) = facts.choice {
        return blocked(facts, messages::workspace_ambiguous(facts, names));
    }
    let session = match facts.workspace {
        WorkspaceView::Unknown => return Decision::quiet().wants_slot(begins(facts)),
        WorkspaceView::Missing if facts.deleting() => {
            return blocked(facts, messages::workspace_deleted(facts));
        }
        WorkspaceView::Missing => return pending(facts, messages::workspace_missing(facts)),
        _ if facts.namespace_allowed.is_some() && !namespace_may_post(facts) => {
            let why = messages::namespace_not_allowed(facts);
            return blocked(facts, why).requeue_at(forgotten);
        }
        // A namespace sees nothing of a Workspace before it is known to be allowed, unless the Workspace can't be read.
        view if facts.namespace_allowed.is_none() && !invalid(view) => {
            return Decision::quiet().wants_slot(begins(facts));
        }
        WorkspaceView::NotReady {
            reason,
            message,
            since,
        } => {
            // The first status costs no additional write.
            let shown_at = not_shown_yet(facts, *since).filter(|_| facts.status().is_observed());
            let decision = if shown_at.is_some() {
                Decision::quiet()
            } else {
                let why = messages::workspace_not_ready(facts, *reason, message);
                pending(facts, why)
            };
            let again = forgotten.into_iter().chain(shown_at).min();
            return decision.requeue_at(again).wants_slot(begins(facts));
        }
        WorkspaceView::Ready(session) => session,
    };
    if let Some(why) = held_back(facts, session) {
        return pending(facts, why).wants_slot(begins(facts));
    }
    match facts.own_intent() {
        Some(intent) if !begins(facts) => submit(facts, intent, session),
        _ => submit_new(facts, session),
    }
}

/// Whether the next POST is under a new intent: nothing was sent, or it is proved that no run was made.
fn begins(facts: &Facts<'_>) -> bool {
    facts.own_intent().is_none_or(|intent| {
        facts.not_created() && (facts.new_retry() || facts.key_may_be_forgotten(intent))
    })
}

fn invalid(view: &WorkspaceView) -> bool {
    matches!(view, WorkspaceView::NotReady { reason, .. } if *reason == Reason::WorkspaceInvalid)
}

/// Whether a POST may be made from the object's namespace. An intent grants nothing: anyone who may edit the object can
/// write one. Only a deletion asks once more for the outcome of a POST, under an intent of this process.
fn namespace_may_post(facts: &Facts<'_>) -> bool {
    let own = facts.own_intent().filter(|_| facts.deleting());
    let asks_once_more = own.is_some_and(|i| facts.owned_by_this_process(i));
    facts.namespace_allowed == Some(true) || asks_once_more
}

fn pending(facts: &Facts<'_>, why: Why) -> Decision {
    Decision::write(facts.status_with(&Conditions::Pending(why)))
}

/// Blocks until a person acts. A retry stays unhandled: else it would be lost once the obstacle is removed.
pub(super) fn blocked(facts: &Facts<'_>, why: Why) -> Decision {
    Decision::write(facts.status_with(&Conditions::Blocked(why)))
}

/// Reason why a first submission waits. It blocks nothing else.
fn held_back(facts: &Facts<'_>, session: &Session) -> Option<Why> {
    let (reason, message) = session.submissions_blocked.as_ref()?;
    let blocks = facts.not_created() && !is_awaited(facts, session, *reason);
    blocks.then(|| Why::new(*reason, message.clone()))
}

/// Whether a Workspace that is being deleted waits for this Run: the two would wait for each other.
fn is_awaited(facts: &Facts<'_>, session: &Session, reason: Reason) -> bool {
    reason == Reason::WorkspaceDeleting
        && needs_workspace(facts.run, Some(&session.resolved.base_url))
}

fn paused(facts: &Facts<'_>) -> Option<Decision> {
    let over = facts.pause_over()?;
    Some(Decision {
        status: waiting(facts),
        ..Decision::quiet().requeue_at(over)
    })
}

fn waiting(facts: &Facts<'_>) -> Option<RunStatus> {
    let why = messages::held_back(facts, facts.call_delay?);
    Some(facts.status_with(&Conditions::Pending(why)))
}

fn retrying(facts: &Facts<'_>, failed: &CallFailures) -> Decision {
    if failed.repeats_at_once() {
        // The Workspace's own status is about to show the error of the token.
        return Decision::quiet();
    }
    let next = Some(facts.next_attempt(failed)).filter(|at| *at > facts.now);
    pending(facts, messages::retrying(facts, failed)).requeue_at(next)
}

/// Writes a new intent, pinned to the present session. Called only if no earlier POST can have made a run.
fn submit_new(facts: &Facts<'_>, session: &Session) -> Decision {
    if facts.spec().object_bytes > MAX_OBJECT {
        return too_large(facts);
    }
    // Without it, the Workspace was just deleted.
    if facts.rules.is_none() {
        return Decision::quiet();
    }
    if let Some(breach) = breach(facts) {
        return blocked(facts, messages::not_allowed(facts, &breach));
    }
    if let Some(holder) = facts.key_holder {
        return blocked(facts, messages::key_in_use(facts, holder))
            .requeue_at(later(facts.now, facts.settings.poll_max));
    }
    // One whose intent is refused now is held outside of the queue.
    let queues = facts.write_waits().is_none();
    if let Some(limits) = facts.needs_slot.filter(|_| queues) {
        // Without a limit it gets its slot at once.
        let limited = limits != RunLimits::default();
        let waits = limited.then(|| pending(facts, messages::queued(facts, limits)));
        return waits.unwrap_or_default().wants_slot(true);
    }
    // As long as there is no intent, the Run can still be suspended.
    let next = paused(facts);
    next.unwrap_or_else(|| write_intent(facts, new_intent(facts, &session.resolved), true))
        .wants_slot(true)
}

fn breach<'a>(facts: &Facts<'a>) -> Option<Breach<'a>> {
    Breach::of(facts.spec(), facts.rules?)
}

fn new_intent(facts: &Facts<'_>, workspace: &ResolvedWorkspace) -> Intent {
    let body = request::body(facts.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    Intent {
        uid: facts.uid.to_owned(),
        workspace: workspace.clone(),
        run_defaults: facts.rules.and_then(|rules| rules.run_defaults),
        key: facts.key(),
        sha256: sha256(&body),
        serializer: CURRENT_SERIALIZER,
        time: facts.wall,
        owner: facts.settings.process.clone(),
        epoch: next_epoch(facts),
        retry: facts.retry_annotation(),
        end: None,
    }
}

/// A submission must be recorded: a run whose id no object can hold would be left behind.
fn too_large(facts: &Facts<'_>) -> Decision {
    let why = messages::run_too_large(facts);
    if facts.intent != IntentRecord::Absent {
        return blocked(facts, why);
    }
    let phase = Phase::Failed;
    Decision::write(facts.status_with(&Conditions::Ended { phase, why }))
}

fn write_intent(facts: &Facts<'_>, intent: Intent, clean: bool) -> Decision {
    Decision::act(Effect::WriteIntent {
        intent: Box::new(intent),
        finalizer: finalizer_required(facts),
        clean,
    })
}

/// Whether the intent is written together with its finalizer, so that no object is deleted while a POST for it may be
/// sent. An object that is being deleted accepts no new finalizer.
fn finalizer_required(facts: &Facts<'_>) -> bool {
    !facts.deleting()
}

fn submit(facts: &Facts<'_>, intent: &Intent, session: &Session) -> Decision {
    if let Some((reason, pinned)) = moved(facts, session) {
        let why = messages::elsewhere(facts, reason, pinned, session);
        let forgotten = (!facts.not_created()).then(|| facts.when(facts.key_forgotten_at(intent)));
        return blocked(facts, why).requeue_at(forgotten);
    }
    let body = request::body(facts.spec(), intent.serializer)
        .filter(|body| sha256(body) == intent.sha256 && facts.key() == intent.key);
    let Some(body) = body else {
        return blocked(facts, messages::body_changed(facts));
    };
    if let Some(breach) = breach(facts).filter(|_| !facts.owned_by_this_process(intent)) {
        return blocked(facts, messages::not_allowed(facts, &breach));
    }
    let unheld = finalizer_required(facts) && !facts.has_finalizer();
    if facts.new_retry() || unheld || !facts.owned_by_this_process(intent) {
        return take_over(facts, intent);
    }
    match waits_for_retry(facts) {
        Some(failed) => retrying(facts, failed),
        None => paused(facts).unwrap_or_else(|| Decision {
            status: waiting(facts),
            ..Decision::act(Effect::Submit {
                key: intent.key.clone(),
                body,
            })
        }),
    }
}

/// Writes the same submission under a new epoch, which withdraws the proof of an earlier one, also if an edit removed the
/// intent; or the same intent once more if only the finalizer is missing.
fn take_over(facts: &Facts<'_>, intent: &Intent) -> Decision {
    let kept = facts.owned_by_this_process(intent) && !facts.new_retry();
    let next = Intent {
        owner: facts.settings.process.clone(),
        epoch: if kept {
            intent.epoch
        } else {
            next_epoch(facts)
        },
        retry: facts.retry_annotation(),
        ..intent.clone()
    };
    write_intent(facts, next, kept && facts.not_created())
}

fn waits_for_retry<'a>(facts: &Facts<'a>) -> Option<&'a CallFailures> {
    let failed = facts.failures_of(Call::Create)?;
    let due = facts.next_attempt(failed) <= facts.now && !facts.awaits_another_session();
    (!due).then_some(failed)
}

/// Epoch of the intent that is written now. A refusal may outlive its intent, so its epoch counts too.
pub(crate) fn next_epoch(facts: &Facts<'_>) -> i64 {
    let refused = facts.status().refusal.as_ref().map_or(0, |r| r.epoch);
    let latest = facts.own_intent().map_or(refused, |i| i.epoch.max(refused));
    latest.saturating_add(1)
}

/// Intent for a Run at the service whose own intent was lost.
pub(crate) fn rebuilt_intent(facts: &Facts<'_>, workspace: &ResolvedWorkspace) -> Intent {
    let status = facts.status();
    let key = status.idempotency_key.clone();
    let submitted = status.submission_time.as_ref();
    Intent {
        key: key.unwrap_or_else(|| facts.key()),
        time: submitted.map_or(facts.wall, |t| t.0),
        epoch: 1,
        retry: status.handled_retry.clone(),
        run_defaults: status.run_defaults,
        ..new_intent(facts, workspace)
    }
}

/// Unreadable answers to the POST before the Run stalls for a person: enough for a rolling upgrade of the service, few
/// enough not to hide a wrong base URL.
const VIOLATIONS: u32 = 5;

/// The answer that ended the submission: the one just received, or the one in the status, which survives a restart.
fn standing_refusal(facts: &Facts<'_>) -> Option<Refusal> {
    let intent = match &facts.intent {
        IntentRecord::Own(intent) => intent,
        // The intent was removed by an edit: the refusal in the status still counts.
        IntentRecord::Absent | IntentRecord::Foreign => return facts.status().refusal.clone(),
        IntentRecord::Unreadable => return None,
    };
    if facts.owned_by_this_process(intent)
        && let Some(failed) = facts.failures_of(Call::Create)
    {
        return judge(facts, intent, failed);
    }
    let stored = facts.status().refusal.clone();
    stored.filter(|refusal| refusal_is_for_this_epoch(refusal, intent))
}

fn judge(facts: &Facts<'_>, intent: &Intent, failed: &CallFailures) -> Option<Refusal> {
    let (class, not_created) = (failed.last.class, facts.not_created());
    let violates = class == Class::Unreadable && failed.count >= VIOLATIONS;
    let reason = match class.refusal() {
        None if violates => Reason::ContractViolation,
        // In doubt too, it is repeated only for a deletion or a retry.
        Some(Reason::ServerError) => Reason::ServerError,
        // In doubt a refusal answers only its own request, and the same POST is repeated.
        Some(reason) if not_created || is_lone_conflict(facts, intent, failed) => reason,
        _ => return None,
    };
    Some(Refusal {
        reason,
        not_created,
        epoch: intent.epoch,
    })
}

/// Whether this is a lone idempotency conflict: the first answer of all, or the first to a retry of one. It is final, but
/// no proof: a request that was duplicated in transit conflicts with itself.
fn is_lone_conflict(facts: &Facts<'_>, intent: &Intent, failed: &CallFailures) -> bool {
    let submission = &facts.memory.submission;
    (submission.sole || repeats_conflict(facts, intent))
        && submission.attempts == 1
        && failed.last.class == Class::Refused(Reason::IdempotencyConflict)
}

/// Whether the epoch before this one ended with an idempotency conflict, which only a lone conflict does, and this
/// epoch has no other refusal yet.
fn repeats_conflict(facts: &Facts<'_>, intent: &Intent) -> bool {
    facts.status().refusal.as_ref().is_some_and(|refusal| {
        let this_or_before = [refusal.epoch, refusal.epoch.saturating_add(1)];
        refusal.reason == Reason::IdempotencyConflict && this_or_before.contains(&intent.epoch)
    })
}

fn refused(facts: &Facts<'_>, conditions: &Conditions, refusal: Refusal) -> Decision {
    let mut status = facts.status_with(conditions);
    // Its proof must outlive this process.
    status.refusal = Some(refusal);
    Decision::write(status)
}

fn why_refused(facts: &Facts<'_>, refusal: &Refusal) -> Why {
    if let Some(failed) = facts.failures_of(Call::Create) {
        return messages::refused(facts, refusal, failed);
    }
    let shown = messages::as_shown(facts, ConditionType::Stalled, "True");
    let shown = shown.filter(|why| why.reason == refusal.reason);
    shown.unwrap_or_else(|| messages::refused_before(refusal))
}
