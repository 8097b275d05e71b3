//! A Run that has ended. Terminal is absorbing: no further call is made, also after a restart. But the stream is read
//! for the last events before the release, and a run that the service denied is asked for once more at the deletion.

use jiff::Timestamp;

use crate::api::{Reason, RunStatus, intent::End};
use crate::decide::{
    conditions::{Conditions, Why},
    decision::{Decision, Effect, Follow},
    delays::{LAST_EVENTS, later},
    facts::{Facts, moved, pins, release},
    inputs::{Stream, WorkspaceView},
    ttl,
};

use super::submitted;

pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    let mut decision = next(facts);
    if decision.follow != Follow::Finish {
        decision.follow = Follow::Close;
    }
    decision
}

fn next(facts: &Facts<'_>) -> Decision {
    let Some(phase) = facts.status().phase.filter(|p| p.terminal()) else {
        return rebuild(facts);
    };
    if facts.end_reason() == Some(Reason::RunNotFound) {
        // It keeps its finalizer: on deletion cancel and GET must both deny it again.
        return match facts.run_id() {
            Some(run_id) if facts.deleting() && facts.has_finalizer() => {
                submitted::teardown(facts, run_id)
            }
            _ => await_ttl(facts),
        };
    }
    if facts.has_finalizer()
        && let Some(until) = awaited_until(facts)
    {
        return Decision {
            status: current(facts, false),
            follow: Follow::Finish,
            ..Decision::quiet().requeue_at(until)
        };
    }
    if facts.has_finalizer() {
        let end = End {
            run_id: facts.status().run_id.clone(),
            phase,
            reason: facts.end_reason().unwrap_or(phase.reason()),
        };
        return Decision {
            status: current(facts, true),
            ..Decision::act(Effect::Release { end: Some(end) })
        };
    }
    if facts.deleting() {
        return Decision::quiet();
    }
    await_ttl(facts)
}

fn await_ttl(facts: &Facts<'_>) -> Decision {
    Decision {
        status: current(facts, false),
        ..ttl::expiry(facts)
    }
}

/// The status of a Run that has ended changes only in its generation, in whether the TTL applies, and with `events` in the
/// last events. These wait for no GET: no change can follow the end.
fn current(facts: &Facts<'_>, events: bool) -> Option<RunStatus> {
    if facts.deleting() {
        return None;
    }
    let generation = facts.generation();
    let mut status = facts.status().clone();
    status.observed_generation = Some(generation);
    for condition in &mut status.conditions {
        condition.observed_generation = Some(generation);
    }
    if events {
        facts.memory.event_buffer.fold_all(&mut status);
    }
    ttl::record_keeper(facts, &mut status);
    (status != *facts.status()).then_some(status)
}

/// Rebuilds a status that was lost after the end from the intent, without a call then or later. A denied run's end is
/// never stored in an intent: one who may edit Runs wrote it there, to have a run of their choice cancelled.
fn rebuild(facts: &Facts<'_>) -> Decision {
    if facts.deleted_without_release {
        // No object is left to write to.
        return release(facts, Vec::new());
    }
    let Some((intent, end)) = facts.own_intent().and_then(|i| Some((i, i.end.as_ref()?))) else {
        return Decision::quiet();
    };
    let mut status = facts.status().clone();
    // Immutable once written: an existing value stays.
    status.run_id = status.run_id.or_else(|| end.run_id.clone());
    if status.run_id.is_some() {
        status.workspace = status.workspace.or_else(|| Some(intent.workspace.clone()));
    }
    let message =
        "The run has ended; its status was lost and is restored from the object's intent.";
    let reason = match end.reason {
        // It would lead to a call.
        Reason::RunNotFound => Reason::Failed,
        reason => reason,
    };
    let why = Why::new(reason, message);
    let phase = end.phase;
    Decision::write(facts.with_conditions(status, &Conditions::Ended { phase, why }))
}

/// Time until which the finalizer of a Run that has ended waits for its last events, unless the object is being deleted.
fn awaited_until(facts: &Facts<'_>) -> Option<Timestamp> {
    let last = &facts.memory.last_events;
    let over = facts.deleting() || facts.run_id().is_none() || last.over();
    if over || matches!(facts.stream, Stream::Waiting { .. }) || !can_be_had(facts) {
        return None;
    }
    let until = later(last.since.unwrap_or(facts.now), LAST_EVENTS);
    (until > facts.now).then_some(until)
}

/// Whether a stream can be opened where the run lives. After a start the Workspace is not known yet.
fn can_be_had(facts: &Facts<'_>) -> bool {
    pins(facts).next().is_some()
        && match facts.workspace {
            WorkspaceView::Unknown => true,
            WorkspaceView::Ready(session) => moved(facts, session).is_none(),
            WorkspaceView::Missing | WorkspaceView::NotReady { .. } => false,
        }
}
