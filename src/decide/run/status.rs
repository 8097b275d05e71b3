//! The status that a decision writes, and a run at the service: the mirrored state, the requested one, staleness.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{
    ConditionType, Phase, Reason, RunDefaults, RunStatus,
    conditions::{find, whole_seconds},
    contract::StateClass,
    limits::{MAX_REQUEST_ID, MAX_STATE},
    status::LastError,
};
use crate::decide::{
    choice::Choice,
    claims::refusal_is_for_this_epoch,
    conditions::{Conditions, Mirror, Why, apply},
    delays::{self, after_stored, later},
    details,
    facts::{Facts, moved},
    failure::{Call, CallFailures, Class},
    inputs::{Stream, WorkspaceView},
    messages::{self, CancelCause},
    truncate::cut,
    ttl,
};

impl<'a> Facts<'a> {
    pub(crate) fn status_with(&self, conditions: &Conditions) -> RunStatus {
        self.with_conditions(self.status().clone(), conditions)
    }

    pub(crate) fn with_conditions(
        &self,
        mut status: RunStatus,
        conditions: &Conditions,
    ) -> RunStatus {
        let spec = self.spec();
        status.provider = Some(spec.provider().to_owned());
        status.region = Some(spec.region().to_owned());
        let intent = self.own_intent();
        status.idempotency_key = Some(intent.map_or_else(|| self.key(), |i| i.key.clone()));
        // At the service there is nothing left to retry, and the annotation counts as handled.
        let retry = intent.and_then(|i| i.retry.as_ref());
        if let Some(retry) = retry.filter(|_| status.run_id.is_none()) {
            status.handled_retry = Some(retry.clone());
        }
        status.refusal = status
            .refusal
            .filter(|r| intent.is_none_or(|i| refusal_is_for_this_epoch(r, i)));
        status.last_error = self.last_error();
        let failed = self.worst();
        if let Some(id) = failed.and_then(|t| t.last.failure.request_id.as_ref()) {
            status.request_id = Some(cut(id, MAX_REQUEST_ID).to_owned());
        }
        let ends = matches!(conditions, Conditions::Ended { .. });
        if ends || status.run_id.is_some() {
            let defaults = self.run_defaults();
            status.run_defaults = Some(defaults).filter(|d| *d != RunDefaults::default());
        }
        if ends {
            let completed = &mut status.completion_time;
            completed.get_or_insert_with(|| whole_seconds(self.wall));
        }
        let queued = matches!(conditions, Conditions::Pending(why) if why.reason == Reason::Queued);
        status.queued_for = match self.choice {
            Choice::One(workspace) if queued => Some(workspace.clone()),
            _ => None,
        };
        let (ready_when, generation) = (spec.ready_when(), self.generation());
        apply(&mut status, conditions, ready_when, generation, self.wall);
        ttl::record_keeper(self, &mut status);
        status
    }

    fn worst(&self) -> Option<&'a CallFailures> {
        let failures = self.memory.failures.iter();
        failures.filter(|t| !t.passing()).max_by_key(|t| t.at)
    }

    fn last_error(&self) -> Option<LastError> {
        // Memory is empty after a restart: the error in the status stays until a call succeeds.
        let Some(failed) = self.worst() else {
            let keeps = self.memory.reading.is_none() && self.memory.run_id.is_none();
            return self.status().last_error.clone().filter(|_| keeps);
        };
        let retries = failed.last.is_repeated() && failed.last.class != Class::Unauthorized;
        // By the wall clock as it was at the failure, so that it is the same in each reconcile.
        let wait = self.next_attempt(failed).duration_since(failed.at);
        let next = later(failed.wall, Duration::try_from(wait).unwrap_or_default());
        Some(LastError {
            next_attempt_time: retries.then(|| whole_seconds(next)),
            ..failed.last.last_error(failed.count, failed.wall)
        })
    }
}

pub(crate) struct RemoteState {
    pub(crate) class: Option<StateClass>,
    /// The run's state, if the contract file doesn't map it.
    unmapped: Option<String>,
    pub(crate) cancel_cause: Option<CancelCause>,
    pub(crate) ended: Option<(Phase, Why)>,
    pub(super) staleness: Staleness,
    /// By the wall clock.
    deadline: Option<Timestamp>,
}

