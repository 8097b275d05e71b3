//! A Run that has ended. Terminal is absorbing: no further call is made, also after a restart. There are two
//! exceptions: the stream is read for the last events while the finalizer is there, and a run that the service denied
//! is asked for once more when its object is deleted.

use jiff::Timestamp;

use crate::api::{Phase, Reason, RunStatus, intent::End};
use crate::decide::{
    conditions::{Conditions, Why},
    decision::{Decision, Effect, Follow},
    delays::{LAST_EVENTS, later},
    facts::{Observation, moved, pins, release},
    inputs::{Stream, WorkspaceView},
    ttl,
};

use super::submitted;

pub(crate) fn decide(f: &Observation<'_>) -> Decision {
    let next = next(f);
    let follow = match next.follow {
        Follow::Finish => Follow::Finish,
        Follow::Keep | Follow::Open | Follow::Close => Follow::Close,
    };
    Decision { follow, ..next }
}

fn next(f: &Observation<'_>) -> Decision {
    let phase = f.status().phase.filter(|p| p.terminal());
    let Some(phase) = phase else {
        return rebuild(f);
    };
    if f.end_reason() == Some(Reason::RunNotFound) {
        return denied(f);
    }
    if f.has_finalizer()
        && let Some(until) = awaited_until(f)
    {
        return Decision {
            status: current(f, false),
            follow: Follow::Finish,
            ..Decision::quiet().requeue_at(until)
        };
    }
    if f.has_finalizer() {
        return Decision {
            status: current(f, true),
            ..Decision::act(Effect::Release {
                end: Some(end(f, phase)),
            })
        };
    }
    if f.deleting() {
        return Decision::quiet();
    }
    Decision {
        status: current(f, false),
        ..ttl::expiry(f)
    }
}

/// A run that the service denied keeps its finalizer. On deletion cancel and GET must both deny it again.
fn denied(f: &Observation<'_>) -> Decision {
    let Some(run_id) = f.run_id().filter(|_| f.deleting() && f.has_finalizer()) else {
        return Decision {
            status: current(f, false),
            ..ttl::expiry(f)
        };
    };
    submitted::teardown(f, run_id)
}

fn end(f: &Observation<'_>, phase: Phase) -> End {
    let reason = f.end_reason().unwrap_or(phase.reason());
    End {
        run_id: f.status().run_id.clone(),
        phase,
        reason,
    }
}

/// The status of a Run that has ended changes in three ways only: it follows the generation, it shows if the TTL
/// applies, and with `events` it shows the last events. These wait for no GET: no change can follow the end.
fn current(f: &Observation<'_>, events: bool) -> Option<RunStatus> {
    if f.deleting() {
        return None;
    }
    let generation = f.generation();
    let mut status = f.status().clone();
    status.observed_generation = Some(generation);
    for condition in &mut status.conditions {
        condition.observed_generation = Some(generation);
    }
    if events {
        f.memory().event_buffer.fold_all(&mut status);
    }
    ttl::record_keeper(f, &mut status);
    (status != *f.status()).then_some(status)
}

/// Rebuilds a status that was lost after the end from the intent, without a call then or later. A run that the service
/// denied is asked for again, so that end is never stored in an intent. If an intent holds it, someone with permission
/// to edit Runs wrote it, to have a run of their choice cancelled.
fn rebuild(f: &Observation<'_>) -> Decision {
    if f.o.vanished {
        // No object is left to write to.
        return release(f, Vec::new());
    }
    let Some((intent, end)) = f.own_intent().and_then(|i| Some((i, i.end.as_ref()?))) else {
        return Decision::quiet();
    };
    let mut status = f.status().clone();
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
    Decision::write(f.with_conditions(
        status,
        &Conditions::Ended {
            phase: end.phase,
            why,
        },
    ))
}

/// Time until which the finalizer of a Run that has ended waits for its last events; `None` if it doesn't wait. An
/// object that is being deleted doesn't wait: its status is no longer read.
pub(crate) fn awaited_until(f: &Observation<'_>) -> Option<Timestamp> {
    let last = &f.memory().last_events;
    let over = f.deleting() || f.run_id().is_none() || last.over();
    if over || matches!(f.o.stream, Stream::Waiting { .. }) || !can_be_had(f) {
        return None;
    }
    let until = later(last.since().unwrap_or(f.o.now), LAST_EVENTS);
    (until > f.o.now).then_some(until)
}

/// Whether a stream can be opened where the run lives. After a start the Workspace is not known yet.
fn can_be_had(f: &Observation<'_>) -> bool {
    let known = pins(f).next().is_some();
    known
        && match f.o.workspace {
            WorkspaceView::Unknown => true,
            WorkspaceView::Ready(session) => moved(f, session).is_none(),
            WorkspaceView::Missing | WorkspaceView::NotReady { .. } => false,
        }
}
