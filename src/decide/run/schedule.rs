//! Times at which a run at the service is read, cancelled, cancelled again, or released.

use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Reason, contract::StateClass};
use crate::decide::{
    conditions::Why,
    decision::{Decision, Effect},
    delays::{self, CANCEL_GRACE, NOT_FOUND_APART, UNSTREAMED, later},
    events::EventDraft,
    facts::{Facts, release},
    failure::{Call, CallFailures, Class},
    inputs::Stream,
    memory::Reading,
    messages::{self, CancelCause},
};

use super::status::{RemoteState, shown, still_stale};

pub(crate) fn next_effect(facts: &Facts<'_>, remote: &RemoteState, run_id: &str) -> Decision {
    if remote.cancel_cause == Some(CancelCause::Deletion)
        && let Some(events) = deletion_done(facts, remote)
    {
        return release(facts, events);
    }
    let cancel = remote.cancel_cause.and_then(|_| cancel_at(facts, remote));
    let regular = regular_at(facts);
    let refresh = hinted_at(facts).map_or(regular, |at| at.min(regular));
    let run_id = run_id.to_owned();
    if cancel.is_some_and(|at| at <= facts.now) {
        return Decision::act(Effect::Cancel { run_id });
    }
    if refresh <= facts.now {
        return Decision::act(Effect::Refresh { run_id });
    }
    let times = [cancel, remote.deadline_ahead(facts)];
    let next = times.into_iter().flatten().fold(refresh, Timestamp::min);
    Decision::quiet().requeue_at(next)
}

/// Events for the release of a run not seen to end: cancel and GET both deny it, or it was cancelling for long enough.
fn deletion_done(facts: &Facts<'_>, remote: &RemoteState) -> Option<Vec<EventDraft>> {
    let cancel = &facts.memory.cancel;
    let denied_by_cancel = cancel.refused == Some(Reason::RunNotFound);
    let denied_by_get = denied_at(facts).is_some() && cancel.denied_since;
    if denied_by_cancel && denied_by_get {
        return Some(Vec::new());
    }
    if !cancelled_long_enough(facts, remote) {
        return None;
    }
    let run_id = facts.run_id()?;
    Some(vec![EventDraft::cancel_unconfirmed(run_id)])
}

fn denied_at(facts: &Facts<'_>) -> Option<Timestamp> {
    let failed = facts.failures_of(Call::Get)?;
    (failed.last.class == Class::Refused(Reason::RunNotFound)).then_some(failed.at)
}

/// Time at which the run is cancelled or cancelled again; `None` while a cancellation is in progress.
fn cancel_at(facts: &Facts<'_>, remote: &RemoteState) -> Option<Timestamp> {
    let memory = facts.memory;
    let stored = facts.status().cancel_accepted_time.as_ref().map(|t| t.0);
    let failed = facts.failures_of(Call::Cancel);
    let retry = failed.filter(|t| t.last.class.refusal().is_none());
    let allowed = retry.map_or(facts.now, |t| facts.next_attempt(t));
    let refused = failed.filter(|_| memory.cancel.refused.is_some());
    // A run that stays plainly active is cancelled again at the interval of polls.
    let (settings, count) = (facts.settings, memory.cancel.count);
    let seed = delays::seed(facts.uid, count);
    let gap = delays::poll_interval(count, settings.poll_min, settings.poll_max, seed);
    let again = match (refused, memory.cancel.answered_at, stored) {
        (Some(refused), _, _) => facts.next_attempt(refused),
        (None, Some(answered), _) => later(answered, gap),
        (None, None, Some(accepted)) => later(facts.now, gap.saturating_sub(facts.since(accepted))),
        (None, None, None) => return Some(allowed),
    };
    // A GET first: it is the truth.
    let repeats = !is_in_progress(facts, remote) && memory.cancel.read_since;
    repeats.then(|| again.max(allowed))
}

/// Whether the run was seen cancelling; such a cancellation is not repeated.
fn is_in_progress(facts: &Facts<'_>, remote: &RemoteState) -> bool {
    // A state seen before the service denied the run no longer counts.
    remote.class == Some(StateClass::Cancelling)
        && facts.memory.cancel.refused.is_none()
        && denied_at(facts).is_none()
}

