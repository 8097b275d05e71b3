//! A Run whose runId is known: mirror it, cancel it when asked, see it end.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    Intent, Phase, RunStatus,
    contract::StateClass,
    limits::{MAX_REQUEST_ID, MAX_STATE},
    status::{ResolvedWorkspace, whole_seconds},
};

use super::{
    Decision, Effect, Follow, Note, WorkspaceView,
    body::{self, CURRENT_SERIALIZER},
    classify::Call,
    facts::Facts,
    memory::later,
    pace::{Step, next_step},
    place,
    situation::{Mirror, Situation, Why},
    text::cut,
    wording,
};

/// Writes that carry events alone are at least this far apart.
const EVENT_WRITES_APART: Duration = Duration::from_secs(10);
/// 404s that must agree before a run counts as lost.
const NOT_FOUND_CONFIRMATIONS: u32 = 3;

pub(super) fn decide(f: &Facts<'_>, run_id: &str) -> Decision {
    if f.o.vanished {
        return teardown(f, run_id);
    }
    if f.status().run_id.is_none() {
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
    if !f.deleting() && !guarded {
        return mend(f, run_id);
    }
    mirror(f, run_id)
}

/// Another runId that the service answered with for this object.
fn rival_run<'a>(f: &Facts<'a>, run_id: &str) -> Option<&'a str> {
    f.memory().run_id.as_deref().filter(|id| *id != run_id)
}

/// A runId that nothing goes with that says where it lives: any call would be a guess.
fn nowhere(f: &Facts<'_>, run_id: &str) -> Decision {
    if f.deleting() {
        return release(f, Vec::new());
    }
    Decision::tell(f.say(&Situation::Blocked(wording::nowhere(run_id))))
}

fn orphan(f: &Facts<'_>, run_id: &str) -> Decision {
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
        .or_else(|| Some(whole_seconds(f.o.now)));
    status.refusal = None;
    let outlook = Outlook::of(f, &status);
    Decision {
        notes: outlook.notes(f),
        ..Decision::tell(synced(f, outlook.status(f, status)))
    }
}

/// Puts finalizer and intent back after a replace stripped them.
fn mend(f: &Facts<'_>, run_id: &str) -> Decision {
    let Some(workspace) = place::pins(f).next() else {
        return nowhere(f, run_id);
    };
    let intent = f
        .own_intent()
        .cloned()
        .unwrap_or_else(|| rebuilt_intent(f, workspace));
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
        time: f.status().submission_time.as_ref().map_or(f.o.now, |t| t.0),
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
        Step::Wait(outlook.deadline_ahead(f))
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

/// What the run looks like, in the light of what was asked of it.
pub(super) struct Outlook {
    pub(super) class: Option<StateClass>,
    pub(super) wish: Option<Wish>,
    ended: Option<(Phase, Why)>,
    stale: Option<Why>,
    /// No call can be made now.
    unusable: bool,
    deadline: Option<Timestamp>,
}

/// Why the run should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Deleted,
    Asked,
    Deadline,
}

impl Outlook {
    fn of(f: &Facts<'_>, status: &RunStatus) -> Self {
        let state = f
            .memory()
            .seen
            .as_ref()
            .and_then(|s| s.state.as_deref())
            .or(status.state.as_deref());
        let class = state.map(|s| f.o.contract.state(s));
        let deadline = deadline(f, status);
        let wish = if f.deleting() {
            Some(Wish::Deleted)
        } else if f.spec().cancelled() {
            Some(Wish::Asked)
        } else {
            deadline.filter(|at| *at <= f.o.now).map(|_| Wish::Deadline)
        };
        let lost = f.memory().not_found.count >= NOT_FOUND_CONFIRMATIONS;
        let phase = class.and_then(StateClass::terminal);
        let ended = match phase {
            Some(phase) => Some(wording::ended(phase, wish, state.unwrap_or_default())),
            None if lost && !f.deleting() => Some(wording::run_lost()),
            None => None,
        };
        let (why_stale, unusable) = staleness(f);
        Self {
            class,
            wish,
            ended,
            stale: why_stale,
            unusable,
            deadline,
        }
    }

    /// A call that is due and has to wait makes the mirror stale; in a pause it is not even asked for.
    fn held_back(&mut self, f: &Facts<'_>, next: Step) -> Step {
        if !matches!(next, Step::Cancel | Step::Refresh) {
            return next;
        }
        self.stale = self.stale.take().or_else(|| f.held_back());
        f.pause_over().map_or(next, |over| {
            Step::Wait(self.deadline_ahead(f).into_iter().chain([over]).min())
        })
    }

