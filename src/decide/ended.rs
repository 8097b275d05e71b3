//! A Run that has ended. Terminal is absorbing: no call ever after, also after a restart, with two
//! exceptions: the stream is read on for the last events while the finalizer is there, and a run that the
//! service denied is asked for once more when its object goes.

use crate::api::{Phase, Reason, RunStatus, intent::End};

use super::{
    Decision, Effect, Follow,
    facts::Facts,
    last_events,
    memory::after_stored,
    rules::{Rule, holds},
    situation::{Situation, Why},
    submitted, tracked,
};

pub(super) fn decide(f: &Facts<'_>) -> Decision {
    let next = next(f);
    let follow = match next.follow {
        Follow::Finish => Follow::Finish,
        Follow::Keep | Follow::Open | Follow::Close => Follow::Close,
    };
    Decision { follow, ..next }
}

fn next(f: &Facts<'_>) -> Decision {
    let phase = f.status().phase.filter(|p| p.terminal());
    let Some(phase) = phase else {
        return rebuild(f);
    };
    if f.end_reason() == Some(Reason::RunNotFound) && holds(Rule::DeniedKept) {
        return denied(f);
    }
    if f.has_finalizer()
        && let Some(until) = last_events::awaited_until(f)
    {
        return Decision {
            status: current(f, false),
            follow: Follow::Finish,
            ..Decision::quiet().at(until)
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
        ..expiry(f)
    }
}

/// A run that the service doesn't know keeps its finalizer; on deletion both cancel and GET must say so
/// again.
fn denied(f: &Facts<'_>) -> Decision {
    let Some(run_id) = f.run_id().filter(|_| f.deleting() && f.has_finalizer()) else {
        return Decision {
            status: current(f, false),
            ..expiry(f)
        };
    };
    submitted::teardown(f, run_id)
}

fn end(f: &Facts<'_>, phase: Phase) -> End {
    let reason = f.end_reason().unwrap_or(match phase {
        Phase::Succeeded => Reason::Succeeded,
        Phase::Cancelled => Reason::Cancelled,
        Phase::Failed | Phase::Pending | Phase::Active | Phase::Cancelling => Reason::Failed,
    });
    End {
        run_id: f.status().run_id.clone(),
        phase,
        reason,
    }
}

/// The status of a Run that has ended changes in three ways only: it follows the generation, it says whether
/// the TTL applies, and with `events` it shows the last events, for which no GET is waited: none can follow
/// the end.
fn current(f: &Facts<'_>, events: bool) -> Option<RunStatus> {
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
        f.memory().feed.fold_all(&mut status);
    }
    tracked::tell(f, &mut status);
    (status != *f.status()).then_some(status)
}

/// A status that was lost after the end is rebuilt from the intent, without a call, then or later: a run
/// that the service denied is asked for again, and so its end is never kept in an intent. Where one says so
/// somebody else wrote it, who may edit Runs and would have a run of their choice cancelled.
fn rebuild(f: &Facts<'_>) -> Decision {
    if f.o.vanished {
        // Nothing is left that could be written.
        return submitted::release(f, Vec::new());
    }
    let Some((intent, end)) = f.own_intent().and_then(|i| Some((i, i.end.as_ref()?))) else {
        return Decision::quiet();
    };
    let mut status = f.status().clone();
    // Written once: what is there stays.
    status.run_id = status.run_id.or_else(|| end.run_id.clone());
    if status.run_id.is_some() {
        status.workspace = status.workspace.or_else(|| Some(intent.workspace.clone()));
    }
    let message =
        "The run has ended; its status was lost and is restored from the object's intent.";
    let reason = match end.reason {
        Reason::RunNotFound if holds(Rule::EndDoubted) => Reason::Failed,
        reason => reason,
    };
    let why = Why::new(reason, message);
    Decision::tell(f.say_from(
        status,
        &Situation::Ended {
            phase: end.phase,
            why,
        },
    ))
}

/// Deletes the object when its TTL has passed, unless it would come back and run again. What takes its
/// marks off, or gives it some, is a change of the object and wakes it.
fn expiry(f: &Facts<'_>) -> Decision {
    if f.kept_by().is_some() {
        return Decision::quiet();
    }
    let ttl = f
        .spec()
        .ttl_seconds_after_finished
        .and_then(|s| u64::try_from(s).ok());
    let (Some(ttl), Some(ended)) = (ttl, &f.status().completion_time) else {
        return Decision::quiet();
    };
    let due = after_stored(ended.0, ttl);
    if f.deleting() {
        Decision::quiet()
    } else if due <= f.o.wall {
        Decision::act(Effect::Delete)
    } else {
        Decision::quiet().at(f.when(due))
    }
}
