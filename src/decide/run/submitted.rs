//! A Run whose runId is known: mirrors it, cancels it on request, records its end.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{Intent, RunStatus, time::whole_seconds};
use crate::decide::{
    conditions::Conditions,
    decision::{Decision, Effect, Follow},
    delays::{EVENT_WRITES_APART, later},
    events::EventDraft,
    facts::{Observation, pins, release},
    inputs::WorkspaceView,
    messages,
};

use super::{
    schedule::{Step, held_back, next_step},
    status::RemoteState,
    unsubmitted::{next_epoch, rebuilt_intent},
};

pub(crate) fn decide(f: &Observation<'_>, run_id: &str) -> Decision {
    if f.o.vanished {
        // Deleted without a release: its run is cancelled.
        return teardown(f, run_id);
    }
    if f.status().run_id.is_none() {
        return accept(f, run_id);
    }
    if f.orphaned() {
        return orphan(f, run_id);
    }
    if pins(f).next().is_none() {
        return nowhere(f, run_id);
    }
    if let Some(other) = conflicting_run_id(f, run_id) {
        let why = messages::run_id_conflict(f, run_id, other);
        return Decision::write(f.status_with(&Conditions::Blocked(why)));
    }
    if was_stripped(f) {
        return repair(f, run_id);
    }
    mirror(f, run_id)
}

/// Whether a replace stripped finalizer or intent from an active Run.
fn was_stripped(f: &Observation<'_>) -> bool {
    let guarded = f.has_finalizer() && f.intent_stands();
    !f.deleting() && !guarded
}

/// A different runId that the service returned for this object: the Run stalls, and neither run is cancelled.
fn conflicting_run_id<'a>(f: &Observation<'a>, run_id: &str) -> Option<&'a str> {
    let answered = f.memory().run_id.as_deref();
    answered.filter(|answered| *answered != run_id)
}

/// A runId without a record of its place: any call would be a guess.
fn nowhere(f: &Observation<'_>, run_id: &str) -> Decision {
    if f.deleting() {
        return release(f, Vec::new());
    }
    Decision::write(f.status_with(&Conditions::Blocked(messages::nowhere(run_id))))
}

fn orphan(f: &Observation<'_>, run_id: &str) -> Decision {
    // The end was seen and is not in the status yet: no run is left behind.
    if f.memory().ended {
        return release(f, Vec::new());
    }
    let key = f.status().idempotency_key.as_deref();
    let key = key.or_else(|| f.own_intent().map(|i| i.key.as_str()));
    release(f, vec![EventDraft::orphaned(key, Some(run_id))])
}

/// Writes runId and workspace to the status before any other call.
fn accept(f: &Observation<'_>, run_id: &str) -> Decision {
    let mut status = f.status().clone();
    status.run_id = Some(run_id.to_owned());
    status.workspace = status.workspace.or_else(|| pins(f).next().cloned());
    status.submission_time = status
        .submission_time
        .or_else(|| Some(whole_seconds(f.o.wall)));
    status.refusal = None;
    let remote = RemoteState::of(f, &status);
    Decision::write(synced(f, remote.status(f, status)))
}

/// Puts finalizer and intent back after a replace stripped them. The intent is written back as a takeover: another
/// process may have been the owner meanwhile, so this process's proof for its own epoch no longer counts.
fn repair(f: &Observation<'_>, run_id: &str) -> Decision {
    let Some(workspace) = pins(f).next() else {
        return nowhere(f, run_id);
    };
    let intent = match f.own_intent() {
        Some(intent) if f.intent_stands() => intent.clone(),
        Some(intent) => Intent {
            // This process is the owner: memory holds only intents of its own.
            epoch: next_epoch(f),
            ..intent.clone()
        },
        None => rebuilt_intent(f, workspace),
    };
    Decision::act(Effect::WriteIntent {
        intent: Box::new(intent),
        finalizer: true,
        clean: false,
    })
}