    /// The deadline, unless it has passed. It is seen in time also where no call can be made.
    pub(super) fn deadline_ahead(&self, f: &Facts<'_>) -> Option<Timestamp> {
        self.deadline.filter(|at| *at > f.o.now)
    }

    fn situation(&self, f: &Facts<'_>) -> Situation {
        if let Some((phase, why)) = &self.ended {
            return Situation::Ended {
                phase: *phase,
                why: why.clone(),
            };
        }
        let cancelling = self.wish.is_some() || self.class == Some(StateClass::Cancelling);
        let why = match &self.stale {
            Some(obstacle) if self.unusable && self.wish.is_some() => {
                wording::cancellation_waits(obstacle)
            }
            _ => wording::at_the_service(f, self.wish, cancelling),
        };
        let mirror = Mirror {
            why,
            stale: self.stale.clone(),
        };
        if cancelling {
            Situation::Cancelling(mirror)
        } else {
            Situation::Active(mirror)
        }
    }

    /// The whole next status: state, events and cursor together.
    fn status(&self, f: &Facts<'_>, mut status: RunStatus) -> RunStatus {
        if let Some(seen) = &f.memory().seen {
            if let Some(state) = &seen.state {
                status.state = Some(cut(state, MAX_STATE).to_owned());
            }
            if let Some(id) = &seen.request_id
                && status.state != f.status().state
            {
                status.request_id = Some(cut(id, MAX_REQUEST_ID).to_owned());
            }
        }
        if status.start_time.is_none() && self.class == Some(StateClass::Active) {
            status.start_time = Some(whole_seconds(f.o.now));
        }
        if let Some(at) = f.memory().cancel.accepted_at {
            status.cancel_accepted_time = status.cancel_accepted_time.or(Some(whole_seconds(at)));
        }
        status.handled_retry = f.retry_annotation().or(status.handled_retry);
        f.memory().feed.fold(&mut status);
        f.say_from(status, &self.situation(f))
    }

    fn notes(&self, f: &Facts<'_>) -> Vec<Note> {
        let state = f.memory().seen.as_ref().and_then(|s| s.state.as_ref());
        match (self.class, state) {
            (Some(StateClass::Unmapped), Some(state))
                if f.status().state.as_deref() != Some(cut(state, MAX_STATE)) =>
            {
                vec![Note::UnmappedState {
                    state: cut(state, MAX_STATE).to_owned(),
                }]
            }
            _ => Vec::new(),
        }
    }
}

/// The deadline counts from the submission.
fn deadline(f: &Facts<'_>, status: &RunStatus) -> Option<Timestamp> {
    let seconds = u64::try_from(f.spec().active_deadline_seconds?).ok()?;
    let submitted = status.submission_time.as_ref()?.0;
    Some(later(submitted, Duration::from_secs(seconds)))
}

/// Why the mirror is stale, and whether that forbids every call.
fn staleness(f: &Facts<'_>) -> (Option<Why>, bool) {
    match f.o.workspace {
        WorkspaceView::Unknown => (None, true),
        WorkspaceView::Missing => (Some(wording::workspace_missing(f)), true),
        WorkspaceView::NotReady { reason, message } => (
            Some(wording::workspace_not_ready(f, *reason, message)),
            true,
        ),
        WorkspaceView::Ready(session) => {
            if let Some((reason, pinned)) = place::moved(f, session) {
                return (Some(wording::elsewhere(f, reason, pinned, session)), true);
            }
            let trouble = f.trouble(Call::Get).filter(|t| !t.passing());
            let why = match trouble {
                Some(trouble) => Some(wording::stale(trouble)),
                None => f.still_stale(),
            };
            (why, f.unauthorized())
        }
    }
}

/// When the run was last read goes along with a change, and is none by itself.
fn synced(f: &Facts<'_>, mut full: RunStatus) -> RunStatus {
    if full != *f.status()
        && let Some(seen) = &f.memory().seen
    {
        full.last_sync_time = Some(whole_seconds(seen.at));
    }
    full
}

/// Holds back a write that carries events alone until enough time has passed. Returns what to write now
/// and when to look again for the rest.
fn coalesce(f: &Facts<'_>, full: RunStatus) -> (Option<RunStatus>, Option<Timestamp>) {
    let stored = f.status();
    let without_events = RunStatus {
        events: stored.events.clone(),
        event_count: stored.event_count,
        last_event_id: stored.last_event_id.clone(),
        ..full.clone()
    };
    if without_events != *stored || full == *stored {
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