impl RemoteState {
    pub(crate) fn of(facts: &Facts<'_>, status: &RunStatus) -> Self {
        let state = facts.memory.state_read().or(status.state.as_deref());
        let class = state.map(|s| facts.contract.state(s));
        let deadline = deadline(facts, status);
        let cancel_cause = if facts.deleting() {
            Some(CancelCause::Deletion)
        } else if facts.spec().cancelled() {
            Some(CancelCause::Request)
        } else {
            let passed = status.deadline_exceeded_time.is_some()
                || deadline.is_some_and(|at| at <= facts.wall);
            passed.then_some(CancelCause::Deadline)
        };
        let lost = facts.memory.not_found.confirmed();
        let state = state.unwrap_or_default();
        let ended = match class.and_then(StateClass::terminal) {
            Some(phase) => Some(messages::ended(facts, phase, cancel_cause, state)),
            None => (lost && !facts.deleting()).then(|| messages::run_lost(facts)),
        };
        let unmapped = class == Some(StateClass::Unmapped);
        Self {
            class,
            unmapped: unmapped.then(|| state.to_owned()),
            cancel_cause,
            ended,
            staleness: staleness(facts),
            deadline,
        }
    }

    /// The deadline by process time, unless it has passed. It is noticed in time even if no call can be made.
    pub(crate) fn deadline_ahead(&self, facts: &Facts<'_>) -> Option<Timestamp> {
        let ahead = self.deadline.filter(|at| *at > facts.wall);
        ahead.map(|at| facts.when(at))
    }

    pub(crate) fn requeue_at(&self, facts: &Facts<'_>) -> Option<Timestamp> {
        let deadline = self.deadline_ahead(facts);
        self.staleness.shown_at.into_iter().chain(deadline).min()
    }

    fn conditions(&self, facts: &Facts<'_>) -> Conditions {
        if let Some((phase, why)) = self.ended.clone() {
            return Conditions::Ended { phase, why };
        }
        let cancelling = self.cancel_cause.is_some() || self.class == Some(StateClass::Cancelling);
        let why = match &self.staleness.why {
            Some(obstacle) if self.staleness.unusable && self.cancel_cause.is_some() => {
                messages::cancellation_waits(obstacle)
            }
            _ => self.why(facts, cancelling),
        };
        let mirror = Mirror {
            why,
            stale: self.staleness.why.clone(),
            polled: polled(facts),
        };
        if cancelling {
            Conditions::Cancelling(mirror)
        } else {
            Conditions::Active(mirror)
        }
    }

    fn why(&self, facts: &Facts<'_>, cancelling: bool) -> Why {
        let why = messages::at_the_service(facts, self.cancel_cause, cancelling);
        // A run at the service needs no other write of its metadata.
        let writes = facts.deleting() || !facts.has_finalizer() || !facts.intent_stands;
        if let Some(refused) = facts.memory.refused_write.as_ref().filter(|_| writes) {
            return messages::write_refused(refused, &why.message);
        }
        let as_usual = matches!(
            why.reason,
            Reason::Active | Reason::Cancelling | Reason::DeadlineExceeded
        );
        match &self.unmapped {
            Some(state) if as_usual => messages::state_not_mapped(state, &why.message),
            _ => why,
        }
    }

