//! A Run whose runId is known: mirror it, cancel it when asked, see it end.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{
    Intent, RunStatus,
    status::{ResolvedWorkspace, whole_seconds},
};

use super::{
    Decision, Effect, Follow, Note, WorkspaceView,
    body::{self, CURRENT_SERIALIZER},
    facts::Facts,
    memory::later,
    outlook::Outlook,
    pace::{Step, next_step},
    place,
    rules::{Rule, holds},
    situation::Situation,
    unsubmitted::next_epoch,
    wording,
};

/// Writes that carry events alone, or another try of what failed before, are at least this far apart.
const EVENT_WRITES_APART: Duration = Duration::from_secs(10);

pub(super) fn decide(f: &Facts<'_>, run_id: &str) -> Decision {
    if f.o.vanished && !holds(Rule::VanishedCancelled) {
        return release(f, Vec::new());
    }
    if f.o.vanished {
        return teardown(f, run_id);
    }
    if f.status().run_id.is_none() && holds(Rule::RunIdAtOnce) {
        return accept(f, run_id);
    }
    if f.orphaned() {
        return orphan(f, run_id);
    }
    if place::pins(f).next().is_none() {
        return nowhere(f, run_id);
    }
    if let Some(other) = rival_run(f, run_id) {
        let why = wording::run_id_conflict(f, run_id, other);
        return Decision::tell(f.say(&Situation::Blocked(why)));
    }
    let guarded = f.has_finalizer() && f.intent_stands();
    if !f.deleting() && !guarded && holds(Rule::Mended) {
        return mend(f, run_id);
    }
    mirror(f, run_id)
}

/// Another runId that the service answered with for this object.
fn rival_run<'a>(f: &Facts<'a>, run_id: &str) -> Option<&'a str> {
    let answered = f.memory().run_id.as_deref();
    answered.filter(|id| *id != run_id && holds(Rule::RunIdConflict))
}

/// A runId that nothing goes with that says where it lives: any call would be a guess.
fn nowhere(f: &Facts<'_>, run_id: &str) -> Decision {
    if f.deleting() {
        return release(f, Vec::new());
    }
    Decision::tell(f.say(&Situation::Blocked(wording::nowhere(run_id))))
}

fn orphan(f: &Facts<'_>, run_id: &str) -> Decision {
    // Seen, and not yet in the status: nothing goes on.
    if f.memory().ended {
        return release(f, Vec::new());
    }
    let key = f.status().idempotency_key.clone();
    let note = Note::Orphaned {
        key: key.or_else(|| f.own_intent().map(|i| i.key.clone())),
        run_id: Some(run_id.to_owned()),
    };
    release(f, vec![note])
}

/// runId and workspace go to the status at once, before any other call.
fn accept(f: &Facts<'_>, run_id: &str) -> Decision {
    let mut status = f.status().clone();
    status.run_id = Some(run_id.to_owned());
    status.workspace = status.workspace.or_else(|| place::pins(f).next().cloned());
    status.submission_time = status
        .submission_time
        .or_else(|| Some(whole_seconds(f.o.wall)));
    status.refusal = None;
    let outlook = Outlook::of(f, &status);
    Decision {
        notes: outlook.notes(f),
        ..Decision::tell(synced(f, outlook.status(f, status)))
    }
}

/// Puts finalizer and intent back after a replace stripped them. The intent goes back as a takeover: while it
/// was gone, or before, another process may have had its turn, and what this one knew of its own epoch proves
/// nothing any more.
fn mend(f: &Facts<'_>, run_id: &str) -> Decision {
    let Some(workspace) = place::pins(f).next() else {
        return nowhere(f, run_id);
    };
    let intent = match f.own_intent() {
        Some(intent) if f.intent_stands() => intent.clone(),
        Some(intent) => Intent {
            // Its owner is this process: it remembers its own alone.
            epoch: next_epoch(f),
            ..intent.clone()
        },
        None => rebuilt_intent(f, workspace),
    };
    Decision::act(Effect::WriteIntent {
        intent,
        finalizer: true,
        clean: false,
    })
}

