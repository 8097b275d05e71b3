//! What a run at the service looks like, in the light of what was asked of it.

use jiff::Timestamp;

use crate::api::{
    Phase, RunStatus,
    contract::StateClass,
    limits::{MAX_REQUEST_ID, MAX_STATE},
    status::whole_seconds,
};

use super::{
    Note, Stream, WorkspaceView,
    classify::Call,
    facts::Facts,
    memory::after_stored,
    pace::Step,
    place,
    rules::{Rule, holds},
    situation::{Mirror, Situation, Why},
    text::cut,
    wording,
};

/// 404s that must agree before a run counts as lost.
const NOT_FOUND_CONFIRMATIONS: u32 = 3;

/// What the run looks like, in the light of what was asked of it.
pub(super) struct Outlook {
    pub(super) class: Option<StateClass>,
    pub(super) wish: Option<Wish>,
    pub(super) ended: Option<(Phase, Why)>,
    stale: Option<Why>,
    /// No call can be made now.
    pub(super) unusable: bool,
    /// By the wall clock.
    deadline: Option<Timestamp>,
    /// When the mirror is stale by a trouble of the Workspace that is not said yet.
    said_at: Option<Timestamp>,
}

/// Why the run should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Deleted,
    Asked,
    Deadline,
}

impl Outlook {
    pub(super) fn of(f: &Facts<'_>, status: &RunStatus) -> Self {
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
            deadline
                .filter(|at| *at <= f.o.wall)
                .map(|_| Wish::Deadline)
        };
        let enough = if holds(Rule::NotFoundThrice) {
            NOT_FOUND_CONFIRMATIONS
        } else {
            1
        };
        let lost = f.memory().not_found.count >= enough;
        let phase = class.and_then(StateClass::terminal);
        // A deadline that was moved after its cancellation went through takes nothing back: nothing else
        // that cancels can be withdrawn.
        let accepted =
            f.memory().cancel.accepted_at.is_some() || status.cancel_accepted_time.is_some();
        let cause = wish.or_else(|| accepted.then_some(Wish::Deadline));
        let ended = match phase {
            Some(phase) => Some(wording::ended(f, phase, cause, state.unwrap_or_default())),
            None if lost && !f.deleting() => Some(wording::run_lost(f)),
            None => None,
        };
        let Staleness {
            why: why_stale,
            unusable,
            said_at,
        } = staleness(f);
        Self {
            class,
            wish,
            ended,
            stale: why_stale,
            unusable,
            deadline,
            said_at,
        }
    }

    /// A call that is due and has to wait makes the mirror stale; in a pause it is not even asked for.
    pub(super) fn held_back(&mut self, f: &Facts<'_>, next: Step) -> Step {
        if !matches!(next, Step::Cancel | Step::Refresh) {
            return next;
        }
        self.stale = self.stale.take().or_else(|| f.held_back());
        f.pause_over().map_or(next, |over| {
            Step::Wait(self.deadline_ahead(f).into_iter().chain([over]).min())
        })
    }

    /// The deadline, by process time, unless it has passed. It is seen in time also where no call can be made.
    pub(super) fn deadline_ahead(&self, f: &Facts<'_>) -> Option<Timestamp> {
        let ahead = self.deadline.filter(|at| *at > f.o.wall);
        ahead.map(|at| f.when(at))
    }

    /// When to look again where no call can be made.
    pub(super) fn look_ahead(&self, f: &Facts<'_>) -> Option<Timestamp> {
        let deadline = self.deadline_ahead(f);
        self.said_at.into_iter().chain(deadline).min()
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
            polled: polled(f),
        };
        if cancelling {
            Situation::Cancelling(mirror)
        } else {
            Situation::Active(mirror)
        }
    }

    /// The whole next status: state, events and cursor together.
    pub(super) fn status(&self, f: &Facts<'_>, mut status: RunStatus) -> RunStatus {
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
            status.start_time = Some(whole_seconds(f.o.wall));
        }
        if let Some(at) = f.memory().cancel.accepted_at {
            // The latest: one that came to nothing must not use up the time of the one that follows it.
            let latest = Some(whole_seconds(at));
            status.cancel_accepted_time = status.cancel_accepted_time.max(latest);
        }
        status.handled_retry = f.retry_annotation().or(status.handled_retry);
        f.memory().feed.fold(&mut status);
        f.say_from(status, &self.situation(f))
    }

    pub(super) fn notes(&self, f: &Facts<'_>) -> Vec<Note> {
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

/// Whether the status says that the run is polled because the places for streams are taken. Once said it
/// stays until something else is to be written while a stream is open: rotation costs no write.
fn polled(f: &Facts<'_>) -> bool {
    match f.o.stream {
        Stream::Waiting { .. } => true,
        Stream::Closed => wording::polled_as_said(f),
        Stream::Open => {
            let seen = f.memory().seen.as_ref().and_then(|s| s.state.as_deref());
            let same = seen.is_none_or(|s| f.status().state.as_deref() == Some(cut(s, MAX_STATE)));
            same && wording::polled_as_said(f)
        }
    }
}

/// The deadline counts from the submission.
fn deadline(f: &Facts<'_>, status: &RunStatus) -> Option<Timestamp> {
    let seconds = u64::try_from(f.spec().active_deadline_seconds?).ok()?;
    let submitted = status.submission_time.as_ref()?.0;
    Some(after_stored(submitted, seconds))
}

/// Why the mirror is stale.
struct Staleness {
    why: Option<Why>,
    /// No call can be made.
    unusable: bool,
    /// When the reason is said that is not said yet.
    said_at: Option<Timestamp>,
}

impl Staleness {
    fn of(why: Option<Why>, unusable: bool) -> Self {
        Self {
            why,
            unusable,
            said_at: None,
        }
    }
}

fn staleness(f: &Facts<'_>) -> Staleness {
    match f.o.workspace {
        WorkspaceView::Unknown => Staleness::of(None, true),
        WorkspaceView::Missing => Staleness::of(Some(wording::workspace_missing(f)), true),
        WorkspaceView::NotReady {
            reason,
            message,
            since,
        } => {
            let unusable = holds(Rule::VerifiedToken);
            let Some(said_at) = f.not_said_yet(*since) else {
                let why = wording::workspace_not_ready(f, *reason, message);
                return Staleness::of(Some(why), unusable);
            };
            // What the status says stands until then.
            Staleness {
                said_at: Some(said_at),
                ..Staleness::of(wording::stale_as_said(f), unusable)
            }
        }
        WorkspaceView::Ready(session) => {
            if let Some((reason, pinned)) = place::moved(f, session) {
                return Staleness::of(Some(wording::elsewhere(f, reason, pinned, session)), true);
            }
            let trouble = f.trouble(Call::Get).filter(|t| !t.passing());
            let why = match trouble {
                Some(trouble) => Some(wording::stale(trouble)),
                None => f.still_stale(),
            };
            Staleness::of(why, f.unauthorized())
        }
    }
}