    /// The complete next status: state, events and cursor together.
    pub(crate) fn status(&self, facts: &Facts<'_>, mut status: RunStatus) -> RunStatus {
        if let Some(read) = &facts.memory.reading {
            if let Some(state) = &read.state {
                status.state = Some(cut(state, MAX_STATE).to_owned());
            }
            if let Some(id) = &read.request_id
                && status.state != facts.status().state
            {
                status.request_id = Some(cut(id, MAX_REQUEST_ID).to_owned());
            }
        }
        details::show(facts, &mut status);
        if status.start_time.is_none() && self.class == Some(StateClass::Active) {
            status.start_time = Some(whole_seconds(facts.wall));
        }
        // Its cancellation may be sent by a process that is lost with the answer: neither a clock that is set back nor
        // another deadline may withdraw it.
        if self.cancel_cause == Some(CancelCause::Deadline) && self.ended.is_none() {
            let noticed = || whole_seconds(facts.wall);
            status.deadline_exceeded_time.get_or_insert_with(noticed);
        }
        if let Some(at) = facts.memory.cancel.accepted_at {
            // The latest one: an earlier cancel without effect must not use up the time of the next.
            let latest = Some(whole_seconds(at));
            status.cancel_accepted_time = status.cancel_accepted_time.max(latest);
        }
        status.handled_retry = facts.retry_annotation().or(status.handled_retry);
        facts.memory.event_buffer.fold(&mut status);
        facts.with_conditions(status, &self.conditions(facts))
    }
}

/// Whether the status shows that the run is polled, as all places for streams are taken. Once shown it stays until another
/// change is written while a stream is open: waiting for a place again costs no write.
fn polled(facts: &Facts<'_>) -> bool {
    let synced = find(&facts.status().conditions, ConditionType::Synced);
    let shown = synced.is_some_and(|c| c.reason == Reason::Polled.as_str());
    match facts.stream {
        Stream::Waiting { .. } => true,
        Stream::Closed => shown,
        Stream::Open => {
            let same = |state| facts.status().state.as_deref() == Some(cut(state, MAX_STATE));
            shown && facts.memory.state_read().is_none_or(same)
        }
    }
}

fn deadline(facts: &Facts<'_>, status: &RunStatus) -> Option<Timestamp> {
    let seconds = u64::try_from(facts.deadline_seconds()?).ok()?;
    let submitted = status.submission_time.as_ref()?.0;
    Some(after_stored(submitted, seconds))
}

pub(crate) struct Staleness {
    pub(crate) why: Option<Why>,
    pub(crate) unusable: bool,
    /// Time at which a reason that is not in the status yet is written.
    pub(crate) shown_at: Option<Timestamp>,
}

fn staleness(facts: &Facts<'_>) -> Staleness {
    let stale = |why, unusable| Staleness {
        why,
        unusable,
        shown_at: None,
    };
    match facts.workspace {
        WorkspaceView::Unknown => stale(None, true),
        WorkspaceView::Missing => stale(Some(messages::workspace_missing(facts)), true),
        WorkspaceView::NotReady {
            reason,
            message,
            since,
        } => {
            let shown_at = not_shown_yet(facts, *since);
            let why = match shown_at {
                // Until then the status stays as it is.
                Some(_) => shown(facts),
                None => Some(messages::workspace_not_ready(facts, *reason, message)),
            };
            // A token is used only after it was verified: no call is made before the Workspace is Ready.
            Staleness {
                shown_at,
                ..stale(why, true)
            }
        }
        WorkspaceView::Ready(session) => {
            if let Some((reason, pinned)) = moved(facts, session) {
                let why = messages::elsewhere(facts, reason, pinned, session);
                return stale(Some(why), true);
            }
            let failed = facts.failures_of(Call::Get).filter(|t| !t.passing());
            let why = failed.map_or_else(|| still_stale(facts), |t| Some(messages::stale(t)));
            stale(why, facts.awaits_another_session())
        }
    }
}

/// The reason for staleness in the status, until something was read with the current session.
pub(crate) fn still_stale(facts: &Facts<'_>) -> Option<Why> {
    let session = facts.workspace.session().map(|s| s.number);
    let read = facts.memory.reading.as_ref().map(|s| s.session);
    if read.is_some() && read == session {
        return None;
    }
    shown(facts)
}

pub(crate) fn shown(facts: &Facts<'_>) -> Option<Why> {
    messages::as_shown(facts, ConditionType::Synced, "False")
}

/// Time at which a Workspace's failure that began at `since` is written, if that is ahead.
pub(crate) fn not_shown_yet(facts: &Facts<'_>, since: Timestamp) -> Option<Timestamp> {
    let shown_at = delays::workspace_failure_shown_at(facts.uid, since);
    (shown_at > facts.now).then_some(shown_at)
}