fn rebuilt_intent(f: &Facts<'_>, workspace: &ResolvedWorkspace) -> Intent {
    let body = body::body(f.spec(), CURRENT_SERIALIZER).unwrap_or_default();
    Intent {
        uid: f.uid.to_owned(),
        workspace: workspace.clone(),
        key: f
            .status()
            .idempotency_key
            .clone()
            .unwrap_or_else(|| f.key()),
        sha256: body::sha256(&body),
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

fn mirror(f: &Facts<'_>, run_id: &str) -> Decision {
    let mut outlook = Outlook::of(f, f.status());
    if outlook.ended.is_some() {
        let full = outlook.status(f, f.status().clone());
        return Decision {
            notes: outlook.notes(f),
            ..Decision::tell(synced(f, full))
        };
    }
    if *f.o.workspace == WorkspaceView::Unknown {
        // Nothing is known that the status doesn't say, nor whether it is still true.
        return Decision::quiet();
    }
    let next = if outlook.unusable {
        Step::Wait(outlook.look_ahead(f))
    } else {
        next_step(f, &outlook)
    };
    let next = outlook.held_back(f, next);
    let full = outlook.status(f, f.status().clone());
    let (status, write_at) = coalesce(f, full);
    let mut decision = step(f, next, run_id);
    decision.notes.extend(outlook.notes(f));
    decision.again = decision.again.into_iter().chain(write_at).min();
    decision.status = status;
    if !outlook.unusable {
        decision.follow = Follow::Open;
    }
    decision
}

/// Cancels what is known of an object that is gone, or of a run that the service denied: effects only,
/// no status.
pub(super) fn teardown(f: &Facts<'_>, run_id: &str) -> Decision {
    if f.orphaned() {
        return orphan(f, run_id);
    }
    if place::pins(f).next().is_none() {
        return nowhere(f, run_id);
    }
    let outlook = Outlook::of(f, f.status());
    // Of two runIds none is cancelled.
    if outlook.ended.is_some() || rival_run(f, run_id).is_some() {
        return release(f, Vec::new());
    }
    if outlook.unusable {
        // No watch wakes an object that is gone.
        return Decision::quiet().at(later(f.o.now, f.o.settings.poll_max));
    }
    step(f, next_step(f, &outlook), run_id)
}

fn step(f: &Facts<'_>, next: Step, run_id: &str) -> Decision {
    match next {
        Step::Release(notes) => release(f, notes),
        Step::Cancel => Decision::act(Effect::Cancel {
            run_id: run_id.to_owned(),
        }),
        Step::Refresh => Decision::act(Effect::Refresh {
            run_id: run_id.to_owned(),
        }),
        Step::Wait(at) => Decision {
            again: at,
            ..Decision::quiet()
        },
    }
}

/// Lets the object go, with what is to be said of it; nothing where it was let go already.
pub(super) fn release(f: &Facts<'_>, notes: Vec<Note>) -> Decision {
    if !f.has_finalizer() && !f.o.vanished {
        return Decision::quiet();
    }
    Decision {
        notes,
        ..Decision::act(Effect::Release { end: None })
    }
}

/// When the run was last read goes along with a change, and is none by itself.
fn synced(f: &Facts<'_>, mut full: RunStatus) -> RunStatus {
    if full != *f.status()
        && let Some(seen) = &f.memory().seen
    {
        full.last_sync_time = Some(whole_seconds(seen.wall));
    }
    full
}

/// Holds back a write that carries nothing but events, or another try of a call that failed before, until enough time
/// has passed. Returns what to write now and when to look again for the rest.
fn coalesce(f: &Facts<'_>, full: RunStatus) -> (Option<RunStatus>, Option<Timestamp>) {
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

/// Whether two statuses tell of the same sort of failure, and draw the same from it.
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