/// Whether a GET showed the run cancelling at least five minutes after the later of deletion and latest accepted cancel:
/// by the wall clock, since both times are stored, and in the process that cancelled by process time as well.
fn cancelled_long_enough(facts: &Facts<'_>, remote: &RemoteState) -> bool {
    let stored = facts.status().cancel_accepted_time.as_ref().map(|t| t.0);
    let Some(accepted) = stored.max(facts.memory.cancel.accepted_at) else {
        return false;
    };
    let answered = facts.memory.cancel.answered_at;
    let waited = |s: &Reading| answered.is_none_or(|at| long_enough(at, s.at));
    let deleted = facts.deletion_requested_at();
    let read_since = |s: &Reading| {
        s.by_get
            && long_enough(accepted, s.wall)
            && deleted.is_none_or(|at| long_enough(at, s.wall))
            && waited(s)
    };
    remote.class == Some(StateClass::Cancelling)
        && facts.memory.reading.as_ref().is_some_and(read_since)
}

fn long_enough(since: Timestamp, read: Timestamp) -> bool {
    read >= later(since, CANCEL_GRACE)
}

/// Time at which a hint leads to a GET, also after one that failed.
fn hinted_at(facts: &Facts<'_>) -> Option<Timestamp> {
    let memory = facts.memory;
    let due = memory.hint_due(facts.now);
    let hinted = match facts.failures_of(Call::Get) {
        None => memory.event_buffer.refresh_wanted(),
        Some(failed) => memory.event_buffer.fresh_hint() && !failed.last.delays_hints(),
    };
    hinted.then_some(due)
}

fn regular_at(facts: &Facts<'_>) -> Timestamp {
    let memory = facts.memory;
    let settings = facts.settings;
    if let Some(failed) = facts.failures_of(Call::Get) {
        return retry_at(facts, failed);
    }
    let read = memory.reading.as_ref();
    let Some(read) = read.filter(|s| s.by_get || s.state.is_some()) else {
        return facts.now;
    };
    if still_stale(facts).is_some() {
        return facts.now;
    }
    let quiet = match memory.gets_behind_event {
        0 => memory.quiet_polls,
        // The end that an event names will show soon.
        gets_behind_event => gets_behind_event.saturating_sub(1),
    };
    let (shortest, longest) = (settings.poll_min, settings.poll_max);
    let (since, quiet, longest) = match facts.stream {
        Stream::Open if memory.gets_behind_event == 0 => (read.at, u32::MAX, longest),
        Stream::Open | Stream::Closed => (read.at, quiet, longest),
        // Until then the stream delivered the changes.
        Stream::Waiting { since } => {
            let longest = longest.min(UNSTREAMED).max(shortest);
            (since.max(read.at), quiet, longest)
        }
    };
    let seed = delays::seed(facts.uid, memory.quiet_polls);
    let wait = delays::poll_interval(quiet, shortest, longest, seed);
    later(since, wait)
}

/// Time at which a failed GET is repeated: within `--poll-max`, unless the answer asks for more.
fn retry_at(facts: &Facts<'_>, failed: &CallFailures) -> Timestamp {
    let asked = delays::asked(failed.last.retry_after());
    let latest = later(failed.at, facts.settings.poll_max.max(asked));
    let at = facts.next_attempt(failed).min(latest);
    let confirms = Duration::from_secs(NOT_FOUND_APART.unsigned_abs());
    match facts.memory.not_found.at {
        // The next 404 that counts is requested as early as it can count.
        Some(counted) if failed.last.class == Class::Refused(Reason::RunNotFound) => {
            at.min(later(counted, confirms).max(later(failed.at, asked)))
        }
        _ => at,
    }
}

/// A due call that has to wait makes the mirror stale. During a pause the call is not requested.
pub(crate) fn held_back(facts: &Facts<'_>, remote: &mut RemoteState, next: Decision) -> Decision {
    if next.effect.as_ref().and_then(Effect::call).is_none() {
        return next;
    }
    let why = &mut remote.staleness.why;
    *why = why.take().or_else(|| delayed(facts));
    facts.pause_over().map_or(next, |over| {
        let deadline = remote.deadline_ahead(facts);
        Decision::quiet().requeue_at(deadline.map_or(over, |at| at.min(over)))
    })
}

/// Reason for staleness while a due call has to wait. The reason in the status stays until the call was made.
fn delayed(facts: &Facts<'_>) -> Option<Why> {
    match facts.call_delay {
        Some(delay) => Some(messages::held_back(facts, delay)),
        None => shown(facts).filter(|why| why.reason == Reason::RateLimited),
    }
}
