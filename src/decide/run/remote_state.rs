//! State of a run at the service, combined with the requested state.

use crate::api::{
    ConditionType, Phase, Reason, RunStatus,
    conditions::{find, whole_seconds},
    contract::StateClass,
    limits::{MAX_REQUEST_ID, MAX_STATE},
};
use crate::decide::{
    Stream,
    cancel_cause::CancelCause,
    conditions::{Conditions, Mirror, Why},
    messages,
    observation::Observation,
    time::after_stored,
    truncate::cut,
};

use super::{
    staleness::{self, Staleness, staleness},
    step::Step,
};

use jiff::Timestamp;

/// State of a run at the service, combined with the requested state.
pub(crate) struct RemoteState {
    pub(crate) class: Option<StateClass>,
    pub(crate) cancel_cause: Option<CancelCause>,
    pub(crate) ended: Option<(Phase, Why)>,
    stale: Option<Why>,
    /// No call can be made now.
    pub(crate) unusable: bool,
    /// By the wall clock.
    deadline: Option<Timestamp>,
    /// Time at which the Workspace failure that makes the mirror stale is written, if it is not in the status yet.
    shown_at: Option<Timestamp>,
}

impl RemoteState {
    pub(crate) fn of(f: &Observation<'_>, status: &RunStatus) -> Self {
        let state = f.memory().seen_state().or(status.state.as_deref());
        let class = state.map(|s| f.o.contract.state(s));
        let deadline = deadline(f, status);
        let cancel_cause = if f.deleting() {
            Some(CancelCause::Deletion)
        } else if f.spec().cancelled() {
            Some(CancelCause::Request)
        } else {
            let passed = status.deadline_exceeded_time.is_some()
                || deadline.is_some_and(|at| at <= f.o.wall);
            passed.then_some(CancelCause::Deadline)
        };
        let lost = f.memory().not_found.confirmed();
        let phase = class.and_then(StateClass::terminal);
        let ended = match phase {
            Some(phase) => Some(messages::ended(
                f,
                phase,
                cancel_cause,
                state.unwrap_or_default(),
            )),
            None if lost && !f.deleting() => Some(messages::run_lost(f)),
            None => None,
        };
        let Staleness {
            why: why_stale,
            unusable,
            shown_at,
        } = staleness(f);
        Self {
            class,
            cancel_cause,
            ended,
            stale: why_stale,
            unusable,
            deadline,
            shown_at,
        }
    }

    /// A due call that has to wait makes the mirror stale. During a pause the call is not requested.
    pub(crate) fn held_back(&mut self, f: &Observation<'_>, next: Step) -> Step {
        if !matches!(next, Step::Cancel | Step::Refresh) {
            return next;
        }
        self.stale = self.stale.take().or_else(|| staleness::held_back(f));
        f.pause_over().map_or(next, |over| {
            Step::Wait(self.deadline_ahead(f).into_iter().chain([over]).min())
        })
    }

    /// The deadline by process time, unless it has passed. It is noticed in time even if no call can be made.
    pub(crate) fn deadline_ahead(&self, f: &Observation<'_>) -> Option<Timestamp> {
        let ahead = self.deadline.filter(|at| *at > f.o.wall);
        ahead.map(|at| f.when(at))
    }

    /// Requeue time while no call can be made.
    pub(crate) fn requeue_at(&self, f: &Observation<'_>) -> Option<Timestamp> {
        let deadline = self.deadline_ahead(f);
        self.shown_at.into_iter().chain(deadline).min()
    }

    fn conditions(&self, f: &Observation<'_>) -> Conditions {
        if let Some((phase, why)) = &self.ended {
            return Conditions::Ended {
                phase: *phase,
                why: why.clone(),
            };
        }
        let cancelling = self.cancel_cause.is_some() || self.class == Some(StateClass::Cancelling);
        let why = match &self.stale {
            Some(obstacle) if self.unusable && self.cancel_cause.is_some() => {
                messages::cancellation_waits(obstacle)
            }
            _ => messages::at_the_service(f, self.cancel_cause, cancelling),
        };
        let mirror = Mirror {
            why,
            stale: self.stale.clone(),
            polled: polled(f),
        };
        if cancelling {
            Conditions::Cancelling(mirror)
        } else {
            Conditions::Active(mirror)
        }
    }

    /// The complete next status: state, events and cursor together.
    pub(crate) fn status(&self, f: &Observation<'_>, mut status: RunStatus) -> RunStatus {
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
        // Its cancellation may be sent by a process that is lost with the answer: neither a clock that is set back nor
        // another deadline may withdraw it.
        if self.cancel_cause == Some(CancelCause::Deadline) && self.ended.is_none() {
            let seen = || whole_seconds(f.o.wall);
            status.deadline_exceeded_time.get_or_insert_with(seen);
        }
        if let Some(at) = f.memory().cancel.accepted_at {
            // The latest one: an earlier cancel without effect must not use up the time of the next.
            let latest = Some(whole_seconds(at));
            status.cancel_accepted_time = status.cancel_accepted_time.max(latest);
        }
        status.handled_retry = f.retry_annotation().or(status.handled_retry);
        f.memory().event_buffer.fold(&mut status);
        f.with_conditions(status, &self.conditions(f))
    }
}

/// Whether the status shows that the run is polled because all places for streams are taken. Once shown it stays until
/// another change is written while a stream is open: waiting for a place again costs no write.
fn polled(f: &Observation<'_>) -> bool {
    let synced = find(&f.status().conditions, ConditionType::Synced);
    let shown = synced.is_some_and(|c| c.reason == Reason::Polled.as_str());
    match f.o.stream {
        Stream::Waiting { .. } => true,
        Stream::Closed => shown,
        Stream::Open => {
            let same = |state| f.status().state.as_deref() == Some(cut(state, MAX_STATE));
            shown && f.memory().seen_state().is_none_or(same)
        }
    }
}

/// The deadline counts from the submission.
fn deadline(f: &Observation<'_>, status: &RunStatus) -> Option<Timestamp> {
    let seconds = u64::try_from(f.spec().active_deadline_seconds?).ok()?;
    let submitted = status.submission_time.as_ref()?.0;
    Some(after_stored(submitted, seconds))
}
