//! A Run whose runID is known: mirrors it, cancels it on request, records its end.

use jiff::Timestamp;

use crate::api::{Intent, RunStatus, conditions::whole_seconds};
use crate::decide::{
    conditions::alike,
    decision::{Decision, Effect, Follow},
    delays::{EVENT_WRITES_APART, later},
    details,
    events::EventDraft,
    facts::{Facts, pins, release},
    inputs::WorkspaceView,
    messages,
};

use super::{
    schedule::{held_back, next_effect},
    status::RemoteState,
    unsubmitted::{blocked, next_epoch, rebuilt_intent},
};

pub(crate) fn decide(facts: &Facts<'_>, run_id: &str) -> Decision {
    if facts.deleted_without_release {
        // Deleted without a release: its run is cancelled.
        return teardown(facts, run_id);
    }
    if facts.status().run_id.is_none() {
        return accept(facts, run_id);
    }
    if facts.orphaned() {
        return orphan(facts, run_id);
    }
    if pins(facts).next().is_none() {
        return place_unknown(facts, run_id);
    }
    if let Some(other) = conflicting_run_id(facts, run_id) {
        let why = messages::run_id_conflict(facts, run_id, other);
        return blocked(facts, why);
    }
    // By a replace.
    let stripped = !facts.has_finalizer() || !facts.intent_stands;
    if stripped && !facts.deleting() && facts.write_waits().is_none() {
        return repair(facts, run_id);
    }
    mirror(facts, run_id)
}

/// A different runID that the service returned for this object: the Run stalls, and neither run is cancelled.
fn conflicting_run_id<'a>(facts: &Facts<'a>, run_id: &str) -> Option<&'a str> {
    let answered = facts.memory.run_id.as_deref();
    answered.filter(|answered| *answered != run_id)
}

/// A runID without a record of its place: any call would be a guess.
fn place_unknown(facts: &Facts<'_>, run_id: &str) -> Decision {
    if facts.deleting() {
        return release(facts, Vec::new());
    }
    blocked(facts, messages::place_unknown(run_id))
}

fn orphan(facts: &Facts<'_>, run_id: &str) -> Decision {
    // The end was seen and is not in the status yet: no run is left behind.
    if facts.memory.ended {
        return release(facts, Vec::new());
    }
    let key = facts.status().idempotency_key.as_deref();
    let key = key.or_else(|| facts.own_intent().map(|i| i.key.as_str()));
    release(facts, vec![EventDraft::orphaned(key, Some(run_id))])
}

/// Writes runID and workspace to the status before any other call.
fn accept(facts: &Facts<'_>, run_id: &str) -> Decision {
    let mut status = facts.status().clone();
    status.run_id = Some(run_id.to_owned());
    status.workspace = status.workspace.or_else(|| pins(facts).next().cloned());
    let submitted = &mut status.submission_time;
    submitted.get_or_insert_with(|| whole_seconds(facts.wall));
    status.refusal = None;
    let remote = RemoteState::of(facts, &status);
    Decision::write(synced(facts, remote.status(facts, status)))
}

/// Puts finalizer and intent back: as a takeover, since another process may have been the owner meanwhile.
fn repair(facts: &Facts<'_>, run_id: &str) -> Decision {
    let Some(workspace) = pins(facts).next() else {
        return place_unknown(facts, run_id);
    };
    let intent = match facts.own_intent() {
        Some(intent) if facts.intent_stands => intent.clone(),
        Some(intent) => Intent {
            // This process is the owner: memory holds only intents of its own.
            epoch: next_epoch(facts),
            ..intent.clone()
        },
        None => rebuilt_intent(facts, workspace),
    };
    Decision::act(Effect::WriteIntent {
        intent: Box::new(intent),
        finalizer: true,
        clean: false,
    })
}

fn mirror(facts: &Facts<'_>, run_id: &str) -> Decision {
    let mut remote = RemoteState::of(facts, facts.status());
    if remote.ended.is_some() {
        let full = remote.status(facts, facts.status().clone());
        return Decision::write(synced(facts, full));
    }
    if *facts.workspace == WorkspaceView::Unknown {
        // Nothing is known beyond the status, nor if the status is still true.
        return Decision::quiet();
    }
    let usable = !remote.staleness.unusable;
    let mut decision = if usable {
        let next = next_effect(facts, &remote, run_id);
        held_back(facts, &mut remote, next)
    } else {
        Decision::quiet().requeue_at(remote.requeue_at(facts))
    };
    let full = remote.status(facts, facts.status().clone());
    let (status, write_at) = coalesce(facts, full);
    decision.requeue_at = decision.requeue_at.into_iter().chain(write_at).min();
    decision.status = status;
    if usable {
        decision.follow = if facts.memory.streamless {
            Follow::Close
        } else {
            Follow::Open
        };
    }
    decision
}

/// Cancels the run of a deleted object, or a run that the service denied: only effects, no status.
pub(crate) fn teardown(facts: &Facts<'_>, run_id: &str) -> Decision {
    if facts.orphaned() {
        return orphan(facts, run_id);
    }
    if pins(facts).next().is_none() {
        return place_unknown(facts, run_id);
    }
    let remote = RemoteState::of(facts, facts.status());
    // Of two runIDs neither is cancelled.
    if remote.ended.is_some() || conflicting_run_id(facts, run_id).is_some() {
        return release(facts, Vec::new());
    }
    if remote.staleness.unusable {
        // No watch event enqueues a deleted object.
        return Decision::quiet().requeue_at(later(facts.now, facts.settings.poll_max));
    }
    next_effect(facts, &remote, run_id)
}

/// The time of the last read is written along with a change; it is no change of its own.
fn synced(facts: &Facts<'_>, mut full: RunStatus) -> RunStatus {
    if full != *facts.status()
        && let Some(read) = &facts.memory.reading
    {
        full.last_sync_time = Some(whole_seconds(read.wall));
    }
    full
}

fn coalesce(facts: &Facts<'_>, full: RunStatus) -> (Option<RunStatus>, Option<Timestamp>) {
    let stored = facts.status();
    let mut rest = full.clone();
    details::keep(stored, &mut rest);
    let details_alone = rest == *stored;
    rest.events.clone_from(&stored.events);
    rest.event_count = stored.event_count;
    rest.last_event_id.clone_from(&stored.last_event_id);
    if full.last_error.is_some() && same_failure(stored, &full) {
        rest.last_error.clone_from(&stored.last_error);
        rest.request_id.clone_from(&stored.request_id);
        rest.conditions.clone_from(&stored.conditions);
    }
    let written = facts.memory.written_at;
    let due = if details_alone {
        details::due(facts)
    } else {
        written.map_or(facts.now, |at| later(at, EVENT_WRITES_APART))
    };
    // One that the API server refuses holds back no effect.
    let refused = facts.memory.refused_status.as_ref();
    let due = refused.map_or(due, |refused| due.max(refused.again));
    if rest != *stored || full == *stored || due <= facts.now {
        return (Some(synced(facts, full)), None);
    }
    (None, Some(due))
}

fn same_failure(a: &RunStatus, b: &RunStatus) -> bool {
    let error = |s: &RunStatus| {
        let error = s.last_error.as_ref();
        error.map(|e| (e.code.clone(), e.http_status))
    };
    error(a) == error(b) && alike(&a.conditions, &b.conditions)
}
