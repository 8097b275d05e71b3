//! A Run whose runId is not known: from the first reconcile to the answer of the create.

use crate::api::{Phase, Reason};
use crate::decide::{
    Decision, Effect, EventDraft, WorkspaceView,
    conditions::{Conditions, Why},
    messages,
    observation::{Known, Observation},
};

use super::{
    refusal::{ended_by, refused, standing_refusal},
    staleness::not_shown_yet,
    step::release,
    submit::{submit, submit_new},
    waiting::{blocked, held_back, pending},
};

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