fn mirror(f: &Observation<'_>, run_id: &str) -> Decision {
    let mut remote = RemoteState::of(f, f.status());
    if remote.ended.is_some() {
        let full = remote.status(f, f.status().clone());
        return Decision::write(synced(f, full));
    }
    if *f.o.workspace == WorkspaceView::Unknown {
        // Nothing is known beyond the status, nor if the status is still true.
        return Decision::quiet();
    }
    let next = if remote.unusable {
        Step::Wait(remote.requeue_at(f))
    } else {
        next_step(f, &remote)
    };
    let next = held_back(f, &mut remote, next);
    let full = remote.status(f, f.status().clone());
    let (status, write_at) = coalesce(f, full);
    let mut decision = step(f, next, run_id);
    decision.requeue_at = decision.requeue_at.into_iter().chain(write_at).min();
    decision.status = status;
    if !remote.unusable {
        decision.follow = Follow::Open;
    }
    decision
}

/// Cancels the run of a deleted object, or a run that the service denied: only effects, no status.
pub(crate) fn teardown(f: &Observation<'_>, run_id: &str) -> Decision {
    if f.orphaned() {
        return orphan(f, run_id);
    }
    if pins(f).next().is_none() {
        return nowhere(f, run_id);
    }
    let remote = RemoteState::of(f, f.status());
    // Of two runIds neither is cancelled.
    if remote.ended.is_some() || conflicting_run_id(f, run_id).is_some() {
        return release(f, Vec::new());
    }
    if remote.unusable {
        // No watch event enqueues a deleted object.
        return Decision::quiet().requeue_at(later(f.o.now, f.o.settings.poll_max));
    }
    step(f, next_step(f, &remote), run_id)
}

fn step(f: &Observation<'_>, next: Step, run_id: &str) -> Decision {
    match next {
        Step::Release(events) => release(f, events),
        Step::Cancel => Decision::act(Effect::Cancel {
            run_id: run_id.to_owned(),
        }),
        Step::Refresh => Decision::act(Effect::Refresh {
            run_id: run_id.to_owned(),
        }),
        Step::Wait(at) => Decision {
            requeue_at: at,
            ..Decision::quiet()
        },
    }
}

/// The time of the last read is written along with a change; it is no change of its own.
fn synced(f: &Observation<'_>, mut full: RunStatus) -> RunStatus {
    if full != *f.status()
        && let Some(seen) = &f.memory().seen
    {
        full.last_sync_time = Some(whole_seconds(seen.wall));
    }
    full
}

/// Delays a write that carries only events, or only another attempt of a failed call, until enough time has passed.
/// Returns the status to write now and the requeue time for the rest.
fn coalesce(f: &Observation<'_>, full: RunStatus) -> (Option<RunStatus>, Option<Timestamp>) {
    let stored = f.status();
    let mut rest = RunStatus {
        events: stored.events.clone(),
        event_count: stored.event_count,
        last_event_id: stored.last_event_id.clone(),
        ..full.clone()
    };
    if full.last_error.is_some() && same_trouble(stored, &full) {
        rest.last_error.clone_from(&stored.last_error);
        rest.request_id.clone_from(&stored.request_id);
        rest.conditions.clone_from(&stored.conditions);
    }
    if rest != *stored || full == *stored {
        return (Some(synced(f, full)), None);
    }
    let due = f
        .memory()
        .written_at
        .map_or(f.o.now, |at| later(at, EVENT_WRITES_APART));
    if due <= f.o.now {
        (Some(synced(f, full)), None)
    } else {
        (None, Some(due))
    }
}

/// Whether two statuses show the same kind of failure and the same conditions.
fn same_trouble(a: &RunStatus, b: &RunStatus) -> bool {
    let error = |s: &RunStatus| {
        s.last_error
            .as_ref()
            .map(|e| (e.code.clone(), e.http_status))
    };
    let same = |(a, b): (&Condition, &Condition)| {
        (&a.type_, &a.status, &a.reason) == (&b.type_, &b.status, &b.reason)
    };
    error(a) == error(b)
        && a.conditions.len() == b.conditions.len()
        && a.conditions.iter().zip(&b.conditions).all(same)
}
